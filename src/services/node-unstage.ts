/**
 * Unstaging: everything that staging did is undone, down to the block device.
 *
 * What is mounted in the staging directory is unmounted if it is the volume's, whether or not the
 * catalogue remembers it; what is somebody else's stays. The device is detached when its last use
 * has gone. Killed anywhere, the next call finds what is left and goes on. A pool that cannot be asked
 * keeps nothing mounted; the device is left, and on record, for the call that finds the pool back.
 */
import { CsiError } from '../errors.js';
import { isMountPoint, topMount, unmount } from '../mount/mounter.js';
import { type MountEntry, mountsAt, readMountInfo } from '../mount/mountinfo.js';
import { assertNoLink, entryAt, kernelPath, removeTarget } from '../mount/target.js';
import type { VolumeRecord } from '../volumes/records.js';
import {
  type Belongs,
  belongsTo,
  foreignMount,
  livePublications,
  type NodeDependencies,
  stagedDevicePath,
  usesOf,
  type VolumeView,
  viewForRelease,
} from './node-volume.js';
import { resetDevice } from './volume-settings.js';

/** Undoes what staging did. Not staged there: done. FAILED_PRECONDITION while published from there, or busy. */
export async function unstageVolume(
  deps: NodeDependencies,
  volume: VolumeRecord,
  stagingPath: string,
): Promise<void> {
  const view = await viewForRelease(deps, volume);
  const published = (await livePublications(deps, view)).find(
    (record) => record.stagingPath === stagingPath,
  );
  if (published !== undefined) {
    throw CsiError.failedPrecondition(
      `volume ${volume.volumeId} is still published at ${published.targetPath}; unpublish it before unstaging`,
    );
  }
  await releaseStaging(deps, volume, stagingPath);
}

/** Clears the staging directory of a volume that the catalogue does not know. */
export async function unstageUnknown(volumeId: string, stagingPath: string): Promise<void> {
  const belongs = belongsTo(volumeId, null);
  const directory = await releaseDirectory(stagingPath, belongs);
  if (directory !== null) await releaseDevice(directory, belongs);
}

/** Unmounts and detaches, without asking for publications. The record goes last. */
export async function releaseStaging(
  deps: NodeDependencies,
  volume: VolumeRecord,
  stagingPath: string,
): Promise<void> {
  const before = await viewForRelease(deps, volume);
  await releaseDirectory(stagingPath, belongsTo(volume.volumeId, before.node));
  await clearStagedDevice(deps, before, stagingPath);
  const view = await viewForRelease(deps, volume);
  if (view.poolFailure !== null) throw view.poolFailure;
  if (await isFree(deps, view, stagingPath)) await detach(deps, view);
  await deps.catalogue.removeStaging(volume.volumeId, stagingPath);
}

/**
 * Frees `<staging path>/device` for the volume: from its own device node, and from one that has become
 * another device's since the volume was staged here. Another volume's is left alone and returned.
 */
export async function clearStagedDevice(
  deps: NodeDependencies,
  view: VolumeView,
  stagingPath: string,
): Promise<MountEntry | null> {
  const directory = await kernelPath(stagingPath);
  if (directory === null) return null;
  const { volumeId } = view.volume;
  const records = await deps.catalogue.stagings(volumeId);
  const isRecorded = records.some((record) => record.stagingPath === stagingPath);
  const belongs = isRecorded ? async () => true : belongsTo(volumeId, view.node);
  return releaseDevice(directory, belongs);
}

/** Unmounts the volume's file system. Returns the directory as the kernel sees it; null if it is gone. */
async function releaseDirectory(stagingPath: string, belongs: Belongs): Promise<string | null> {
  const directory = await kernelPath(stagingPath);
  if (directory === null) return null;
  await assertNoLink(directory);
  await unmount(directory, belongs);
  const layers = mountsAt(await readMountInfo(), directory);
  const top = layers.at(-1);
  for (const entry of layers) {
    if (top !== undefined && (await belongs(entry))) throw foreignMount(stagingPath, top.source);
  }
  return directory;
}

/** A file with content is not ours, and neither is anything inside a mount. Returns what is still mounted there. */
async function releaseDevice(directory: string, belongs: Belongs): Promise<MountEntry | null> {
  if (await isMountPoint(directory)) return null;
  const path = stagedDevicePath(directory);
  await unmount(path, belongs);
  const left = await topMount(path);
  if (left !== null) return left;
  const found = await entryAt(path);
  if (found?.isFile() === true && found.size === 0) await removeTarget(path);
  return null;
}

/** False: another staging or publication on record uses the device. Throws if somebody unknown does. */
async function isFree(
  deps: NodeDependencies,
  view: VolumeView,
  stagingPath: string,
): Promise<boolean> {
  const { mounts, nodes } = usesOf(view);
  const uses = [...mounts, ...nodes];
  if (uses.length === 0) return true;
  const known = await knownPaths(deps, view.volume, stagingPath);
  const unknown = uses.find((entry) => !known.has(entry.mountPoint));
  if (unknown === undefined) return false;
  const { volumeId } = view.volume;
  // A bound device node may be left from another volume that had the number before.
  const use = nodes.includes(unknown)
    ? `${unknown.mountPoint} shows the device of volume ${volumeId}`
    : `volume ${volumeId} is still mounted at ${unknown.mountPoint}`;
  throw CsiError.failedPrecondition(
    `${use}, and this plugin has no record of that; unmount it there`,
  );
}

async function knownPaths(
  deps: NodeDependencies,
  volume: VolumeRecord,
  except: string,
): Promise<Set<string>> {
  const stagings = await deps.catalogue.stagings(volume.volumeId);
  const publications = await deps.catalogue.publications(volume.volumeId);
  const paths = [
    ...stagings.map((record) => record.stagingPath).filter((path) => path !== except),
    ...publications.map((record) => record.targetPath),
  ];
  const resolved = await Promise.all(paths.map((path) => kernelPath(path)));
  const found = resolved.filter((path) => path !== null);
  return new Set(found.flatMap((path) => [path, stagedDevicePath(path)]));
}

/** The number of a loop device goes to somebody else next: it must be neither read-only nor set in our way. */
async function detach(deps: NodeDependencies, view: VolumeView): Promise<void> {
  if (view.attachment !== null) {
    const { devicePath } = view.attachment;
    await deps.native.run('setDeviceReadOnly', { devicePath, readOnly: false });
    await resetDevice(deps, devicePath);
  }
  await deps.backendOf(view.volume.pool).detach(view.volume.volumeId);
}
