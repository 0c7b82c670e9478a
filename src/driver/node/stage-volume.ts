/**
 * Staging: from a volume to a mounted file system, or a device node, in the staging directory.
 *
 * Raw block volumes have their device node bound to `<staging path>/device`, so that the kernel
 * knows that they are staged, and where. The order makes a kill at any point harmless: record,
 * attach, make ready, mount (file-system.ts for file systems). Requests arrive parsed.
 */

import { isDeepStrictEqual } from 'node:util';
import { bestEffort, logLeftover } from '../../base/best-effort.js';
import type { CallContext } from '../../base/csi/service.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import { mountsAt } from '../../base/system/mountinfo.js';
import type { Attachment } from '../backends/backend.js';
import type {
  CopiedVolume,
  PublicationRecord,
  RestoreMark,
  StagingRecord,
  VolumeRecord,
} from '../catalogue/records.js';
import { isToolAtWork } from '../host/device-holders.js';
import { isFileSystem } from '../host/file-systems.js';
import { bindLayer, makeTarget } from '../host/layers.js';
import { topMount } from '../host/mounter.js';
import { plainEntry } from '../host/target.js';
import type { Look } from '../native/look-calls.js';
import { liveAmong } from '../usage/publications.js';
import {
  foreignMount,
  isReaderOnly,
  type Occupant,
  type Seen,
  stagedAt,
  stagedDevicePath,
  usesOf,
  type VolumeView,
  viewVolume,
} from '../usage/volume-view.js';
import { assertNotHalfRestored } from '../volumes/in-place-restores.js';
import { markInitialized } from '../volumes/pristine.js';
import { isReadOnlyVolume } from '../volumes/volume-rules.js';
import { stageFileSystem } from './file-system.js';
import { growStaged, growsMounted } from './growth.js';
import { releaseUnused } from './mount-guard.js';
import type { NodeDependencies } from './node-dependencies.js';
import { type Place, placeSeen } from './paths.js';
import { clearStagedDevice, releaseStaging } from './unstage-volume.js';
import { applyToDevice } from './volume-settings.js';

/** A staging in progress: the request, and what was seen and recorded before it. */
export interface Staging {
  request: StagingRecord;
  seen: Seen;
  record: StagingRecord | null;
  publications: readonly PublicationRecord[];
  /** As in VolumeUses. */
  copied: CopiedVolume | null;
  restore: RestoreMark | null;
  /** Of a restore in place; null if none was presented. */
  token: string | null;
}

/** Stages the volume, unless it is staged there with this capability already. */
export async function stageVolume(
  deps: NodeDependencies,
  volume: VolumeRecord,
  { request, seen, record, publications, copied, restore, token }: Staging,
  context: CallContext,
): Promise<void> {
  const directory = stagingDirectory(request, seen.look);
  const place = { path: request.stagingPath, resolved: directory, record, publications };
  if (seen.view.poolFailure !== null) throw seen.view.poolFailure;
  if (volume.awaitsGrowth) await releaseHalfStaged(deps, seen.view, place);
  const view = volume.awaitsGrowth ? await viewVolume(deps, volume) : seen.view;
  assertNotLedAway(view, place);
  const staged = await stagedAt(view, directory);
  if (staged.kind === 'foreign') throw foreignMount(request.stagingPath, staged.entry.source);
  if (staged.kind !== 'nothing') return confirmStaged(deps, { view, staged, request, record, context });
  assertCompatible(view, request.capability);
  if (copied !== null) await assertNotReplaced(deps, volume, copied);
  assertNotHalfRestored(volume, restore, request.capability, token);
  await assertNoToolAtWork(view);
  const { left, found } = await clearStagedDevice(deps, view, place);
  if (left !== null) throw foreignMount(stagedDevicePath(request.stagingPath), left.source);
  const isReleased = request.capability.accessType === 'mount' && (await releaseUnused(deps, view));
  // Mounts from before the device is attached are no uses of the volume, whatever number the device gets.
  const earlier = view.attachment === null || isReleased ? view.mounts : [];
  await deps.catalogue.putStaging(request);
  try {
    const attachment = await attachWritable(deps, view, publications);
    const directIo = await applyToDevice(deps, volume, attachment);
    if (directIo !== null) context.note({ directIo });
    const { capability } = request;
    if (capability.accessType === 'block') {
      await stageDevice(deps, volume, attachment, directory);
    } else {
      const look = { ...seen.request, devicePath: attachment.devicePath };
      const { mounts } = isReleased || found ? await deps.native.run('look', look) : view;
      const staging = { volume, attachment, capability, directory, context, look };
      await stageFileSystem(deps, staging, mounts);
    }
    await recordGrowth(deps, volume, capability, directory);
    await protect(deps, volume, attachment);
  } catch (thrown) {
    const onFailure = logLeftover(deps.logger, {
      stays: `the device of volume ${volume.volumeId}, attached for a staging at ${request.stagingPath} that failed`,
      removedBy: 'the next NodeStageVolume or NodeUnstageVolume, or the next start of the plugin',
    });
    const ours = { ...place, record: request };
    await bestEffort(() => releaseStaging(deps, volume, ours, earlier), onFailure);
    throw thrown;
  }
}

