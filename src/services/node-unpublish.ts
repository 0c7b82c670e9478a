/**
 * Unpublishing: the target path of a workload is unmounted and removed, and nothing stays behind.
 *
 * Only mounts of the volume, or on a path on record for it, are unmounted; only an empty directory
 * or file is removed. Works without a record, without a known volume and without the volume's pool,
 * so that a node can always be cleaned up.
 */
import { unmount } from '../mount/mounter.js';
import { mountsAt, readMountInfo } from '../mount/mountinfo.js';
import { assertNoLink, kernelPath, removeTarget } from '../mount/target.js';
import type { VolumeRecord } from '../volumes/records.js';
import {
  type Belongs,
  belongsTo,
  foreignMount,
  isReaderOnly,
  livePublications,
  type NodeDependencies,
  viewForRelease,
} from './node-volume.js';
import { liftPod } from './volume-settings.js';

/** Nothing there: done. FAILED_PRECONDITION if it is busy, or not the volume's. */
export async function releasePublication(
  deps: NodeDependencies,
  volume: VolumeRecord,
  targetPath: string,
): Promise<void> {
  const record = await deps.catalogue.publicationAt(targetPath);
  const isRecorded = record?.volumeId === volume.volumeId;
  const { node } = await viewForRelease(deps, volume);
  await releaseTarget(targetPath, isRecorded ? async () => true : belongsTo(volume.volumeId, node));
  await restoreDevice(deps, volume, targetPath, isRecorded ? record.podUid : null);
  if (isRecorded) await deps.catalogue.removePublication(targetPath);
}

/** The same for a volume that the catalogue does not know. */
export async function unpublishUnknown(volumeId: string, targetPath: string): Promise<void> {
  await releaseTarget(targetPath, belongsTo(volumeId, null));
}

async function releaseTarget(targetPath: string, belongs: Belongs): Promise<void> {
  const target = await kernelPath(targetPath);
  if (target === null) return;
  await assertNoLink(target);
  await unmount(target, belongs);
  const left = mountsAt(await readMountInfo(), target).at(-1);
  if (left !== undefined) throw foreignMount(targetPath, left.source);
  await removeTarget(target);
}

/**
 * The device is writable again once no read-only publication of it is left, and without limits for a
 * pod that does not use it any more. Without the pool the device is not known for certain and stays as
 * it is; staging, publishing and unstaging set it anew.
 */
async function restoreDevice(
  deps: NodeDependencies,
  volume: VolumeRecord,
  targetPath: string,
  podUid: string | null,
): Promise<void> {
  const view = await viewForRelease(deps, volume);
  if (view.attachment === null) return;
  const others = (await livePublications(deps, view)).filter(
    (record) => record.targetPath !== targetPath,
  );
  const { devicePath } = view.attachment;
  if (podUid !== null && others.every((record) => record.podUid !== podUid)) {
    // A pod that goes takes its limits along; one that stays is no reason to keep its volume.
    await liftPod(deps, podUid, devicePath).catch(() => undefined);
  }
  if (others.some((record) => record.readOnly || isReaderOnly(record.capability))) return;
  await deps.native.run('setDeviceReadOnly', { devicePath, readOnly: false });
}
