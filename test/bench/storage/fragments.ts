/** Files in many extents, made fast: every second block is written, so that each of them is an extent of its own. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { run } from '../../../src/tools/bench/run.js';

export const BLOCK_BYTES = 4096;
/** Signals are heard in between. */
const BLOCKS_AT_ONCE = 5000;

/** Bytes that a file of that many extents needs; it holds half as many. */
export function sizeOfExtents(extents: number): number {
  return 2 * extents * BLOCK_BYTES;
}

/** Writes every second block of a sparse file, durably. */
export async function writeExtents(path: string, extents: number): Promise<void> {
  await writeBlocks(path, extents, (index) => 2 * index);
}

/**
 * Allocates every second block that was never written, which leaves the content of the file as it is, and so
 * the file system in it. On btrfs these extents cost a clone as much as written ones.
 */
export async function allocateExtents(path: string, extents: number): Promise<void> {
  const blocks = Array.from({ length: extents }, (_, index) => index * 2 * BLOCK_BYTES);
  const input = blocks.map((offset) => `falloc -k ${offset} ${BLOCK_BYTES}\n`).join('');
  await run('xfs_io', [path], { check: true, input });
}

/** Writes blocks of new content, durably. */
export async function writeBlocks(path: string, count: number, blockOf: (index: number) => number): Promise<void> {
  const content = randomBytes(BLOCK_BYTES);
  const file = openSync(path, 'r+');
  try {
    for (let index = 0; index < count; index += 1) {
      const block = blockOf(index);
      content.writeUInt32LE(index, 0);
      writeSync(file, content, 0, BLOCK_BYTES, block * BLOCK_BYTES);
      if (index % BLOCKS_AT_ONCE === 0) await setImmediate();
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
