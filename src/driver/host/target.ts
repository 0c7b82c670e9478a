/**
 * Examines the directories and files that mounts sit on; layers.ts makes and removes them.
 *
 * Only an empty directory or file is ever accepted, and a symbolic link in the last component is refused, so that nobody can
 * redirect a path of ours. Links further up are valid (/var/lib/kubelet often is one) and are resolved, since mountinfo shows
 * resolved paths.
 */
import type { Stats } from 'node:fs';
import { lstat, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CsiError, insteadOf } from '../../base/errors.js';
import type { SeenEntry, SeenPath } from '../native/look-calls.js';
import type { NativeRunner } from '../native/pool.js';

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

/** One look at a path. */
export async function seePath(native: NativeRunner, path: string): Promise<SeenPath> {
  const { paths } = await native.run('look', { paths: [path], guarded: null, devicePath: null });
  const [seen] = paths;
  if (seen === undefined) throw new Error('a look without an answer');
  return seen;
}

/** What is at the path; null if nothing is. FAILED_PRECONDITION if the path itself is a symbolic link. */
export function plainEntry(path: string, { entry }: SeenPath): SeenPath['entry'] {
  if (entry?.kind !== 'link') return entry;
  throw CsiError.failedPrecondition(
    `${path} is a symbolic link; remove it: mounts are made on real directories and files only`,
  );
}

/** FAILED_PRECONDITION if the path exists and makeTarget would not accept it. Returns whether the path exists. */
export function assertTargetFits(path: string, seen: SeenPath, type: TargetType): boolean {
  const entry = plainEntry(path, seen);
  if (entry === null) return false;
  assertNotMounted(path, entry);
  if (entry.kind !== type) throw CsiError.failedPrecondition(`${path} exists and is not a ${type}; remove it`);
  if (entry.isEmpty) return true;
  throw CsiError.failedPrecondition(`${path} exists and is not empty; a mount would hide its content. Move it away`);
}

/** FAILED_PRECONDITION if the path is anything but an empty directory or file. Returns whether there is one. */
export function assertEmpty(path: string, seen: SeenPath): boolean {
  const entry = plainEntry(path, seen);
  if (entry === null) return false;
  assertNotMounted(path, entry);
  if (entry.isEmpty) return true;
  throw CsiError.failedPrecondition(
    `${path} is neither a mount point nor an empty directory or file; it was left as it is: inspect it and move it away`,
  );
}

function assertNotMounted(path: string, { kind }: SeenEntry): void {
  if (kind !== 'mount point') return;
  throw CsiError.failedPrecondition(`${path} has something mounted on it; it was left as it is: unmount it`);
}

/** Whether the path holds content that nobody may remove: anything but an empty directory or an empty file. */
export function holdsContent(path: string, seen: SeenPath): boolean {
  const entry = plainEntry(path, seen);
  return entry !== null && !entry.isEmpty;
}
