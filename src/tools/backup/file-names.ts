/** The names that backups have as files: they sort by age, say what they are of, and hold no character that a program reads. */
import { createHash } from 'node:crypto';

/** Of an image that pruning has made; 0: another. Ids in names have no '@'. */
export const generationOf = (name: string): number => Number(/@(\d{1,9})(\.|$)/.exec(name)?.[1] ?? 0);

/** Without the ending, and without the number of an image that pruning has made. */
export const snapshotStem = (id: string, creationTime: Date): string => `${compactTime(creationTime)}-${encodeId(id)}`;

/** As 20261123T101500.123Z. */
const compactTime = (time: Date): string => time.toISOString().replaceAll(/[-:]/g, '');

/** Leaves room for a time and an ending in a file name of 255 bytes. */
const ENCODED_MAX = 180;

/** A name of a file: what is not a letter, digit, '-', '_' or an inner '.' as %XX; a long one ends with a digest. */
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
