/** What hostile requests are about: paths that may be used, links, and files that must not change. */
import { createHash } from 'node:crypto';
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { FuzzWorld } from './plausible-requests.js';
import type { Workspace } from './workspace.js';

/** Creates a tree of files, non-empty directories and links that must not change. */
function makeSentinel(directory: string): void {
  mkdirSync(join(directory, 'full', 'deeper'), { recursive: true });
  writeFileSync(join(directory, 'precious'), 'precious');
  writeFileSync(join(directory, 'full', 'deeper', 'file'), 'more of it');
  symlinkSync(join(directory, 'full'), join(directory, 'link'));
}

/** Every entry below a directory with its kind, mode and content. */
export function describeTree(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const path = join(directory, name);
      const found = lstatSync(path);
      let content = '';
      if (found.isSymbolicLink()) content = readlinkSync(path);
      if (found.isFile()) content = createHash('sha256').update(readFileSync(path)).digest('hex');
      return `${name} ${found.mode.toString(8)} ${found.uid} ${found.ino} ${content}`;
    });
}

/** Paths of all kinds below the workspace, and a directory `sentinel` that must not change. */
export function makeWorld(workspace: Workspace): FuzzWorld {
  const sentinel = workspace.path('sentinel');
  makeSentinel(sentinel);
  for (const index of [0, 1, 2, 3, 4, 5])
    mkdirSync(workspace.path('staging', `s${index}`), { recursive: true });
  mkdirSync(workspace.path('pods'));
  symlinkSync(join(sentinel, 'full'), workspace.path('pods', 'to-directory'));
  symlinkSync(join(sentinel, 'precious'), workspace.path('pods', 'to-file'));
  symlinkSync(join(sentinel, 'missing'), workspace.path('pods', 'to-nothing'));
  symlinkSync(join(sentinel, 'full'), workspace.path('staging', 'to-directory'));
  symlinkSync('around', workspace.path('pods', 'around'));
  const here = (path: string): string => `${workspace.directory}/${path}`;
  const six = [0, 1, 2, 3, 4, 5];
  const stagingPaths = six.map((index) => here(`staging/s${index}`));
  const targetPaths = six.map((index) => here(`pods/p${index}`));
  const hostile = [
    ...['pods/to-directory', 'pods/to-file', 'pods/to-nothing', 'staging/to-directory'],
    ...['pods/around', 'pods/around/x', 'pods/to-file/x', 'pods/a\0b', 'sentinel/precious'],
    ...['pods/../sentinel/full', 'pods/p0/../../sentinel/precious', 'sentinel/link'],
    ...['pods//p0/', 'pods/./p1', 'staging/s0/', 'no/such/parent'],
    ...[`pods/${'n'.repeat(300)}`, `pods/${'deep/'.repeat(900)}`],
  ];
  return {
    volumeIds: [],
    snapshotIds: [],
    sources: new Map(),
    groups: [],
    stagingPaths,
    targetPaths,
    paths: [...stagingPaths, ...targetPaths, ...hostile.map(here), 'some/path', '.', ''],
    otherPaths: ['sentinel', 'sentinel/full', 'xfs.pool', 'plugin'].map(here),
    pool: 'main',
  };
}