/** FAILED_PRECONDITION if another volume has taken its place or is to take it, UNAVAILABLE while that is not known. */
async function assertNotReplaced(
  { clearance }: NodeDependencies,
  { volumeId }: VolumeRecord,
  { supersededBy, isCordoned }: CopiedVolume,
): Promise<void> {
  if (supersededBy !== null) {
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is superseded: ${supersededBy} has taken its place, so it must not be used any more. Copy from it what ` +
        'the other lacks, by a snapshot, and delete it',
    );
  }
  if (isCordoned) {
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is cordoned, because another one is to take its place. Go on with the move, or end it: then ` +
        '`blockdelta cordon --undo` lets it be used again',
    );
  }
  return clearance.assertGiven(volumeId);
}

/**
 * Releases a staged copy that still awaits its growth beyond the size of its source and is not published, so that staging
 * begins again. A kill may have left the copy so, and a file system that can only grow unmounted would make every repeated call
 * fail.
 */
async function releaseHalfStaged(deps: NodeDependencies, view: VolumeView, place: Place<StagingRecord>): Promise<void> {
  const published = await liveAmong(view, place.publications);
  if (published.length === 0) await releaseStaging(deps, view.volume, place);
}

/** A record is found by its path: a record whose path leads elsewhere by now must not be replaced, or its mount is lost. */
function assertNotLedAway(view: VolumeView, { path, resolved, record }: Place<StagingRecord>): void {
  const before = record?.resolvedPath ?? null;
  if (before === null || before === resolved) return;
  const places = [before, stagedDevicePath(before)];
  if (places.every((place) => mountsAt(view.mounts, place).length === 0)) return;
  throw CsiError.failedPrecondition(
    `staging_target_path ${path} leads to ${resolved} now; volume ${view.volume.volumeId} was staged there when it ` +
      `led to ${before}, and is still mounted. Unstage it there first`,
  );
}

/** Records the growth. The kernel does not grow an xfs or btrfs mounted read-only: that copy still awaits its growth. */
async function recordGrowth(
  deps: NodeDependencies,
  volume: VolumeRecord,
  capability: VolumeCapability,
  directory: string,
): Promise<void> {
  if (!volume.awaitsGrowth) return;
  const isReadOnlyMount = capability.accessType === 'mount' && isReaderOnly(capability);
  if (isReadOnlyMount && (await topMount(directory))?.fsType !== 'ext4') return;
  await deps.catalogue.markVolumeGrown(volume.volumeId);
}

function stagingDirectory({ stagingPath: path, resolvedPath: directory }: StagingRecord, look: Look): string {
  const entry = directory === null ? null : plainEntry(directory, placeSeen(look));
  if (directory === null || entry === null) {
    throw CsiError.failedPrecondition(`staging_target_path ${path} does not exist; the caller has to create it`);
  }
  if (entry.kind !== 'directory' && entry.kind !== 'mount point') {
    throw CsiError.failedPrecondition(`staging_target_path ${path} is not a directory`);
  }
  return directory;
}

interface Staged {
  view: VolumeView;
  staged: Exclude<Occupant, { kind: 'nothing' }>;
  request: StagingRecord;
  record: StagingRecord | null;
  context: CallContext;
}

/**
 * For a volume that is staged already: checks the capability, against the kernel if there is no record, and completes the steps
 * that an interrupted call may have left: the device's settings, the file system's size.
 */
