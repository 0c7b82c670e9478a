/**
 * Unstaging: reverses everything that staging did, down to the block device.
 *
 * Unmounts the volume's mounts in the staging directory, whether or not the catalogue has a record; foreign mounts stay.
 * Detaches the device when its last use has ended. After a kill at any point, the next call finds what is left and continues.
 * If the pool does not answer, the mounts are still removed; the device and the staging record stay for the call that reaches
 * the pool again.
 */

import type { CallContext } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import { type MountEntry, mountsAt } from '../../base/system/mountinfo.js';
import type { StagingRecord, VolumeRecord } from '../catalogue/records.js';
import { timeToWait } from '../csi/answer-time.js';
import { loopsAbove } from '../host/device-holders.js';
import type { ReleaseWait } from '../host/device-release.js';
import { removeTarget, unmountLayers } from '../host/layers.js';
import { thawLeftFrozen } from '../host/left-frozen.js';
import { entryAt, plainEntry } from '../host/target.js';
import { namesOther } from '../usage/other-uses.js';
import { liveAmong, recordedPlaces } from '../usage/publications.js';
import {
  type Belongs,
  belongsTo,
  foreignMount,
  forRecord,
  type Seen,
  stagedDevicePath,
  usesOf,
  type VolumeView,
} from '../usage/volume-view.js';
import type { NodeDependencies } from './node-dependencies.js';
import { lookAt, type Place, placeSeen, seePlace } from './paths.js';
import { resetDevice } from './volume-settings.js';

type Native = Pick<NodeDependencies, 'native'>;

/**
 * Undoes what staging did, if the volume is staged there. FAILED_PRECONDITION if the volume is published from there, or if
 * others still hold the device shortly before the call's deadline.
 */
export async function unstageVolume(
  deps: NodeDependencies,
  volume: VolumeRecord,
  place: Place<StagingRecord>,
  context: CallContext,
): Promise<void> {
  const seen = await seePlace(deps, volume, place);
  const published = (await liveAmong(seen.view, place.publications)).find(
    (record) => record.stagingPath === place.path,
  );
  if (published !== undefined) {
    throw CsiError.failedPrecondition(
      `volume ${volume.volumeId} is still published at ${published.targetPath}; unpublish it before unstaging`,
    );
  }
  await releaseFrom(deps, seen, place, { context });
}

/** Clears the staging directory of a volume that the catalogue does not know. */
export async function unstageUnknown(
  deps: Pick<NodeDependencies, 'native' | 'config'>,
  volumeId: string,
  place: Place<StagingRecord>,
): Promise<void> {
  const belongs = belongsTo(volumeId, null);
  const request = lookAt(place.resolved ?? place.path);
  const look = await deps.native.run('look', request);
  const mounts = await releaseDirectory(deps, place, belongs, { request, look });
  if (mounts !== null) await releaseDevice(deps, place, belongs, mounts);
}

/**
 * Unmounts and detaches the volume without a check for publications. Removes the record last. Waits a few seconds for the
 * device.
 *
 * @param earlier mounts from before the volume was attached, which are no uses of the volume: a bound device node may be left
 *   from another volume that had the device number, and a mount namespace keeps its copies of bound nodes
 */
export async function releaseStaging(
  deps: NodeDependencies,
  volume: VolumeRecord,
  place: Place<StagingRecord>,
  earlier: readonly MountEntry[] = [],
): Promise<void> {
  await releaseFrom(deps, await seePlace(deps, volume, place), place, { earlier });
}

/** @param how.context the call, whose deadline limits the wait for the device */
async function releaseFrom(
  deps: NodeDependencies,
  seen: Seen,
  place: Place<StagingRecord>,
  { context, earlier = [] }: { context?: CallContext; earlier?: readonly MountEntry[] },
): Promise<void> {
  const before = seen.view;
  const { volume } = before;
  const belongs = belongsTo(volume.volumeId, before.node);
  const mounts = await releaseLast(deps, seen, place, belongs);
  const released = mounts === null ? before : await clearStagedDevice(deps, { ...before, mounts }, place);
  const view = { ...before, mounts: released.mounts };
  if (view.poolFailure !== null) throw view.poolFailure;
  if (await isFree(deps, view, place.path, earlier)) await detach(deps, view, place.record, context);
  await deps.catalogue.removeStaging(volume.volumeId, place.path);
}

/**
 * As releaseDirectory, and thaws a file system that is frozen and has no other mount to thaw it through: the frozen file system
 * blocks the calls that write to it, such as a growth of ours, and those calls keep it mounted.
 */
async function releaseLast(
  deps: NodeDependencies,
  seen: Seen,
  place: Place<StagingRecord>,
  belongs: Belongs,
): Promise<readonly MountEntry[] | null> {
  const { attachment } = seen.view;
  try {
    return await releaseDirectory(deps, place, belongs, seen);
  } catch (thrown) {
    if (attachment === null || place.resolved === null) throw thrown;
    const isThawed = await thawLeftFrozen(deps.native, attachment.devicePath, place.resolved);
    if (!isThawed) throw thrown;
    return releaseDirectory(deps, place, belongs, { ...seen, look: await deps.native.run('look', seen.request) });
  }
}

/**
 * Unmounts `<staging path>/device` if it shows the volume's device node, or a node that has become another device's since the
 * volume was staged here. Leaves any other mount alone and returns it.
 */
