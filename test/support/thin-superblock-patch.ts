/** Changes fields of a thin pool's superblock directly, and updates its checksum. */
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';

const BLOCK_BYTES = 4096;
const SALT = 160_774;
const FLAGS = 4;
const TIME = 44;
const NEEDS_CHECK = 1;

export function patchSuperblock(
  metadata: string,
  fields: { time?: number; needsCheck?: boolean },
): void {
  const fd = openSync(metadata, 'r+');
  try {
    const block = Buffer.alloc(BLOCK_BYTES);
    readSync(fd, block, 0, BLOCK_BYTES, 0);
    if (fields.time !== undefined) block.writeUInt32LE(fields.time, TIME);
    if (fields.needsCheck !== undefined) {
      block.writeUInt32LE(fields.needsCheck ? NEEDS_CHECK : 0, FLAGS);
    }
    block.writeUInt32LE((crc32c(block.subarray(4)) ^ SALT) >>> 0, 0);
    writeSync(fd, block, 0, BLOCK_BYTES, 0);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** CRC-32C without the inversion at the end. */
function crc32c(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return crc >>> 0;
}
