/**
 * The storage of a fake driver: sparse files, loop devices on them, and full copies. Byte counts
 * are numbers here, since volumes are a few MiB. Knows nothing of CSI.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The size of a block in lists. */
export const BLOCK_BYTES = 4096;

export interface Entry {
  offset: number;
  size: number;
}

export async function makeFile(path: string, sizeBytes: number): Promise<void> {
  await writeFile(path, '');
  await truncate(path, sizeBytes);
}

/** Copies what has reached the file, extended with zeros. */
export async function copyTo(from: string, to: string, sizeBytes: number): Promise<void> {
  await copyFile(from, to);
  await truncate(to, sizeBytes);
}

/** Flushes everything written to the file or device so far to its backing store. */
export async function flush(path: string): Promise<void> {
  await run('sync', [path]);
}

export async function attach(path: string): Promise<string> {
  const { stdout } = await run('losetup', ['--find', '--show', path]);
  return stdout.trim();
}

/** A loop device stays read-only for its next user if it was made so. */
export async function detach(device: string): Promise<void> {
  await setReadOnly(device, false);
  await run('losetup', ['-d', device]);
}

/** Resizes the device to the current size of its file. */
export async function regrow(device: string): Promise<void> {
  await run('losetup', ['-c', device]);
}

export async function setReadOnly(device: string, readOnly: boolean): Promise<void> {
  await run('blockdev', [readOnly ? '--setro' : '--setrw', device]);
}

/** Creates the file at the target and bind-mounts the device on it. */
export async function bind(device: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, '', { flag: 'a' });
  await run('mount', ['--bind', device, target]);
}

export async function unbind(target: string): Promise<void> {
  await run('umount', [target]);
  await rm(target);
}

/** Sectors written and discarded on a loop device since it was attached. */
export async function sectorsWritten(device: string): Promise<string> {
  const fields = (await readFile(`/sys/block/${basename(device)}/stat`, 'utf8'))
    .trim()
    .split(/\s+/);
  return `${fields[6]} ${fields[13]}`;
}

/** The indices of the blocks that the file system has allocated to the file. */
export async function allocatedBlocks(path: string): Promise<number[]> {
  const { stdout } = await run('filefrag', ['-s', '-v', `-b${BLOCK_BYTES}`, path]);
  const line = /^ *\d+: +(\d+)\.\. *(\d+): .*?([a-z_,]*)$/;
  return stdout.split('\n').flatMap((text) => {
    const [, first = '0', last = '0', flags = ''] = line.exec(text) ?? [];
    if (!line.test(text) || flags.includes('unwritten')) return [];
    return Array.from({ length: Number(last) - Number(first) + 1 }, (_, n) => Number(first) + n);
  });
}

/** The indices of the blocks of `path` that differ from the other file, which reads as zeros beyond its end. */
export async function differingBlocks(path: string, other: string): Promise<number[]> {
  const [mine, theirs] = [await readFile(path), await readFile(other)];
  const filled = Buffer.concat([theirs, Buffer.alloc(mine.length)], mine.length);
  const blocks = [...Array(Math.ceil(mine.length / BLOCK_BYTES)).keys()];
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
    if (coalesce && last !== undefined && last.offset + last.size === offset)
      last.size += BLOCK_BYTES;
    else entries.push({ offset, size: BLOCK_BYTES });
  }
  return entries;
}
