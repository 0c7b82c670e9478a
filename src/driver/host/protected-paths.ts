/**
 * The paths on which no volume may be mounted: the system's own directories, and trees that the caller names.
 *
 * Each path is compared as written, as resolved, and by its file system and its place in that file system, so a bind mount of a
 * protected tree elsewhere is protected too. Knows nothing of volumes.
 */
import { basename, dirname, join, relative } from 'node:path';
import { type MountEntry, mountContaining } from '../../base/system/mountinfo.js';

export interface Protection {
  /** Trees that are protected with everything in them. No mount further up may hide them either. */
  trees: readonly string[];
  /** Directories that no mount may hide. Paths inside them may be used. */
  directories: readonly string[];
}

/** The directories that belong to the system, with everything in them. */
export const SYSTEM_TREES: readonly string[] = [
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/proc',
  '/sbin',
  '/sys',
  '/usr',
  '/run/systemd',
  '/run/udev',
  '/var/cache',
  '/var/log',
  '/var/spool',
  '/var/lib/dpkg',
  '/var/lib/rpm',
  '/var/lib/systemd',
  '/var/backups',
];
/** Other software keeps its files in these directories, and a mount on a directory would hide all of them. */
const SYSTEM_DIRECTORIES: readonly string[] = [
  '/home',
  '/media',
  '/mnt',
  '/opt',
  '/root',
  '/run',
  '/srv',
  '/tmp',
  '/var',
  '/var/lib',
  '/var/lib/kubelet',
  '/var/run',
  '/var/tmp',
];

/**
 * The reason why nothing may be mounted on the path, as a clause for the middle of a sentence; null if the path may be used.
 * `resolved` is the path without symbolic links, or null if its parent does not exist.
 */
export function protectedReason(
  path: string,
  resolved: string | null,
  { trees, directories }: Protection,
  mounts: readonly MountEntry[],
): string | null {
  const allTrees = [...SYSTEM_TREES, ...trees];
  for (const seen of resolved === null ? [path] : [path, resolved]) {
    const tree = allTrees.find((candidate) => isWithin(candidate, seen));
    if (tree !== undefined) return `it lies in ${tree}`;
    const hidden = [...allTrees, ...directories, ...SYSTEM_DIRECTORIES].find((candidate) => isWithin(seen, candidate));
    if (hidden !== undefined) return `a mount there would hide ${hidden}`;
  }
  if (resolved === null) return null;
  const below = mounts
    .map(({ mountPoint }) => mountPoint)
    .filter((mountPoint) => trees.some((tree) => isWithin(tree, mountPoint)));
  const own = [...trees, ...below];
  // A device node that is bound to the path lies in /dev, so the system's trees are compared with the parent only.
  const shown =
    own.find((tree) => isSamePlace(placeOf(mounts, tree), placeOf(mounts, resolved))) ??
    [...SYSTEM_TREES, ...own].find((tree) => isSamePlace(placeOf(mounts, tree), placeInParent(mounts, resolved)));
  return shown === undefined ? null : `it is ${shown}, or something in it, by another name`;
}

/** A place in a file system, whatever the mount points of that file system are. */
interface Place {
  fileSystem: string;
  path: string;
}

function placeOf(mounts: readonly MountEntry[], path: string): Place | null {
  const entry = mountContaining(mounts, path);
  if (entry === null) return null;
  const { major, minor, root, mountPoint } = entry;
  return { fileSystem: `${major}:${minor}`, path: join(root, relative(mountPoint, path)) };
}

function placeInParent(mounts: readonly MountEntry[], path: string): Place | null {
  const parent = placeOf(mounts, dirname(path));
  return parent === null ? null : { ...parent, path: join(parent.path, basename(path)) };
}

function isSamePlace(tree: Place | null, place: Place | null): boolean {
  if (tree === null || place === null || tree.fileSystem !== place.fileSystem) return false;
  return isWithin(tree.path, place.path);
}

export function isWithin(directory: string, path: string): boolean {
  return path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`);
}
