/** The fixtures of released versions: what each has left on a disk, and what it answered about it (docs/engineering/formats.md). */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';
import type { CsiClient, Message, Range } from './csi-client.js';
import type { HeldVolume } from './orchestrator.js';
import type { Workspace } from './workspace.js';

export const RELEASED_NODE_ID = 'released-node';
/** The pool, and its directory on the node's disk; the state directory is beside it. */
export const RELEASED_POOL = 'main';

/** What the plugin answered when the fixture was made, and what it had stored. Sizes and offsets are numbers. */
export interface ReleasedNode {
  volumes: { id: string; sizeBytes: number; source: Message | null }[];
  snapshots: { id: string; volumeId: string; sizeBytes: number; group: string; created: Message }[];
  /** Digests of the files of volumes and snapshots. */
  contents: Record<string, string>;
  /** Of `<base> <target>`, and of `<snapshot>`: `<offset>+<size>`, with spaces between. */
  lists: Record<string, string>;
  /** Ids of what the tests use, by name. */
  ids: Record<'chain' | 'first' | 'second' | 'third' | 'fourth' | 'newest' | 'held' | 'restored' | 'group', string>;
  /** Ids of what was being deleted. */
  deleting: string[];
  /** What was written to the volume `newest` after its snapshot `held`, which was deleted. */
  changedSinceHeld: string;
  /** What was staged and published when the node stopped. */
  used: HeldVolume;
  /** The fields of each command's `--json`. */
  fields: Record<string, string[]>;
}

export interface Release {
  version: string;
  /** A file of its fixture. */
  path(name: string): string;
  node(): ReleasedNode;
}

const FIXTURES = 'test/fixtures';

export const releases: readonly Release[] = readdirSync(packagePath(FIXTURES))
  .filter((name) => /^\d+\.\d+\.\d+$/.test(name))
  .map(release);

function release(version: string): Release {
  const path = (name: string): string => packagePath(join(FIXTURES, version, name));
  return { version, path, node: () => JSON.parse(readFileSync(path('node.json'), 'utf8')) };
}

/** Mounts a copy of the node's disk. Returns its mount point. */
export function mountReleased(workspace: Workspace, { path }: Release): string {
  const image = workspace.path('node.img');
  const mountPoint = workspace.path('node');
  execFileSync('zstd', ['-q', '-d', '--sparse', path('node.img.zst'), '-o', image]);
  mkdirSync(mountPoint);
  // Several tests may have a copy at the same time.
  execFileSync('mount', ['-o', 'loop,nouuid', image, mountPoint]);
  return mountPoint;
}

/** Settings of a plugin on that disk. */
export const releasedSettings = (disk: string): Record<string, string> => ({
  BLOCKDELTA_NODE_ID: RELEASED_NODE_ID,
  BLOCKDELTA_STATE_DIR: join(disk, 'state'),
  BLOCKDELTA_POOLS: `${RELEASED_POOL}=${join(disk, 'pool')}`,
  BLOCKDELTA_CONTROLLER_PUBLISH: 'on',
  // The bases of a fixture are older than any that a node retains.
  BLOCKDELTA_RETAINED_BASES_AGE: '3650d',
});

/** Unpacks the directory of backups into another one. */
export function unpackBackups({ path }: Release, directory: string): void {
  execFileSync('tar', ['-x', '--zstd', '-f', path('backups.tar.zst'), '-C', directory]);
}

export const rangesAsText = (ranges: readonly Range[]): string =>
  ranges.map(({ offset, size }) => `${offset}+${size}`).join(' ');

/** All volumes and snapshots, as the plugin answers. */
export async function listed(client: CsiClient): Promise<Pick<ReleasedNode, 'volumes' | 'snapshots'>> {
  const { entries: volumes } = await client.controller.ListVolumes({});
  const { entries: snapshots } = await client.controller.ListSnapshots({});
  return {
    volumes: volumes.map(({ volume }: Message) => ({
      id: volume.volume_id,
      sizeBytes: Number(volume.capacity_bytes),
      source: volume.content_source,
    })),
    snapshots: snapshots.map(({ snapshot }: Message) => ({
      id: snapshot.snapshot_id,
      volumeId: snapshot.source_volume_id,
      sizeBytes: Number(snapshot.size_bytes),
      group: snapshot.group_snapshot_id,
      created: snapshot.creation_time,
    })),
  };
}

/** Of a volume, a snapshot or what was restored of one. */
export const digestOf = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex');

/** Which of the fields a command does not print any more. */
export function missingIn(printed: unknown, fields: readonly string[] = []): string[] {
  const found = fieldsIn(printed);
  return fields.filter((field) => !found.includes(field));
}

/** The names of fields in what a command prints as JSON, with those of objects in it. */
export function fieldsIn(value: unknown, place = ''): string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((each) => fieldsIn(each, place)))];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => [`${place}${name}`, ...fieldsIn(each, `${place}${name}.`)]);
}