export async function clearStagedDevice(
  deps: Native,
  view: VolumeView,
  place: Place<StagingRecord>,
): Promise<ReleasedDevice> {
  const belongs = forRecord(place.record, belongsTo(view.volume.volumeId, view.node));
  return releaseDevice(deps, place, belongs, view.mounts);
}

/** Unmounts the volume's file system. Returns the mounts that are left; null if the directory is gone or replaced. */
async function releaseDirectory(
  { native }: Native,
  { path, resolved }: Place<StagingRecord>,
  belongs: Belongs,
  { look, request }: Pick<Seen, 'look' | 'request'>,
): Promise<readonly MountEntry[] | null> {
  const there = placeSeen(look);
  if (resolved === null || there.resolved !== resolved) return null;
  plainEntry(resolved, there);
  const { mounts } = await unmountLayers(native, resolved, belongs, look.mounts, request);
  const layers = mountsAt(mounts, resolved);
  const top = layers.at(-1);
  for (const entry of layers) {
    if (top !== undefined && (await belongs(entry))) throw foreignMount(path, top.source);
  }
  return mounts;
}

/** What releasing the device node of a staging directory has done. */
interface ReleasedDevice {
  /** The volume's device node was mounted there. */
  found: boolean;
  /** The mount that is still there and does not belong to the volume; null if there is none. */
  left: MountEntry | null;
  /** The mounts afterwards. */
  mounts: readonly MountEntry[];
}

/**
 * Unmounts the device node, and removes its file if the file is empty and a record or a mount of the volume proves that the
 * file is ours. Removes nothing inside a mount.
 */
async function releaseDevice(
  { native }: Native,
  { resolved, record }: Place<StagingRecord>,
  belongs: Belongs,
  before: readonly MountEntry[],
): Promise<ReleasedDevice> {
  if (resolved === null || mountsAt(before, resolved).length > 0) {
    return { found: false, left: null, mounts: before };
  }
  const path = stagedDevicePath(resolved);
  const { found, mounts } = await unmountLayers(native, path, belongs, before);
  const left = mountsAt(mounts, path).at(-1) ?? null;
  if (left === null && (found || record?.capability.accessType === 'block')) {
    const entry = await entryAt(path);
    if (entry?.isFile() === true && entry.size === 0) await removeTarget(native, path);
  }
  return { found, left, mounts };
}

/** False if another recorded staging or publication uses the device. FAILED_PRECONDITION if a use without a record exists. */
async function isFree(
  deps: NodeDependencies,
  view: VolumeView,
  stagingPath: string,
  earlier: readonly MountEntry[],
): Promise<boolean> {
  const { mounts, nodes: bound } = usesOf(view);
  const isEarlier = ({ mountId, mountPoint }: MountEntry): boolean =>
    earlier.some((known) => known.mountId === mountId && known.mountPoint === mountPoint);
  const nodes = bound.filter((entry) => !isEarlier(entry));
  const uses = [...mounts, ...nodes];
  if (uses.length === 0) return true;
  const known = await recordedPlaces(deps, view.volume.volumeId, stagingPath);
  const unrecorded = uses.filter(({ mountPoint }) => !known.has(mountPoint));
  const unknown = unrecorded.find((entry) => mounts.includes(entry) || !namesOther(view, entry.mountPoint));
  if (unknown === undefined) return unrecorded.length === uses.length;
  const { volumeId } = view.volume;
  const { mountPoint } = unknown;
  const use = nodes.includes(unknown)
    ? `${mountPoint} shows the device of volume ${volumeId}`
    : `volume ${volumeId} is still mounted at ${mountPoint}`;
  // The kubelet's own loop device keeps the bound node busy.
  const above = await loopsAbove(view.node?.rdev ?? 0);
  const loops = above.flatMap(({ path, backing }) => (backing === mountPoint ? path : []));
  const detach = loops.length === 0 ? '' : `if no pod uses the volume, losetup -d ${loops.join(' ')}, then `;
  throw CsiError.failedPrecondition(`${use}, and this plugin has no record of that; ${detach}unmount it there`);
}

/**
 * Detaches the device. Resets its settings first: the next user of a loop device's number must not get our settings.
 *
 * A loop device that the kubelet has left on top of this device keeps it attached. The kubelet uses that loop device as a lock,
 * which it finds by the path of the backing file, and only for raw volumes; containers get the volume's own device. Once that path is gone and no
 * publication is left, the kubelet never returns to the lock, so the lock is detached here.
 */
async function detach(
  deps: NodeDependencies,
  view: VolumeView,
  record: StagingRecord | null,
  context?: CallContext,
): Promise<void> {
  const { catalogue, native } = deps;
  if (view.attachment !== null) {
    const { devicePath } = view.attachment;
    await resetDevice(deps, view.attachment);
    // The search asks every loop device of the node.
    const isBlock = record?.capability.accessType !== 'mount';
    if (isBlock && (await catalogue.publications(view.volume.volumeId)).length === 0) {
      await native.run('loopDetachUnmounted', { devicePath });
    }
  }
  const wait: ReleaseWait | undefined =
    context === undefined ? undefined : { timeoutMs: timeToWait(context), signal: context.signal };
  await deps.backendOf(view.volume.pool).attachments.detach(view.volume.volumeId, wait);
}
