/**
 * Publishing: from a staged volume to the target path of one workload.
 *
 * This file makes the target. A file system is published by a bind mount of the staging directory, a raw block volume by a bind
 * mount of its device node. The record is written before anything is mounted, and unpublish-volume.ts removes it after
 * everything is gone. SINGLE_NODE_MULTI_WRITER and MULTI_NODE_READER_ONLY allow several targets at a time, the other access modes
 * allow one. Requests arrive parsed.
 */

import { isDeepStrictEqual } from 'node:util';
import { bestEffort, logLeftover } from '../../base/best-effort.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import { isDeviceReadOnly } from '../../base/system/device-attributes.js';
import { majorOf, minorOf, mountsAt } from '../../base/system/mountinfo.js';
import type { PublicationRecord, StagingRecord, VolumeRecord } from '../catalogue/records.js';
import {
  type Bind,
  bindLayer,
  type LayerFlags,
  makeTarget,
  removeTarget,
  setLayerFlags,
  unmountLayers,
} from '../host/layers.js';
import { assertTargetFits, plainEntry, seePath } from '../host/target.js';
import type { Look } from '../native/look-calls.js';
import { liveAmong } from '../usage/publications.js';
import {
  blockDeviceAt,
  foreignMount,
  isReaderOnly,
  NOTHING,
  type Occupant,
  occupantAt,
  type Seen,
  stagedAt,
  type VolumeView,
} from '../usage/volume-view.js';
import { optionsPublishedWith } from './file-system.js';
import type { NodeDependencies } from './node-dependencies.js';
import { type Place, placeSeen } from './paths.js';
import { releasePublication } from './unpublish-volume.js';
import { limitPod } from './volume-settings.js';

/** A publication in progress: the request, and what was seen and recorded before it. */
export interface Publishing {
  request: PublicationRecord;
  seen: Seen;
  /** The record of any volume at the target path. */
  recordThere: PublicationRecord | null;
  staging: Place<StagingRecord>;
  /** The caller has made the target, which stays even if publishing fails. */
  keepsTarget: boolean;
}

/** The same, with the target as the kernel sees it. */
interface Target extends Publishing {
  view: VolumeView;
  target: string;
}

/** Publishes the volume, unless it is published there in the same way already. */
export async function publishVolume(deps: NodeDependencies, volume: VolumeRecord, asked: Publishing): Promise<void> {
  const { request, seen, staging, keepsTarget } = asked;
  const target = targetOf(request, seen.look);
  const { view } = seen;
  if (view.poolFailure !== null) throw view.poolFailure;
  const publishing = { ...asked, view, target };
  assertNotLedAway(publishing);
  const occupant = await occupantAt(view, target);
  if (occupant.kind === 'mount' || occupant.kind === 'block') {
    return confirmPublished(deps, publishing, occupant);
  }
  const source = await stagedSource(view, request, staging);
  await assertNotElsewhere(deps, publishing);
  const isCleared = await clearTarget(deps, publishing, occupant);
  const type = request.capability.accessType === 'block' ? 'file' : 'directory';
  const there = isCleared ? await seePath(deps.native, target) : placeSeen(seen.look);
  // The check precedes the record, because the record says that everything at the target is ours to remove.
  assertTargetFits(target, there, type);
  await deps.catalogue.putPublication(request);
  try {
    await makeTarget(deps.native, target, type, there);
    // The limits and flags precede the mount, so that no workload sees the device without limits or wrongly writable.
    await limit(deps, publishing);
    if (request.capability.accessType === 'block') await setDeviceFlags(deps, publishing);
    await bindLayer(deps.native, { ...source, ...mountFlags(publishing) });
  } catch (thrown) {
    const publications = [...staging.publications, request];
    const place = { path: request.targetPath, resolved: target, record: request, publications };
    const onFailure = logLeftover(deps.logger, {
      stays: `what was made for the publication of volume ${volume.volumeId} at ${request.targetPath}`,
      removedBy: 'NodeUnpublishVolume, or the next NodePublishVolume there',
    });
    await bestEffort(() => releasePublication(deps, volume, place, keepsTarget), onFailure);
    throw thrown;
  }
}

