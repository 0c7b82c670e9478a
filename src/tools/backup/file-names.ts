/** Names the files of backups. The names sort by age, identify the snapshot, and have no character that programs interpret. */
import { createHash } from 'node:crypto';

/** The number of an image that pruning has made; 0 for any other image. Encoded ids hold no '@'. */
export const generationOf = (name: string): number => Number(/@(\d{1,9})(\.|$)/.exec(name)?.[1] ?? 0);

/** The file name without its ending, and without the number of an image that pruning has made. */
export const snapshotStem = (id: string, creationTime: Date): string => `${compactTime(creationTime)}-${encodeId(id)}`;

/** For example 20261123T101500.123Z. */
const compactTime = (time: Date): string => time.toISOString().replaceAll(/[-:]/g, '');

/** Leaves room for a time and an ending in a file name of 255 bytes. */
const ENCODED_MAX = 180;

/** Encodes an id as a file name: %XX unless a letter, digit, '-', '_' or non-leading '.'; a long name ends with a digest. */
export function encodeId(id: string): string {
  const encoded = [...Buffer.from(id, 'utf8')]
    .map((byte, index) => {
      const character = String.fromCharCode(byte);
      const isPlain = /[A-Za-z0-9_-]/.test(character) || (character === '.' && index > 0);
      return isPlain ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');
  if (encoded.length <= ENCODED_MAX) return encoded;
  const digest = createHash('sha256').update(id).digest('hex').slice(0, 32);
  return `${encoded.slice(0, ENCODED_MAX - 33)}~${digest}`;
}

export function decodeId(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
