/** Changes fields of a thin pool's superblock directly, and updates its checksum. */
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { crc32c } from './crc32c.js';

const BLOCK_BYTES = 4096;
const SALT = 160_774;
const FLAGS = 4;
const TIME = 44;
const NEEDS_CHECK = 1;

export function patchSuperblock(metadata: string, fields: { time?: number; needsCheck?: boolean }): void {
  const fd = openSync(metadata, 'r+');
  try {
    const block = Buffer.alloc(BLOCK_BYTES);
    readSync(fd, block, 0, BLOCK_BYTES, 0);
    if (fields.time !== undefined) block.writeUInt32LE(fields.time, TIME);
    if (fields.needsCheck !== undefined) {
      block.writeUInt32LE(fields.needsCheck ? NEEDS_CHECK : 0, FLAGS);
    }
    // Linux leaves out the inversion at the end of a CRC-32C.
    block.writeUInt32LE((~crc32c(block.subarray(4)) ^ SALT) >>> 0, 0);
    writeSync(fd, block, 0, BLOCK_BYTES, 0);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
