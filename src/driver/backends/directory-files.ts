/**
 * The files of a directory of a pool, with their sizes if needed: one task on a worker thread for a whole directory,
 * because a pool may hold tens of thousands of files.
 */
import type { NativeRunner } from '../native/pool.js';

export interface DirectoryEntry {
  name: string;
  regular: boolean;
}

export interface DirectoryFile extends DirectoryEntry {
  sizeBytes: bigint;
  /** As the file system counts them, including blocks shared with other files. */
  allocatedBytes: bigint;
}

const FIGURES_PER_FILE = 3;

export async function namesIn(native: NativeRunner, path: string): Promise<string[]> {
  return splitNames((await native.run('listDirectory', { path, sizes: false })).names);
}

/** As filesIn, without looking at the files, which takes four times as long and reads each inode. */
export async function entriesIn(native: NativeRunner, path: string): Promise<DirectoryEntry[]> {
  const { names, figures } = await native.run('listDirectory', { path, sizes: false });
  return splitNames(names).map((name, index) => ({ name, regular: isRegular(figures, index) }));
}

export async function filesIn(native: NativeRunner, path: string): Promise<DirectoryFile[]> {
  const { names, figures } = await native.run('listDirectory', { path, sizes: true });
  return splitNames(names).map((name, index) => ({
    name,
    sizeBytes: figures[index * FIGURES_PER_FILE] ?? 0n,
    allocatedBytes: figures[index * FIGURES_PER_FILE + 1] ?? 0n,
    regular: isRegular(figures, index),
  }));
}

/** Removes the file if it exists. The removal is not durable yet. */
export async function unlink(native: NativeRunner, path: string): Promise<void> {
  await native.run('unlinkFile', { path });
}

const splitNames = (names: string): string[] => (names === '' ? [] : names.split('/'));

const isRegular = (figures: BigUint64Array, index: number): boolean => figures[index * FIGURES_PER_FILE + 2] === 1n;
