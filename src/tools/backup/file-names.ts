/** Names the files of backups. The names sort by age, identify the snapshot, and have no character that programs interpret. */
import { createHash, randomBytes } from 'node:crypto';

/** `@N`, and at a remote `@N-` with the time at which the file was begun, in milliseconds, and a random part. */
const GENERATION = /@(\d{1,9})(?:-([0-9a-f]{12})[0-9a-f]{8})?(?:\.|$)/;

/** The number of an image that pruning or compacting has made; 0 for any other image. Encoded ids hold no '@'. */
export const generationOf = (name: string): number => Number(GENERATION.exec(name)?.[1] ?? 0);

/** When a file with a name of its own was begun, in milliseconds; null for any other name. */
export function begunAt(name: string): number | null {
  const time = GENERATION.exec(name)?.[2];
  return time === undefined ? null : Number.parseInt(time, 16);
}

/** A name that no other command ever gives to a file. */
export function ownStem(stem: string, generation: number): string {
  return `${stem}@${generation}-${timeDigits(Date.now())}${randomBytes(4).toString('hex')}`;
}

/** Milliseconds as twelve hexadecimal digits. */
export const timeDigits = (time: number): string => time.toString(16).padStart(12, '0');

export const withoutGeneration = (stem: string): string => stem.replace(GENERATION, '');

/** The file name without its ending, and without the number of an image that was made in the place of another one. */
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
