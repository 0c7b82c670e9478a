/**
 * Whether what a call has changed survives a power cut, by the steps that it took: a kill does not tell, because the
 * page cache outlives it. Knows names of steps (steps.ts) and nothing of the plugin but which files may be lost.
 *
 *   a file is flushed after its last change, before it gets another name and before the call answers
 *   a directory is flushed after a name in it came, changed or went, before the call answers
 */
import { dirname } from 'node:path/posix';

/** Change a file, its attributes or its blocks. */
const CHANGES = [
  'write',
  'sendfile',
  'copy_file_range',
  'ftruncate',
  'truncate',
  'fallocate',
  'fchmod',
  'fchown',
  'setxattr',
  'removexattr',
  'FICLONE',
  'FICLONERANGE',
  'FS_IOC_SETFLAGS',
  'FS_IOC_FSSETXATTR',
];
const NAMES = ['mkdir', 'mknod', 'symlink', 'BTRFS_IOC_SUBVOL_CREATE'];
/** Not BTRFS_IOC_SNAP_DESTROY: a start removes copies of a subvolume. */
const GONE = ['unlink', 'rmdir'];
const FLUSHES = ['fsync', 'fdatasync'];
/** Flush all that is on the file system. */
const FLUSH_ALL = ['syncfs', 'BTRFS_IOC_SYNC', 'BTRFS_IOC_START_SYNC'];

/** Not of the plugin's files: mount points, directories of the orchestrator, devices, /sys and /proc. */
const OTHERS = /^<(?:work|staging)>|^\//;
/**
 * What a power cut may take: a checkpoint copies what the log holds, a count of commits may lag behind, a lock ends with
 * its process, and a start removes what is unfinished.
 */
const MAY_BE_LOST = /\.sqlite(-commits|-lock)?$|\.tmp$|^<state>\/transfers\//;
/**
 * What may come back: a start removes lists of what is gone and all files of transfers, and a list that was refused is
 * refused again.
 */
const MAY_COME_BACK = /\/(lists|bases|transfers)\/[^/]+$/;
const MAY_BE_UNMARKED = /\/bases\/[^/]+\.(dropped|lost|changed)$/;

/** What a power cut after the last of these steps may undo or mix up; each in words. */
export function undurable(steps: readonly string[]): string[] {
  const files = new Map<string, string>();
  const directories = new Map<string, string>();
  const problems: string[] = [];
  const named = (path: string, step: string): void => {
    directories.set(dirname(path), step);
  };
  for (const step of steps) {
    const [call = '', path = '', other = ''] = step.replace(/ #\d+$/, '').split(' ');
    if (CHANGES.includes(call)) files.set(path, step);
    if (NAMES.includes(call)) named(path, step);
    if (GONE.includes(call)) {
      files.delete(path);
      if (!MAY_COME_BACK.test(path)) named(path, step);
    }
    if (call === 'rename' || call === 'link') {
      const change = files.get(path);
      if (change !== undefined && !OTHERS.test(path)) {
        problems.push(`${step}: the file was not flushed after ${change}`);
      }
      files.delete(path);
      if (!MAY_BE_UNMARKED.test(other)) named(other, step);
      if (call === 'rename' && dirname(path) !== dirname(other)) named(path, step);
    }
    if (FLUSHES.includes(call)) {
      files.delete(path);
      directories.delete(path);
    }
    if (FLUSH_ALL.includes(call)) {
      for (const changed of [files, directories]) dropRoot(changed, rootOf(path));
    }
  }
  for (const [path, step] of files) {
    if (OTHERS.test(path) || MAY_BE_LOST.test(path)) continue;
    problems.push(`${step}: ${path} was not flushed afterwards`);
  }
  for (const [path, step] of directories) {
    if (OTHERS.test(path)) continue;
    problems.push(`${step}: the directory ${path} was not flushed afterwards`);
  }
  return problems;
}

/** `<pool>` of `<pool>/volumes/x`: a file system. */
function rootOf(path: string): string {
  return path.split('/')[0] ?? '';
}

function dropRoot(changed: Map<string, string>, root: string): void {
  for (const path of changed.keys()) if (rootOf(path) === root) changed.delete(path);
}
