/** Makes a reflink pool on its own file system, in an image in the workspace. */
import { mkdirSync, readFileSync } from 'node:fs';
import { findProgram } from '../../base/process/exec.js';
import { run } from './run.js';
import type { Workspace } from './workspace.js';

export type PoolKind = 'xfs' | 'btrfs';

const MKFS = {
  xfs: ['mkfs.xfs', '-q', '-f', '-m', 'reflink=1'],
  btrfs: ['mkfs.btrfs', '-q', '-f'],
} as const;
/** The image is sparse: only the content of the pool takes space. */
const IMAGE_SIZE = '32G';

export function requireRoot(): void {
  if (process.getuid?.() !== 0) throw new Error('root is needed for loop devices and mounts');
}

/** Rejects unless a pool of this kind can be made. */
async function requireKind(kind: PoolKind): Promise<void> {
  await findProgram(MKFS[kind][0]);
  const isKnown = readFileSync('/proc/filesystems', 'utf8').includes(`\t${kind}\n`);
  if (!isKnown) throw new Error(`this kernel does not know ${kind} (/proc/filesystems)`);
}

/** Resolves to the directory of the pool, which the workspace unmounts and removes. */
export async function makePool(workspace: Workspace, kind: PoolKind, name: string = kind): Promise<string> {
  await requireKind(kind);
  const image = workspace.path(`${name}.img`);
  const directory = workspace.path(name);
  mkdirSync(directory);
  const [mkfs, ...options] = MKFS[kind];
  await run('truncate', ['-s', IMAGE_SIZE, image], { check: true });
  await run(mkfs, [...options, image], { check: true });
  await run('mount', ['-o', 'loop', image, directory], { check: true });
  return directory;
}
