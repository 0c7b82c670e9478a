/** Writes to a place of a file or device that exists, durably. */
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';

export function writeAt(path: string, offset: number, bytes: Buffer): void {
  const file = openSync(path, 'r+');
  try {
    writeSync(file, bytes, 0, bytes.length, offset);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
