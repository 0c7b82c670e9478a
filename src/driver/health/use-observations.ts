/**
 * Observes the health of a volume where it is staged and published on this node.
 *
 * The catalogue's records say which paths to check and what was requested. A path where nothing is
 * mounted is not a finding: a reboot leaves records behind until the next NodeStageVolume.
 */
import { basename } from 'node:path';
import type { PublicationRecord, StagingRecord } from '../catalogue/records.js';
import { settingsNotInForce } from '../host/block-settings.js';
import { fileSystemTroubles } from '../host/file-system-errors.js';
import { kernelPath } from '../host/target.js';
import type { NativeRunner } from '../native/pool.js';
import {
  belongsTo,
  blockDeviceAt,
  isReaderOnly,
  type Occupant,
  occupantAt,
  stagedAt,
  stagedDevicePath,
  type VolumeView,
} from '../usage/volume-view.js';
import { parseDeviceSettings } from '../volumes/device-settings.js';
import type { HealthDependencies } from './storage-observations.js';
import type { FileSystemObservations, UseObservations } from './volume-health.js';

/** A recorded path, and what was requested for it. */
interface Place {
  path: string;
  resolvedPath: string | null;
  isBlock: boolean;
  wantsWriting: boolean;
}

export async function observeUse(
  { catalogue, native }: Pick<HealthDependencies, 'catalogue'> & { native: NativeRunner },
  view: VolumeView,
): Promise<UseObservations> {
  const { volumeId } = view.volume;
  const places = [
    ...(await catalogue.stagings(volumeId)).map(stagingPlace),
    ...(await catalogue.publications(volumeId)).map(publicationPlace),
  ];
  const detachedAt: string[] = [];
  const fileSystems: FileSystemObservations[] = [];
  for (const place of places) {
    const path = place.resolvedPath ?? (await kernelPath(place.path));
    const occupant = path === null ? null : await stagedAt(view, path);
    if (occupant?.kind === 'mount') fileSystems.push(await fileSystemAt(view, place, occupant));
    else if (path !== null && place.isBlock && (await isDetachedAt(view, path))) {
      detachedAt.push(place.path);
    }
  }
  return { detachedAt, settingsMissing: await settingsMissing(native, view), fileSystems };
}

/** No settings are missing if the device is detached meanwhile. */
async function settingsMissing(native: NativeRunner, { volume, attachment }: VolumeView): Promise<string[]> {
  if (attachment === null || attachment.readOnly) return [];
  const settings = parseDeviceSettings(volume.mutableParameters, 'mutable_parameters');
  return settingsNotInForce(native, attachment, settings).catch(() => []);
}

function stagingPlace({ stagingPath, resolvedPath, capability }: StagingRecord): Place {
  return {
    path: stagingPath,
    resolvedPath,
    isBlock: capability.accessType === 'block',
    wantsWriting: !isReaderOnly(capability),
  };
}

function publicationPlace(record: PublicationRecord): Place {
  const { targetPath, resolvedPath, capability, readOnly } = record;
  return {
    path: targetPath,
    resolvedPath,
    isBlock: capability.accessType === 'block',
    wantsWriting: !readOnly && !isReaderOnly(capability),
  };
}

/**
 * Whether the path holds a bound device node that no longer belongs to the volume: unlike a mounted
 * file system, a bound node does not prevent the detach of its device.
 */
async function isDetachedAt(view: VolumeView, path: string): Promise<boolean> {
  if (view.poolFailure !== null) return false;
  for (const place of [path, stagedDevicePath(path)]) {
    const occupant = await occupantAt(view, place);
    if (occupant.kind !== 'foreign' || (await blockDeviceAt(place)) === null) continue;
    // The device of a volume whose file was removed still works, and its label still names the volume.
    return !(await belongsTo(view.volume.volumeId, null)(occupant.entry));
  }
  return false;
}

async function fileSystemAt(
  view: VolumeView,
  { path, wantsWriting }: Place,
  { entry }: Extract<Occupant, { kind: 'mount' }>,
): Promise<FileSystemObservations> {
  const deviceName = basename(view.attachment?.devicePath ?? '');
  const troubles = await fileSystemTroubles(entry, deviceName);
  return { path, wantsWriting, readOnly: entry.superReadOnly, ...troubles };
}
