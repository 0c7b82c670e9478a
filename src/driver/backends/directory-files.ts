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

/** @param suffixes of the names that are wanted; all by default */
export async function namesIn(native: NativeRunner, path: string, suffixes?: readonly string[]): Promise<string[]> {
  return (await native.run('readDirectory', { path, ...(suffixes && { suffixes }) })).names;
}

/** As filesIn, without looking at the files, which takes four times as long and reads each inode. */
export async function entriesIn(native: NativeRunner, path: string): Promise<DirectoryEntry[]> {
  const { files, others } = await native.run('readFileTypes', { path });
  return [...files.map((name) => ({ name, regular: true })), ...others.map((name) => ({ name, regular: false }))];
}

/** Removes the file if it exists. The removal is not durable yet. */
export async function unlink(native: NativeRunner, path: string): Promise<void> {
  await native.run('unlinkFile', { path });
}

export async function filesIn(native: NativeRunner, path: string): Promise<DirectoryFile[]> {
  const { names, figures } = await native.run('listDirectory', { path });
  if (names === '') return [];
  return names.split('/').map((name, index) => {
    const first = index * FIGURES_PER_FILE;
    return {
      name,
      sizeBytes: figures[first] ?? 0n,
      allocatedBytes: figures[first + 1] ?? 0n,
      regular: figures[first + 2] === 1n,
    };
  });
}
