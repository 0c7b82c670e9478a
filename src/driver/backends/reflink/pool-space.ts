/**
 * The space of a reflink pool: the free space of its file system, and how much of that is committed to sparse volume files.
 * Reads sizes, changes nothing.
 */
import type { LoopDevice } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { PoolCapacity, PoolStatistics } from '../backend.js';
import { type DirectoryFile, filesIn } from '../directory-files.js';
import { type PoolSpace, poolAccount, type SpacePolicy } from '../pool-account.js';
import { isObjectName, type PoolLayout } from './pool-layout.js';

const MINIMUM_VOLUME_BYTES = 1n << 20n;
/** Whole file system blocks, so that no tail block is shared between content and slack. */
const GRANULARITY_BYTES = 4096n;
const SIZES = { minimumVolumeBytes: MINIMUM_VOLUME_BYTES, granularityBytes: GRANULARITY_BYTES };

/** @param committedBytes what existing volumes may still claim: the parts of them that were never written */
export function poolCapacity(space: PoolSpace, committedBytes: bigint, policy: SpacePolicy): PoolCapacity {
  return poolAccount(space, committedBytes, SIZES, policy);
}

export async function poolStatistics(
  native: NativeRunner,
  layout: PoolLayout,
  space: PoolSpace,
  policy: SpacePolicy,
): Promise<PoolStatistics> {
  const volumes = new Map<string, bigint>();
  let promisedBytes = 0n;
  for (const file of await volumeFiles(native, layout)) {
    volumes.set(file.name, file.allocatedBytes);
    promisedBytes += unwrittenBytes(file);
  }
  const capacity = poolAccount(space, promisedBytes, SIZES, policy);
  const attached = await attachedVolumes(native, layout);
  return { space: { capacity, promisedBytes, volumes }, thin: null, attached };
}

/** Counts by st_dev: on XFS only volumes are on loop devices, and on btrfs the subvolume of volumes has its own st_dev. */
async function attachedVolumes(
  native: NativeRunner,
  { volumes }: PoolLayout,
): Promise<{ direct: number; pageCache: number }> {
  // The path ends with a slash, because the path of a descriptor is a link.
  const { entry } = await native.run('entryOf', { path: `${volumes}/` });
  const { devices } = await native.run('loopList', {});
  const isOwn = ({ backingDevice }: LoopDevice) => backingDevice === entry?.device;
  const own = devices.filter((device) => isOwn(device) && !device.readOnly);
  const direct = own.filter(({ directIo }) => directIo).length;
  return { direct, pageCache: own.length - direct };
}

/** How much of the volumes was written, and how much was never written. */
export interface VolumeBytes {
  written: bigint;
  unwritten: bigint;
}

/** Looks at every volume. */
export async function volumeBytes(native: NativeRunner, layout: PoolLayout): Promise<VolumeBytes> {
  return bytesOf(await volumeFiles(native, layout));
}

export function bytesOf(files: readonly DirectoryFile[]): VolumeBytes {
  let written = 0n;
  let unwritten = 0n;
  for (const file of files) {
    written += file.allocatedBytes;
    unwritten += unwrittenBytes(file);
  }
  return { written, unwritten };
}

async function volumeFiles(native: NativeRunner, layout: PoolLayout): Promise<DirectoryFile[]> {
  return (await filesIn(native, layout.volumes)).filter(({ name }) => isObjectName(name));
}

function unwrittenBytes({ allocatedBytes, sizeBytes }: DirectoryFile): bigint {
  return allocatedBytes < sizeBytes ? sizeBytes - allocatedBytes : 0n;
}
