/**
 * The storage of a fake driver: sparse files, and loop devices on them. Byte counts are numbers here, since
 * volumes are a few MiB. Knows nothing of CSI.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { addresses } from '../../support/extent-list.js';
import { clearLoop } from '../../support/ioctls.js';
import { attachLoop } from '../../support/loops.js';

/** The size of a block in lists, and in the file system of the workspace. */
export const BLOCK_BYTES = 4096;

export interface Entry {
  offset: number;
  size: number;
}

function run(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8' });
}

/** A file that holds these blocks of the bytes, and holes. */
export function makeFile(
  path: string,
  sizeBytes: number,
  bytes: Buffer = Buffer.alloc(0),
  blocks: readonly number[] = [],
): void {
  const file = openSync(path, 'w');
  ftruncateSync(file, sizeBytes);
  for (const block of blocks) {
    writeSync(file, blockOf(bytes, block), 0, BLOCK_BYTES, block * BLOCK_BYTES);
  }
  closeSync(file);
}

/** Flushes everything written to the device so far to its file. */
export function flush(device: string): void {
  run('sync', device);
}

/** A loop device, held by a descriptor: the kernel detaches it when that is closed, however this process ends. */
export interface Device {
  path: string;
  holder: number;
}

export function attach(file: string): Device {
  const path = attachLoop(file);
  const holder = openSync(path, 'r');
  // To detach what others have open is put off until its last close.
  const asking = openSync(path, 'r');
  try {
    clearLoop(asking);
  } finally {
    closeSync(asking);
  }
  return { path, holder };
}

/** A loop device stays read-only for its next user if it was made so. */
export function detach({ path, holder }: Device): void {
  try {
    setReadOnly(path, false);
  } finally {
    closeSync(holder);
  }
}

/** Resizes the device to the current size of its file. */
export function regrow(device: string): void {
  run('losetup', '-c', device);
}

export function setReadOnly(device: string, readOnly: boolean): void {
  run('blockdev', readOnly ? '--setro' : '--setrw', device);
}

/** Creates the file at the target and bind-mounts the device on it. */
export function bind(device: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, '', { flag: 'a' });
  run('mount', '--bind', device, target);
}

export function unbind(target: string): void {
  run('umount', target);
  rmSync(target);
}

/** The indices of the blocks that the file system has allocated to the file, in order. */
export function allocatedBlocks(path: string): number[] {
  return [...addresses(path).keys()];
}

/** The indices of the blocks that differ from the others, which read as zeros beyond their end. */
export function differingBlocks(mine: Buffer, others: Buffer): number[] {
  const filled = Buffer.concat([others], mine.length);
  const blocks = [...Array(mine.length / BLOCK_BYTES).keys()];
  return blocks.filter((block) => !blockOf(mine, block).equals(blockOf(filled, block)));
}

export const blockOf = (bytes: Buffer, block: number): Buffer =>
  bytes.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);

/** Blocks as entries; adjacent blocks are merged into one entry or not. */
export function entriesOf(blocks: readonly number[], coalesce: boolean): Entry[] {
  const entries: Entry[] = [];
  for (const block of blocks) {
    const last = entries.at(-1);
    const offset = block * BLOCK_BYTES;
    if (coalesce && last !== undefined && last.offset + last.size === offset) last.size += BLOCK_BYTES;
    else entries.push({ offset, size: BLOCK_BYTES });
  }
  return entries;
}