function targetOf({ targetPath, resolvedPath }: PublicationRecord, look: Look): string {
  if (resolvedPath === null) {
    throw CsiError.failedPrecondition(
      `the parent directory of target_path ${targetPath} does not exist; the caller has to create it`,
    );
  }
  plainEntry(resolvedPath, placeSeen(look));
  return resolvedPath;
}

/** A record is found by its path: a record whose path leads elsewhere by now must not be replaced, or its mount is lost. */
function assertNotLedAway({ view, request, target, recordThere: record }: Target): void {
  const before = record?.resolvedPath ?? null;
  if (record === null || before === null || before === target) return;
  if (mountsAt(view.mounts, before).length === 0) return;
  throw CsiError.failedPrecondition(
    `target_path ${request.targetPath} leads to ${target} now; volume ${record.volumeId} was published there when it ` +
      `led to ${before}, and is still mounted. Unpublish volume ${record.volumeId} there first`,
  );
}

/** Fields of a record that no caller asks for. A comparison with a request ignores them. */
const ASIDE = { podUid: null, resolvedPath: null };

async function confirmPublished(
  deps: NodeDependencies,
  publishing: Target,
  occupant: Exclude<Occupant, { kind: 'nothing' }>,
): Promise<void> {
  const { view, request, recordThere: record } = publishing;
  const isSame =
    occupant.kind === request.capability.accessType &&
    (record === null || record.volumeId !== request.volumeId
      ? await kernelAgrees(view, request, occupant)
      : isDeepStrictEqual({ ...record, ...ASIDE }, { ...request, ...ASIDE }));
  if (!isSame) {
    throw CsiError.alreadyExists(
      `volume ${request.volumeId} is published at ${request.targetPath} with other arguments; unpublish it there first`,
    );
  }
  if (!isDeepStrictEqual(record, request)) await deps.catalogue.putPublication(request);
  await limit(deps, publishing);
  // Sets the flags again: without a record, or after a change by another program, the mount or device may lack them.
  if (request.capability.accessType === 'block') await setDeviceFlags(deps, publishing);
  else await setLayerFlags(deps.native, occupant.entry, mountFlags(publishing));
}

/** Without a record, the kernel alone says how the volume is published. */
async function kernelAgrees(
  view: VolumeView,
  request: PublicationRecord,
  occupant: Exclude<Occupant, { kind: 'nothing' }>,
): Promise<boolean> {
  const { capability } = request;
  if (capability.accessType === 'block') {
    const rdev = view.node?.rdev ?? 0;
    const device = { major: majorOf(rdev), minor: minorOf(rdev) };
    return (await isDeviceReadOnly(device)) === isReadOnly(request);
  }
  const { entry } = occupant;
  const isType = capability.fsType === '' || capability.fsType === entry.fsType;
  return isType && (entry.readOnly || entry.superReadOnly) === isReadOnly(request);
}