async function confirmStaged(
  deps: NodeDependencies,
  { view: { volume, attachment }, staged, request, record, context }: Staged,
): Promise<void> {
  const { volumeId, stagingPath, capability } = request;
  const isSame =
    record === null
      ? kernelAgrees(staged, capability)
      : staged.kind === capability.accessType && isDeepStrictEqual(record.capability, capability);
  if (!isSame) {
    throw CsiError.alreadyExists(
      `volume ${volumeId} is staged at ${stagingPath} with another volume_capability; unstage it first`,
    );
  }
  if (record === null || record.resolvedPath === null) await deps.catalogue.putStaging(request);
  if (attachment === null) return;
  await applyToDevice(deps, volume, attachment);
  const { entry } = staged;
  if (capability.accessType === 'mount' && isFileSystem(entry.fsType)) {
    const staging = {
      volume,
      attachment,
      capability,
      directory: entry.mountPoint,
      context,
    };
    if (await growsMounted(staging, entry.fsType)) {
      await growStaged(deps, staging, entry.fsType, null);
    }
  }
  await recordGrowth(deps, volume, capability, staged.entry.mountPoint);
  await protect(deps, volume, attachment);
}

/** Sets the device of a volume that is only read to read-only. Not before its mount, which replays the file system's journal. */
async function protect(
  { native }: NodeDependencies,
  volume: VolumeRecord,
  { devicePath }: Pick<Attachment, 'devicePath'>,
): Promise<void> {
  if (isReadOnlyVolume(volume)) await native.run('setDeviceReadOnly', { devicePath, readOnly: true });
}

function kernelAgrees(staged: Exclude<Occupant, { kind: 'nothing' }>, capability: VolumeCapability): boolean {
  if (staged.kind !== capability.accessType) return false;
  if (capability.accessType === 'block') return true;
  const isType = capability.fsType === '' || capability.fsType === staged.entry.fsType;
  return isType && staged.entry.superReadOnly === isReaderOnly(capability);
}

/** Refuses a raw device beside its mounted file system, and one file system both writable and read-only. */
function assertCompatible(view: VolumeView, capability: VolumeCapability): void {
  const { mounts, nodes } = usesOf(view);
  const conflict =
    capability.accessType === 'block'
      ? mounts[0]
      : (nodes[0] ?? mounts.find((entry) => entry.superReadOnly !== isReaderOnly(capability)));
  if (conflict === undefined) return;
  throw CsiError.failedPrecondition(
    `volume ${view.volume.volumeId} is in use in another way at ${conflict.mountPoint}; unpublish and unstage it there first`,
  );
}

/** Attaches the device for writing. A read-only publication that was killed may have left the device read-only. */
async function attachWritable(
  deps: NodeDependencies,
  view: VolumeView,
  publications: readonly PublicationRecord[],
): Promise<Attachment> {
  const { pool, sizeBytes, volumeId } = view.volume;
  const { attachments } = deps.backendOf(pool);
  const attachment = await attachments.attach(volumeId, {
    readOnly: false,
    atLeastBytes: sizeBytes,
  });
  if (view.attachment !== null && (await liveAmong(view, publications)).length === 0) {
    const { devicePath } = attachment;
    await deps.native.run('setDeviceReadOnly', { devicePath, readOnly: false });
  }
  return attachment;
}

/**
 * ABORTED while a tool of an earlier call works on the device. Precedes every decision that depends on the device's content. A
 * killed plugin, or a call whose time was over, leaves such a tool behind, and the tool keeps the device attached.
 */
async function assertNoToolAtWork({ volume, attachment }: VolumeView): Promise<void> {
  if (attachment === null || !(await isToolAtWork(attachment.devicePath))) return;
  throw CsiError.aborted(
    `a tool of an earlier call is still working on volume ${volume.volumeId} (${attachment.devicePath}); ` +
      'try again when it has ended',
  );
}

async function stageDevice(
  deps: NodeDependencies,
  volume: VolumeRecord,
  attachment: Attachment,
  directory: string,
): Promise<void> {
  await markInitialized(deps.catalogue, deps.backendOf(volume.pool), volume);
  const target = stagedDevicePath(directory);
  await makeTarget(deps.native, target, 'file');
  const { devicePath: source, rdev: sourceDevice } = attachment;
  const plain = { target, readOnly: false, options: [] };
  await bindLayer(deps.native, { source, sourceDevice, sourceMountId: null, ...plain });
}
