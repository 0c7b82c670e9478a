/**
 * Unpublishing: unmounts and removes the target path of a workload, and leaves nothing behind.
 *
 * Unmounts only mounts of the volume, and removes only an empty directory or file that a record or a mount of the volume proves
 * to be ours. A recorded publication is released where its path led when it was made, wherever the path leads now. Works
 * without a record, without a known volume and without the volume's pool, so that a node can always be cleaned up.
 */
import { CsiError } from '../../base/errors.js';
import { mountsAt } from '../../base/system/mountinfo.js';
import type { PublicationRecord, VolumeRecord } from '../catalogue/records.js';
import { removeTarget, unmountLayers } from '../host/layers.js';
import { assertEmpty, holdsContent, plainEntry } from '../host/target.js';
import type { Look } from '../native/look-calls.js';
import { liveAmong, recordedPlaces } from '../usage/publications.js';
import {
  type Belongs,
  belongsTo,
  foreignMount,
  forRecord,
  isReaderOnly,
  type Seen,
  usesOf,
  type VolumeView,
} from '../usage/volume-view.js';
import { isReadOnlyVolume } from '../volumes/volume-rules.js';
import type { NodeDependencies } from './node-dependencies.js';
import { lookAt, type Place, placeSeen, seePlace } from './paths.js';
import { liftPod } from './volume-settings.js';

type Native = Pick<NodeDependencies, 'native' | 'logger'>;

/**
 * Removes the publication, if there is one. FAILED_PRECONDITION if its mount is busy, not the volume's, or elsewhere by now.
 *
 * @param keepsTarget the target belongs to the caller and stays
 */
export async function releasePublication(
  deps: NodeDependencies,
  volume: VolumeRecord,
  place: Place<PublicationRecord>,
  keepsTarget: boolean,
): Promise<void> {
  const seen = await seePlace(deps, volume, place);
  const { node } = seen.view;
  const belongs = forRecord(place.record, belongsTo(volume.volumeId, node));
  const { found: wasMounted, look } = await unmountTarget(deps, place, belongs, seen);
  const view = { ...seen.view, mounts: look.mounts };
  if (place.record !== null && !wasMounted) await assertNotMoved(deps, view, place.record, place.publications);
  await clearTarget(deps, place, look, { wasMounted, keepsTarget });
  await restoreDevice(deps, view, place);
  if (place.record !== null) await deps.catalogue.removePublication(place.path);
}

/** Without a catalogue entry, the only proof is a mount of a device that bears the volume's id. */
export async function unpublishUnknown(
  deps: Pick<NodeDependencies, 'native' | 'logger' | 'config'>,
  volumeId: string,
  place: Place<PublicationRecord>,
  keepsTarget: boolean,
): Promise<void> {
  const belongs = belongsTo(volumeId, null);
  const request = lookAt(place.resolved ?? place.path);
  const before = { request, look: await deps.native.run('look', request) };
  const { found: wasMounted, look } = await unmountTarget(deps, place, belongs, before);
  await clearTarget(deps, place, look, { wasMounted, keepsTarget });
}

/** Resolves when nothing is mounted there any more, to the look after that. */
async function unmountTarget(
  { native }: Native,
  { path, resolved }: Place<PublicationRecord>,
  belongs: Belongs,
  { look, request }: Pick<Seen, 'look' | 'request'>,
): Promise<{ found: boolean; look: Look }> {
  const before = placeSeen(look);
  if (resolved === null || before.resolved !== resolved) return { found: false, look };
  plainEntry(resolved, before);
  const { found, mounts, seen } = await unmountLayers(native, resolved, belongs, look.mounts, request);
  const left = mountsAt(mounts, resolved).at(-1);
  if (left !== undefined) throw foreignMount(path, left.source);
  return { found, look: seen ?? look };
}

/**
 * Removes the target if a record, or a mount that was there, proves that it is ours, and the caller does not keep it. Content
 * that somebody wrote there while nothing was mounted stays, and does not keep the publication on record.
 */
async function clearTarget(
  { native, logger }: Native,
  { resolved, record }: Place<PublicationRecord>,
  look: Look,
  { wasMounted, keepsTarget }: { wasMounted: boolean; keepsTarget: boolean },
): Promise<void> {
  const seen = placeSeen(look);
  // A symbolic link has been put in the path since it was resolved, or a parent is gone.
  if (resolved === null || seen.resolved !== resolved) return;
  if (record !== null && holdsContent(resolved, seen)) {
    const { volumeId } = record;
    logger.warn(
      { volumeId, path: resolved },
      'the target of an ended publication is not empty and stays: move it away',
    );
    return;
  }
  const isOurs = record !== null || wasMounted;
  if (isOurs && !keepsTarget) await removeTarget(native, resolved, seen);
  else assertEmpty(resolved, seen);
}

/**
 * FAILED_PRECONDITION if the mount has moved: a rename of a mount point or of its parent takes the mount along. While the
 * volume has another publication, a mount without a record may belong to that publication, because the kubelet binds raw
 * devices and subpaths of its own. If such a mount is a renamed one after all, unstaging finds it.
 */
async function assertNotMoved(
  deps: NodeDependencies,
  view: VolumeView,
  { targetPath, resolvedPath }: PublicationRecord,
  publications: readonly PublicationRecord[],
): Promise<void> {
  const { volume } = view;
  const { mounts, nodes } = usesOf(view);
  const known = await recordedPlaces(deps, volume.volumeId, targetPath);
  const strays = [...mounts, ...nodes].filter(({ mountPoint }) => !known.has(mountPoint));
  const live = await liveAmong(view, publications);
  const hasOthers = live.some((record) => record.targetPath !== targetPath);
  const stray = hasOthers ? strays.find(({ mountPoint }) => mountPoint === resolvedPath) : strays[0];
  if (stray === undefined) return;
  throw CsiError.failedPrecondition(
    `volume ${volume.volumeId} is not seen at ${targetPath} any more, where it was published, but is mounted at ` +
      `${stray.mountPoint}; nothing was touched. Either a directory was renamed or another mount hides it: unmount ` +
      'it there, or what hides it, then unpublish it again',
  );
}

/**
 * Makes the device writable again once no read-only publication of it is left, and lifts the limits of a pod that no longer
 * uses the device. Without the pool, the device is not known for certain and stays as it is; staging, publishing and unstaging
 * set it anew.
 */
async function restoreDevice(
  deps: NodeDependencies,
  view: VolumeView,
  { path, record, publications }: Place<PublicationRecord>,
): Promise<void> {
  const podUid = record?.podUid ?? null;
  // Only a raw device is ever set to read-only, and only pods have limits.
  const isPlain = podUid === null && record?.capability.accessType === 'mount';
  if (view.attachment === null || isPlain) return;
  const others = (await liveAmong(view, publications)).filter(({ targetPath }) => targetPath !== path);
  const { devicePath } = view.attachment;
  if (podUid !== null && others.every((record) => record.podUid !== podUid)) {
    // The limits end with the pod; failing to lift them must not keep the volume published.
    await liftPod(deps, podUid, devicePath).catch(() => undefined);
  }
  if (isReadOnlyVolume(view.volume) || others.some((record) => record.readOnly || isReaderOnly(record.capability)))
    return;
  await deps.native.run('setDeviceReadOnly', { devicePath, readOnly: false });
}
