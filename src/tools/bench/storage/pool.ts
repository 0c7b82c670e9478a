/** A reflink pool on a file system of its own, in an image of the workspace. */
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { findProgram, isMissing } from '../peers.js';
import { run } from '../run.js';
import type { Workspace } from '../workspace.js';

export type PoolKind = 'xfs' | 'btrfs';

const MKFS = {
  xfs: ['mkfs.xfs', '-q', '-f', '-m', 'reflink=1'],
  btrfs: ['mkfs.btrfs', '-q', '-f'],
} as const;
/** Sparse: only what the pool holds takes room. */
const IMAGE_SIZE = '32G';

export function requireRoot(): void {
  if (process.getuid?.() !== 0) throw new Error('root is needed for loop devices and mounts');
}

/** Null, or why there can be no pool of this kind. */
export function poolProblem(kind: PoolKind): string | null {
  const [mkfs] = MKFS[kind];
  const found = findProgram(mkfs);
  if (isMissing(found)) return found.missing;
  const isKnown = readFileSync('/proc/filesystems', 'utf8').includes(`\t${kind}\n`);
  return isKnown ? null : `this kernel does not know ${kind} (/proc/filesystems)`;
}

/** Resolves to the directory. The workspace unmounts and removes it. */
export async function makePool(
  workspace: Workspace,
  kind: PoolKind,
  name: string = kind,
): Promise<string> {
  const image = workspace.path(`${name}.img`);
  const directory = workspace.path(name);
  mkdirSync(directory);
  const [mkfs, ...options] = MKFS[kind];
  await run('truncate', ['-s', IMAGE_SIZE, image], { check: true });
  await run(mkfs, [...options, image], { check: true });
  await run('mount', ['-o', 'loop', image, directory], { check: true });
  return directory;
}

/** The file behind a published volume, raw or mounted, however the pool arranges its files. */
export function backingFileOf(path: string): string {
  const state = statSync(path);
  const rdev = state.isDirectory() ? state.dev : state.rdev;
  // makedev(3): the low byte of the minor number, the major number, the rest of the minor number.
  const [major, minor] = [(rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00)];
  return readFileSync(`/sys/dev/block/${major}:${minor}/loop/backing_file`, 'utf8').trimEnd();
}

/** The file of a snapshot in the pool: `snapshots/<id>`, or the one file in the subvolume of that name. */
export function snapshotFile(pool: string, snapshotId: string): string {
  let path = join(pool, 'snapshots', snapshotId);
  while (statSync(path).isDirectory()) {
    const [only] = readdirSync(path);
    if (only === undefined) throw new Error(`${path} holds no file of a snapshot`);
    path = join(path, only);
  }
  return path;
}
