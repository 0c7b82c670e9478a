/**
 * Examines the directories and files that mounts sit on; layers.ts makes and removes them.
 *
 * Only an empty directory or file is ever accepted, and a symbolic link in the last component is refused, so that nobody can
 * redirect a path of ours. Links further up are valid (/var/lib/kubelet often is one) and are resolved, since mountinfo shows
 * resolved paths.
 */
import type { Stats } from 'node:fs';
import { lstat, readdir, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CsiError, insteadOf } from '../../base/errors.js';
import { mountsAt, readMountInfo } from '../../base/system/mountinfo.js';

/** The errors that mean that the path does not exist. A path with too long a name cannot exist. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'];

export type TargetType = 'directory' | 'file';

/** The path as mountinfo shows it: parents resolved, last component unchanged; null if the parent does not exist. */
export async function kernelPath(path: string): Promise<string | null> {
  const parent = await realpath(dirname(path)).catch(insteadOf(ABSENT, null));
  return parent && join(parent, basename(path));
}

/** The entry at the path, without following a link; null if there is none. */
export function entryAt(path: string): Promise<Stats | null> {
  return lstat(path).catch(insteadOf(ABSENT, null));
}

/**
 * FAILED_PRECONDITION if the path itself is a symbolic link. A mount point is no link, even if the file system on it has shut
 * down and fails every stat.
 */
export async function assertNoLink(path: string): Promise<void> {
  try {
    await plainEntryAt(path);
  } catch (thrown) {
    if (thrown instanceof CsiError || mountsAt(await readMountInfo(), path).length === 0) throw thrown;
  }
}

/** The entry at the path; null if there is none. FAILED_PRECONDITION if the entry is a symbolic link. */
export async function plainEntryAt(path: string): Promise<Stats | null> {
  const found = await entryAt(path);
  if (found?.isSymbolicLink() !== true) return found;
  throw CsiError.failedPrecondition(
    `${path} is a symbolic link; remove it: mounts are made on real directories and files only`,
  );
}

/** FAILED_PRECONDITION if the path exists and makeTarget would not accept it. Returns whether the path exists. */
export async function assertTargetFits(path: string, type: TargetType): Promise<boolean> {
  const found = await plainEntryAt(path);
  if (found === null) return false;
  const fits = type === 'directory' ? found.isDirectory() : found.isFile();
  if (!fits) throw CsiError.failedPrecondition(`${path} exists and is not a ${type}; remove it`);
  if (await isEmpty(path, found)) return true;
  throw CsiError.failedPrecondition(`${path} exists and is not empty; a mount would hide its content. Move it away`);
}

/** FAILED_PRECONDITION if the path is anything but an empty directory or file. Returns the entry; null if there is none. */
export async function assertEmpty(path: string): Promise<Stats | null> {
  const found = await plainEntryAt(path);
  if (found === null || (await isEmpty(path, found))) return found;
  throw CsiError.failedPrecondition(
    `${path} is neither a mount point nor an empty directory or file; it was left as it is: inspect it and move it away`,
  );
}

/** Whether the path holds content that nobody may remove: anything but an empty directory or an empty file. */
export async function holdsContent(path: string): Promise<boolean> {
  const found = await plainEntryAt(path);
  return found !== null && !(await isEmpty(path, found));
}

async function isEmpty(path: string, found: Stats): Promise<boolean> {
  if (found.isDirectory()) return (await readdir(path)).length === 0;
  return found.isFile() && found.size === 0;
}