/** The source to bind: the staging directory, or the device. FAILED_PRECONDITION if the volume is not staged in that way. */
async function stagedSource(
  view: VolumeView,
  request: PublicationRecord,
  { resolved: directory, record }: Place<StagingRecord>,
): Promise<Pick<Bind, 'source' | 'sourceMountId' | 'sourceDevice'>> {
  const { volumeId, stagingPath, capability } = request;
  const staged = directory === null ? NOTHING : await stagedAt(view, directory);
  if (directory === null || (staged.kind !== 'mount' && staged.kind !== 'block')) {
    throw CsiError.failedPrecondition(`volume ${volumeId} is not staged at ${stagingPath}; stage it there first`);
  }
  const reason = exceeds(staged, record?.capability, request);
  if (reason !== null) {
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is staged at ${stagingPath} ${reason}; unstage it, then stage it the way it is going to be published`,
    );
  }
  if (capability.accessType === 'mount') {
    return { source: directory, sourceMountId: staged.entry.mountId, sourceDevice: null };
  }
  const source = view.attachment?.devicePath ?? '';
  return { source, sourceMountId: null, sourceDevice: view.node?.rdev ?? 0 };
}

/** Why a publication asks for more than what was staged; null if it does not. */
function exceeds(
  staged: Exclude<Occupant, { kind: 'nothing' }>,
  capability: VolumeCapability | undefined,
  request: PublicationRecord,
): string | null {
  if (staged.kind !== request.capability.accessType) return `with ${staged.kind} access`;
  if (request.capability.accessType === 'mount') {
    const { fsType } = request.capability;
    if (fsType !== '' && fsType !== staged.entry.fsType) return `with ${staged.entry.fsType}`;
  }
  const isStagedReadOnly =
    staged.kind === 'mount' ? staged.entry.superReadOnly : capability !== undefined && isReaderOnly(capability);
  return isStagedReadOnly && !isReadOnly(request) ? 'read-only' : null;
}

/**
 * Applies the table of second publications (CSI, NodePublishVolume) for another target. Also drops records whose mount is gone,
 * such as records from before a reboot.
 */
async function assertNotElsewhere(deps: NodeDependencies, publishing: Target): Promise<void> {
  const { view, request, staging } = publishing;
  const recorded = staging.publications;
  const live = await liveAmong(view, recorded);
  for (const elsewhere of live) {
    const reason = conflict(elsewhere, request);
    if (reason === null) continue;
    throw CsiError.failedPrecondition(
      `volume ${request.volumeId} is published at ${elsewhere.targetPath} already, and ${reason}; unpublish it there first`,
    );
  }
  const paths = [request, ...live].map(({ targetPath }) => targetPath);
  for (const record of recorded) {
    if (!paths.includes(record.targetPath)) await forget(deps, record);
  }
}

/** Removes the record, and the target that only the record proves to be ours. A target that cannot be removed stays. */
async function forget(deps: NodeDependencies, record: PublicationRecord): Promise<void> {
  const { targetPath, resolvedPath } = record;
  const onFailure = logLeftover(deps.logger, {
    stays: `${resolvedPath}, where volume ${record.volumeId} was published before`,
    removedBy: 'the orchestrator, with the directory of its pod',
  });
  if (resolvedPath !== null) {
    await bestEffort(() => removeTarget(deps.native, resolvedPath), onFailure);
  }
  await deps.catalogue.removePublication(targetPath);
}

/** Why the volume cannot have two targets at once; null if it can. */
function conflict(elsewhere: PublicationRecord, request: PublicationRecord): string | null {
  const { accessMode, accessType } = request.capability;
  if (accessMode !== 'SINGLE_NODE_MULTI_WRITER' && accessMode !== 'MULTI_NODE_READER_ONLY') {
    return `access mode ${accessMode} allows one target at a time`;
  }
  if (!isDeepStrictEqual(elsewhere.capability, request.capability)) {
    return 'with another volume_capability';
  }
  if (accessType === 'block' && isReadOnly(elsewhere) !== isReadOnly(request)) {
    return `${isReadOnly(elsewhere) ? 'read-only' : 'for writing'}: a raw device is either read-only or writable for all its users`;
  }
  return null;
}

/**
 * Unmounts a device node at our own target that has become another device's. FAILED_PRECONDITION for any other mount. Returns
 * whether there was one.
 */
async function clearTarget(deps: NodeDependencies, publishing: Target, occupant: Occupant): Promise<boolean> {
  if (occupant.kind === 'nothing') return false;
  const { request, target, recordThere: record } = publishing;
  const isOurs = record?.volumeId === request.volumeId && record.capability.accessType === 'block';
  if (!isOurs || (await blockDeviceAt(target)) === null) {
    throw foreignMount(request.targetPath, occupant.entry.source);
  }
  await unmountLayers(deps.native, target, (entry) => entry.mountId === occupant.entry.mountId);
  return true;
}

async function limit(deps: NodeDependencies, { view, request }: Target): Promise<void> {
  if (request.podUid === null || view.attachment === null) return;
  await limitPod(deps, view.volume, request.podUid, view.attachment.devicePath);
}

async function setDeviceFlags({ native }: NodeDependencies, { view, request }: Target): Promise<void> {
  if (view.attachment === null) return;
  const { devicePath } = view.attachment;
  await native.run('setDeviceReadOnly', { devicePath, readOnly: isReadOnly(request) });
}

/** A read-only mount of a device node does not prevent writes to the device. */
function mountFlags({ view, request, target }: Target): LayerFlags {
  const { capability } = request;
  if (capability.accessType === 'block') return { target, readOnly: false, options: [] };
  const options = optionsPublishedWith(view.volume, capability);
  return { target, readOnly: isReadOnly(request), options };
}

function isReadOnly(request: PublicationRecord): boolean {
  return request.readOnly || isReaderOnly(request.capability);
}
