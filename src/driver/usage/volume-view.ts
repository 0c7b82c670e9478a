/**
 * One volume as this node's kernel shows it now: where it is attached, and where it is mounted.
 *
 * Nothing is cached. The catalogue's records of stagings and publications say what was requested, so they
 * count only where a mount confirms them.
 */

import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isVolumeId } from '../../base/csi/handles.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError, errorCode, insteadOf } from '../../base/errors.js';
import { deviceLabel } from '../../base/system/device-attributes.js';
import {
  isOfDevice,
  type MountEntry,
  majorOf,
  minorOf,
  mountsAt,
  mountsOfDevice,
  mountsOfFileSystem,
  readMountInfo,
} from '../../base/system/mountinfo.js';
import type { Attachment, Backend } from '../backends/backend.js';
import type { StagingRecord, VolumeRecord } from '../catalogue/records.js';
import { splitFlags } from '../host/filesystem.js';
import { kernelPath } from '../host/target.js';
import type { Look, LookRequest } from '../native/look-calls.js';
import type { NativeRunner } from '../native/pool.js';

export interface ViewSources {
  backendOf(pool: string): Backend;
}

/** The file in the staging directory of a raw block volume that the device node is bound to. */
const STAGED_DEVICE = 'device';

export interface VolumeView {
  volume: VolumeRecord;
  attachment: Attachment | null;
  /** st_rdev of the device node, and st_dev of the file system that holds the node. Null if not attached. */
  node: { rdev: number; dev: number } | null;
  mounts: readonly MountEntry[];
  /** Why the pool could not be read, so that the device is unknown; null except in a view for release. */
  poolFailure: CsiError | null;
}

/** What is mounted on a path. */
export type Occupant =
  | { kind: 'nothing' }
  /** The volume's file system. */
  | { kind: 'mount'; entry: MountEntry }
  /** The volume's device node. */
  | { kind: 'block'; entry: MountEntry }
  | { kind: 'foreign'; entry: MountEntry };

/** An occupant that is the volume itself. */
export type Use = Extract<Occupant, { kind: 'mount' | 'block' }>;

export const NOTHING: Occupant = { kind: 'nothing' };

/** Whether a mount, or the device node bound there, belongs to the volume. */
export type Belongs = (entry: MountEntry) => Promise<boolean>;

/** @param mounts the current mounts, if the caller has just read them */
export async function viewVolume(
  deps: ViewSources,
  volume: VolumeRecord,
  mounts?: readonly MountEntry[],
): Promise<VolumeView> {
  const found = await findDevice(deps, volume);
  return { volume, ...found, mounts: mounts ?? (await readMountInfo()), poolFailure: null };
}

/** For releasing and reporting, which must also work when the pool is dead or absent from the configuration. */
export async function viewForRelease(
  deps: ViewSources,
  volume: VolumeRecord,
  mounts?: readonly MountEntry[],
): Promise<VolumeView> {
  try {
    return await viewVolume(deps, volume, mounts);
  } catch (thrown) {
    const poolFailure = failureOf(volume, thrown);
    const current = mounts ?? (await readMountInfo());
    return { volume, attachment: null, node: null, mounts: current, poolFailure };
  }
}

/** A volume and what a call looks at before it acts. */
export interface Seen {
  view: VolumeView;
  look: Look;
  /** For another look at the same paths and at the device that was found. */
  request: LookRequest;
}

/**
 * As viewForRelease, by one look at the node. The view has the mounts that the look has; a failure of the pool does not keep
 * the rest from being seen.
 *
 * @param around looks at the paths that the call is about, and at no device
 */
export async function seeVolume(
  deps: ViewSources & { native: NativeRunner },
  volume: VolumeRecord,
  around: LookRequest,
): Promise<Seen> {
  const { attachment, look, poolFailure } = await findAndLook(deps, volume, around);
  const view = { volume, attachment, node: look.node, mounts: look.mounts, poolFailure };
  return { view, look, request: { ...around, guarded: null, devicePath: attachment?.devicePath ?? null } };
}

async function findAndLook(
  deps: ViewSources & { native: NativeRunner },
  volume: VolumeRecord,
  around: LookRequest,
): Promise<{ attachment: Attachment | null; look: Look; poolFailure: CsiError | null }> {
  let attachment: Attachment | null = null;
  let poolFailure: CsiError | null = null;
  try {
    const { attachments } = deps.backendOf(volume.pool);
    const found = await attachments.findAndLook?.(volume.volumeId, around);
    if (found) return { ...found, poolFailure };
    attachment = await attachments.find(volume.volumeId);
  } catch (thrown) {
    poolFailure = failureOf(volume, thrown);
  }
  const look = await deps.native.run('look', { ...around, devicePath: attachment?.devicePath ?? null });
  return { attachment, look, poolFailure };
}

async function findDevice(deps: ViewSources, volume: VolumeRecord): Promise<Pick<VolumeView, 'attachment' | 'node'>> {
  const attachment = await deps.backendOf(volume.pool).attachments.find(volume.volumeId);
  return { attachment, node: attachment === null ? null : await stat(attachment.devicePath) };
}

function failureOf(volume: VolumeRecord, thrown: unknown): CsiError {
  if (thrown instanceof CsiError) return thrown;
  return CsiError.failedPrecondition(
    `pool '${volume.pool}' cannot be read to find the device of volume ${volume.volumeId}: ` +
      `${errorCode(thrown) ?? 'unknown error'}; check its disk, then try again`,
    { cause: thrown },
  );
}

