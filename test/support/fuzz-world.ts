/**
 * What hostile requests are about: paths that may be used, links, and files that must not change; and requests about
 * it that may succeed, as templates for hostile ones that pass the first checks.
 */
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockCapability, type Message, mountCapability } from './csi-client.js';
import type { Random } from './random.js';
import { requestOf } from './request-fields.js';
import type { Workspace } from './workspace.js';

/** The known objects. Grows while requests are answered. */
export interface FuzzWorld {
  volumeIds: string[];
  snapshotIds: string[];
  /** The volume each of them is of. */
  sources: Map<string, string>;
  /** Each with its members. */
  groups: { id: string; snapshotIds: string[] }[];
  /** Below the workspace: conforming ones, links, files, directories that hold something. */
  paths: readonly string[];
  /** Directories that are not empty, and so no volume may be published at. Not to stage in, which is conforming. */
  otherPaths: readonly string[];
  stagingPaths: readonly string[];
  targetPaths: readonly string[];
  pool: string;
}

export const NAMES = Array.from({ length: 24 }, (_, index) => `fuzz ${index}`);
const MIB = 1 << 20;

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
  for (const index of [0, 1, 2, 3, 4, 5]) mkdirSync(workspace.path('staging', `s${index}`), { recursive: true });
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
    'pods/to-directory',
    'pods/to-file',
    'pods/to-nothing',
    'staging/to-directory',
    'pods/around',
    'pods/around/x',
    'pods/to-file/x',
    'pods/a\0b',
    'sentinel/precious',
    'pods/../sentinel/full',
    'pods/p0/../../sentinel/precious',
    'sentinel/link',
    'pods//p0/',
    'pods/./p1',
    'staging/s0/',
    'no/such/parent',
    `pods/${'n'.repeat(300)}`,
    `pods/${'deep/'.repeat(900)}`,
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

export function plausibleRequest(rpc: string, random: Random, world: FuzzWorld): Message {
  const volume_id = pickVolume(random, world);
  const group = random.pick([...world.groups, { id: 'group-x', snapshotIds: ['snap-x'] }]);
  const volume_capability = rpc === 'CreateVolume' ? blockCapability() : usualCapability(volume_id);
  const staging_target_path = usual(world.stagingPaths, volume_id);
  const target_path = random.pick(world.targetPaths);
  return requestOf(rpc, {
    name: random.pick(NAMES),
    node_id: 'test-node',
    volume_id,
    source_volume_id: volume_id,
    source_volume_ids: [...new Set([volume_id, random.pick([...world.volumeIds, volume_id])])],
    capacity_range:
      rpc === 'CreateVolume'
        ? { required_bytes: 16 * MIB, limit_bytes: 16 * MIB }
        : { required_bytes: (16 + random.below(3)) * MIB },
    volume_capability,
    volume_capabilities: [volume_capability],
    volume_content_source: contentSource(random, world),
    mutable_parameters: { readAheadKiB: String(random.below(4096)) },
    snapshot_id: random.pick([...world.snapshotIds, 'snap-x']),
    ...snapshotPair(random, world),
    group_snapshot_id: group.id,
    snapshot_ids: group.snapshotIds,
    staging_target_path,
    target_path,
    volume_path: random.pick([staging_target_path, target_path]),
    ...(UNDOING.test(rpc) && random.below(6) > 0 ? NOBODY : {}),
  });
}

/** What undoes things seldom does: or there is soon nothing left to ask about. */
const UNDOING = /^(Delete(Volume|Snapshot)|NodeUn(stage|publish)Volume)$/;
const NOBODY = { volume_id: 'none-exist-id', snapshot_id: 'none-exist-id' };

/** The same one of them for an id each time, as an orchestrator would. */
function usual<T>(items: readonly T[], id: string): T {
  return items[id.charCodeAt(id.length - 1) % items.length] as T;
}

function usualCapability(volumeId: string): Message {
  return usual([...Array(7).fill(blockCapability()), mountCapability('ext4')], volumeId);
}

/** Few volumes make most of the requests, so that what needs several in a row comes about. */
function pickVolume(random: Random, world: FuzzWorld): string {
  const favourites = world.volumeIds.slice(0, 3);
  return random.pick(random.below(3) > 0 ? [...favourites, 'vol-x'] : [...world.volumeIds, 'vol-x']);
}

/** Two snapshots of one volume in the order they were taken, if there are any. */
function snapshotPair(random: Random, { snapshotIds, sources }: FuzzWorld): Message {
  const pairs = snapshotIds.flatMap((base, index) =>
    snapshotIds
      .slice(index + 1)
      .filter((target) => sources.get(target) === sources.get(base))
      .map((target) => ({ base_snapshot_id: base, target_snapshot_id: target })),
  );
  return random.pick([...pairs, { base_snapshot_id: 'snap-x', target_snapshot_id: 'snap-y' }]);
}

function contentSource(random: Random, world: FuzzWorld): Message | null {
  if (random.below(4) > 0) return null;
  if (random.below(2) === 0) return { volume: { volume_id: random.pick([...world.volumeIds, '-']) } };
  return { snapshot: { snapshot_id: random.pick([...world.snapshotIds, '-']) } };
}
