/**
 * The directories and files that mounts sit on, as they are found: layers.ts makes and removes them.
 *
 * Only what is empty is ever taken, and a symbolic link in the last component is refused, so that nobody
 * can turn a path of ours into another one. Links further up are valid (/var/lib/kubelet often is one)
 * and resolved, since mountinfo shows resolved paths.
 */
import type { Stats } from 'node:fs';
import { lstat, readdir, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CsiError, insteadOf } from '../../base/errors.js';
import { mountsAt, readMountInfo } from '../../base/system/mountinfo.js';

/** What has too long a name cannot be there. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'];

export type TargetType = 'directory' | 'file';

/** The path as mountinfo shows it: parents resolved, the last component as it is; null if there is no parent. */
export async function kernelPath(path: string): Promise<string | null> {
  const parent = await realpath(dirname(path)).catch(insteadOf(ABSENT, null));
  return parent && join(parent, basename(path));
}

/** What is at the path, links not followed; null if nothing. */
export function entryAt(path: string): Promise<Stats | null> {
  return lstat(path).catch(insteadOf(ABSENT, null));
}

/**
 * FAILED_PRECONDITION if the path itself is a symbolic link. A mount point is none, also where the
 * file system on it has shut down and fails every stat.
 */
export async function assertNoLink(path: string): Promise<void> {
  try {
    await plainEntryAt(path);
  } catch (thrown) {
    if (thrown instanceof CsiError || mountsAt(await readMountInfo(), path).length === 0)
      throw thrown;
  }
}

/** What is at the path; null if nothing. FAILED_PRECONDITION if it is a symbolic link. */
export async function plainEntryAt(path: string): Promise<Stats | null> {
  const found = await entryAt(path);
  if (found?.isSymbolicLink() !== true) return found;
  throw CsiError.failedPrecondition(
    `${path} is a symbolic link; remove it: mounts are made on real directories and files only`,
  );
}

/** FAILED_PRECONDITION if something is there that makeTarget would not take. Returns whether there is one to take. */
export async function assertTargetFits(path: string, type: TargetType): Promise<boolean> {
  const found = await plainEntryAt(path);
  if (found === null) return false;
  const fits = type === 'directory' ? found.isDirectory() : found.isFile();
  if (!fits) throw CsiError.failedPrecondition(`${path} exists and is not a ${type}; remove it`);
  if (await isEmpty(path, found)) return true;
  throw CsiError.failedPrecondition(
    `${path} exists and is not empty; a mount would hide its content. Move it away`,
  );
}

/** FAILED_PRECONDITION if the path holds anything but an empty directory or file. Returns what it holds. */
export async function assertEmpty(path: string): Promise<Stats | null> {
  const found = await plainEntryAt(path);
  if (found === null || (await isEmpty(path, found))) return found;
  throw CsiError.failedPrecondition(
    `${path} is neither a mount point nor an empty directory or file; it was left as it is: inspect it and move it away`,
  );
}

/** Whether something is there that nobody may remove: neither an empty directory nor an empty file. */
export async function holdsContent(path: string): Promise<boolean> {
  const found = await plainEntryAt(path);
  return found !== null && !(await isEmpty(path, found));
}

async function isEmpty(path: string, found: Stats): Promise<boolean> {
  if (found.isDirectory()) return (await readdir(path)).length === 0;
  return found.isFile() && found.size === 0;
}