/** The topmost mount on a path, which is given as mountinfo writes it. */
export async function occupantAt(view: VolumeView, path: string): Promise<Occupant> {
  const entry = mountsAt(view.mounts, path).at(-1);
  if (entry === undefined) return NOTHING;
  if (view.node !== null && isOfDevice(entry, view.node.rdev)) return { kind: 'mount', entry };
  const rdev = await blockDeviceAt(path);
  if (rdev !== null && rdev === view.node?.rdev) return { kind: 'block', entry };
  return { kind: 'foreign', entry };
}

/**
 * Compares a mount with the attached device, and with the label of the mount's device. The label decides alone if `node` is
 * null, because the volume's file is gone, its pool cannot be read or the volume is unknown. The label of a device suffices to
 * unmount the device if it names one of the plugin's ids.
 */
export function belongsTo(volumeId: string, node: VolumeView['node']): Belongs {
  return async (entry) => {
    if (node !== null && isOfDevice(entry, node.rdev)) return true;
    const rdev = await blockDeviceAt(entry.mountPoint);
    if (node !== null && rdev === node.rdev) return true;
    if (!isVolumeId(volumeId)) return false;
    const device = rdev === null ? entry.device : { major: majorOf(rdev), minor: minorOf(rdev) };
    return (await deviceLabel(device))?.includes(volumeId) === true;
  };
}

/**
 * At the path of a recorded raw device, any block device node belongs to the volume: the node may be another device's by now,
 * because a bound node does not prevent the volume's own device from being detached.
 */
export function forRecord(record: { capability: VolumeCapability } | null, belongs: Belongs): Belongs {
  if (record?.capability.accessType !== 'block') return belongs;
  return async (entry) => (await belongs(entry)) || (await blockDeviceAt(entry.mountPoint)) !== null;
}

/** How the volume is staged in a directory. Another device's node there counts as nothing. */
export async function stagedAt(view: VolumeView, directory: string): Promise<Occupant> {
  const occupant = await occupantAt(view, directory);
  if (occupant.kind !== 'nothing') return occupant;
  const device = await occupantAt(view, stagedDevicePath(directory));
  return device.kind === 'block' ? device : NOTHING;
}

/** How the volume is used, staged or published, at a path from a request, which may be any string. */
export async function findUse(view: VolumeView, volumePath: string): Promise<Occupant> {
  const path = await plainPath(volumePath);
  if (path === null) return NOTHING;
  const occupant = await occupantAt(view, path);
  return occupant.kind === 'nothing' ? stagedAt(view, path) : occupant;
}

/**
 * As `findUse`, but also finds the volume by the device's label if the device is unknown, because a volume remains in use
 * without its pool or its file. For reports only. Null if the volume is not there.
 */
export async function findRemainingUse(view: VolumeView, volumePath: string): Promise<Use | null> {
  const found = await findUse(view, volumePath);
  if (found.kind === 'mount' || found.kind === 'block') return found;
  const path = view.node === null ? await plainPath(volumePath) : null;
  if (path === null) return null;
  for (const place of [path, stagedDevicePath(path)]) {
    const entry = mountsAt(view.mounts, place).at(-1);
    if (entry === undefined) continue;
    if (!(await belongsTo(view.volume.volumeId, null)(entry))) return null;
    return { kind: (await blockDeviceAt(place)) === null ? 'mount' : 'block', entry };
  }
  return null;
}

async function plainPath(volumePath: string): Promise<string | null> {
  const isPlain = volumePath.startsWith('/') && !volumePath.split('/').includes('..');
  return isPlain ? kernelPath(volumePath) : null;
}

export function stagedDevicePath(directory: string): string {
  return join(directory, STAGED_DEVICE);
}

/** All mounts of the volume's file system, and all paths that its device node is bound to. */
export function usesOf(view: VolumeView): { mounts: MountEntry[]; nodes: MountEntry[] } {
  const { node, attachment } = view;
  if (node === null || attachment === null) return { mounts: [], nodes: [] };
  const name = basename(attachment.devicePath);
  return {
    mounts: mountsOfDevice(view.mounts, node.rdev),
    nodes: mountsOfFileSystem(view.mounts, node.dev).filter((entry) => basename(entry.root) === name),
  };
}

/**
 * Where the kernel shows the volume in use, or where it is recorded as staged while its pool cannot be read. Null if it is not in
 * use: a record alone says what was so before a power cut.
 */
export async function placeInUse(
  deps: ViewSources,
  volume: VolumeRecord,
  stagings: readonly StagingRecord[],
): Promise<string | null> {
  const view = await viewForRelease(deps, volume);
  if (view.poolFailure !== null) return stagings[0]?.stagingPath ?? null;
  const { mounts, nodes } = usesOf(view);
  return [...mounts, ...nodes][0]?.mountPoint ?? null;
}

/** Whether the capability itself excludes writing. */
export function isReaderOnly(capability: VolumeCapability): boolean {
  if (capability.accessMode.endsWith('_READER_ONLY')) return true;
  return capability.accessType === 'mount' && splitFlags(capability.mountFlags).includes('ro');
}

/** A mount that does not belong to the volume occupies the path. */
export function foreignMount(path: string, source: string): CsiError {
  return CsiError.failedPrecondition(
    `${path} has something else mounted on it (${source}); it was left as it is: unmount it`,
  );
}

/** Errors of stat(2) where there is nothing, or only the root of a file system that has shut down. */
const NO_NODE = ['ENOENT', 'EIO', 'ESTALE', 'ENOTCONN', 'EUCLEAN'];

/** st_rdev of a block device node; null for anything else. */
export async function blockDeviceAt(path: string): Promise<number | null> {
  const found = await stat(path).catch(insteadOf(NO_NODE, null));
  return found?.isBlockDevice() ? found.rdev : null;
}
