/** The metadata that the suite thin reads: an origin and two snapshots of it, generated, in memory or on the disk. */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../../src/base/package-root.js';
import { run } from '../../../src/tools/bench/run.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';

export const BLOCK_BYTES = 65_536;
/** The two snapshots; device 1 is the origin. */
export const BASE_DEVICE = 2;
export const TARGET_DEVICE = 3;

const MAPPED_BLOCKS = { full: 4_000_000, tiny: 20_000 } as const;
const GENERATOR = packagePath('scripts/make-thin-metadata');
const MEMORY = '/dev/shm';
const TMPFS_MAGIC = 0x01021994;
const NEEDED_BYTES = 2 ** 29;

export interface ThinCase {
  name: string;
  words: string;
  pattern: 'random' | 'clustered' | 'sequential';
  /** Part of the mapped blocks that was written between the two snapshots. */
  changed: number;
  /** How many times faster than thin_delta the scan has to be: somewhat less than it was on an idle machine. */
  inMemory: number;
  onDisk: number;
}

export const THIN_CASES: readonly [ThinCase, ...ThinCase[]] = [
  {
    name: 'random',
    words: '1 % of the blocks changed, at random',
    pattern: 'random',
    changed: 0.01,
    inMemory: 10,
    onDisk: 3,
  },
  {
    name: 'random-few',
    words: '0.1 % of the blocks changed, at random',
    pattern: 'random',
    changed: 0.001,
    inMemory: 50,
    onDisk: 5,
  },
  {
    name: 'clustered',
    words: '1 % of the blocks changed, in clusters of 64',
    pattern: 'clustered',
    changed: 0.01,
    inMemory: 200,
    onDisk: 15,
  },
  {
    name: 'sequential',
    words: '1 % of the blocks changed, one after the other',
    pattern: 'sequential',
    changed: 0.01,
    inMemory: 500,
    onDisk: 50,
  },
];

/** A file or a device, and the size of the volumes in it. */
export interface Metadata {
  path: string;
  volumeBytes: bigint;
}

/** A directory in memory. The cleanup of the settings removes it. */
export function makeMemoryDirectory({ cleanup }: Settings): string {
  const { type, bavail, bsize } = statfsSync(MEMORY);
  if (type !== TMPFS_MAGIC || bavail * bsize < NEEDED_BYTES) {
    throw new Error(`the suite thin needs 512 MiB of a tmpfs at ${MEMORY}, for metadata in memory`);
  }
  const directory = mkdtempSync(join(MEMORY, 'blockdelta-bench-'));
  cleanup.defer(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Writes the file: nodes shared as a kernel shares them, three quarters full, scattered. */
export async function makeMetadata(
  path: string,
  { pattern, changed }: Pick<ThinCase, 'pattern' | 'changed'>,
  size: Settings['size'] | 'empty',
): Promise<Metadata> {
  const mapped = size === 'empty' ? 1 : MAPPED_BLOCKS[size];
  const options = { mapped, pattern, changed, snaps: 2 };
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  await run(GENERATOR, ['-o', path, ...words], { check: true });
  return { path, volumeBytes: BigInt(mapped) * BigInt(BLOCK_BYTES) };
}

/**
 * A block device with the file's content: a copy on the disk, behind a loop device that reads it past the page cache.
 * thin_delta and the native scan both read a device past the page cache, so this is one medium for both.
 */
export async function onDisk(
  workspace: Workspace,
  { path, volumeBytes }: Metadata,
): Promise<Metadata & { remove: () => Promise<void> }> {
  const copy = workspace.path('metadata');
  await run('cp', ['--sparse=always', path, copy], { check: true });
  await run('sync', [copy], { check: true });
  const options = ['--find', '--show', '--read-only', '--direct-io=on'];
  const { stdout } = await run('losetup', [...options, copy], { check: true });
  const device = stdout.trim();
  const remove = async (): Promise<void> => {
    await run('losetup', ['--detach', device], { check: true });
    rmSync(copy);
  };
  return { path: device, volumeBytes, remove };
}
