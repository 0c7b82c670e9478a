/**
 * Staging: from a volume to a mounted file system, or a device node, in the staging directory.
 *
 * Raw block volumes have their device node bound to `<staging path>/device`, so that the kernel
 * knows that they are staged, and where. The order that makes a kill at any point harmless: record,
 * attach, make the file system, flush, mark as used, mount. A volume is formatted only while the
 * catalogue calls it fresh, which ends before anybody else can write to it. Requests arrive parsed.
 */
import { stat } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Attachment } from '../backends/backend.js';
import type { MountAccess, VolumeCapability } from '../csi/fields.js';
import { CsiError } from '../errors.js';
import {
  DEFAULT_FILE_SYSTEM,
  FILE_SYSTEMS,
  type FileSystem,
  isFileSystem,
} from '../file-systems.js';
import {
  checkFileSystem,
  describeSignature,
  makeFileSystem,
  mountOptions,
  probe,
} from '../mount/filesystem.js';
import { bindMount, mount } from '../mount/mounter.js';
import { mountsOfDevice, readMountInfo } from '../mount/mountinfo.js';
import { assertNoLink, entryAt, kernelPath, makeTarget } from '../mount/target.js';
import type { StagingRecord, VolumeRecord } from '../volumes/records.js';
import { attemptUndo } from '../volumes/undo.js';
import { clearStagedDevice, releaseStaging } from './node-unstage.js';
import {
  foreignMount,
  isReaderOnly,
  livePublications,
  type NodeDependencies,
  type Occupant,
  stagedAt,
  stagedDevicePath,
  usesOf,
  type VolumeView,
  viewVolume,
} from './node-volume.js';

/** Stages the volume; staged there with this capability already: done. */
export async function stageVolume(
  deps: NodeDependencies,
  volume: VolumeRecord,
  request: StagingRecord,
): Promise<void> {
  const directory = await stagingDirectory(request.stagingPath);
  const view = await viewVolume(deps, volume);
  const staged = await stagedAt(view, directory);
  if (staged.kind === 'foreign') throw foreignMount(request.stagingPath, staged.entry.source);
  if (staged.kind !== 'nothing') return confirmStaged(deps, staged, request);
  assertCompatible(view, request.capability);
  const left = await clearStagedDevice(deps, view, request.stagingPath);
  if (left !== null) throw foreignMount(stagedDevicePath(request.stagingPath), left.source);
  await deps.catalogue.putStaging(request);
  try {
    const attachment = await attachWritable(deps, view);
    const { capability } = request;
    if (capability.accessType === 'block') {
      await stageDevice(deps, volume, attachment, directory);
    } else {
      await stageFileSystem(deps, { volume, attachment, capability, directory });
    }
  } catch (thrown) {
    await attemptUndo(() => releaseStaging(deps, volume, request.stagingPath));
    throw thrown;
  }
}

async function stagingDirectory(path: string): Promise<string> {
  const directory = await kernelPath(path);
  if (directory !== null) await assertNoLink(directory);
  const found = directory === null ? null : await entryAt(directory);
  if (directory === null || found === null) {
    throw CsiError.failedPrecondition(
      `staging_target_path ${path} does not exist; its creation is the caller's part`,
    );
  }
  if (!found.isDirectory()) {
    throw CsiError.failedPrecondition(`staging_target_path ${path} is no directory`);
  }
  return directory;
}

/** Staged already: the same capability, or what the kernel shows where there is no record. */
async function confirmStaged(
  deps: NodeDependencies,
  staged: Exclude<Occupant, { kind: 'nothing' }>,
  request: StagingRecord,
): Promise<void> {
  const { volumeId, stagingPath, capability } = request;
  const records = await deps.catalogue.stagings(volumeId);
  const record = records.find((known) => known.stagingPath === stagingPath);
  const isSame =
    record === undefined
      ? kernelAgrees(staged, capability)
      : staged.kind === capability.accessType && isDeepStrictEqual(record.capability, capability);
  if (!isSame) {
    throw CsiError.alreadyExists(
      `volume ${volumeId} is staged at ${stagingPath} with another volume_capability; unstage it first`,
    );
  }
  if (record === undefined) await deps.catalogue.putStaging(request);
}

function kernelAgrees(
  staged: Exclude<Occupant, { kind: 'nothing' }>,
  capability: VolumeCapability,
): boolean {
  if (staged.kind !== capability.accessType) return false;
  if (capability.accessType === 'block') return true;
  const isType = capability.fsType === '' || capability.fsType === staged.entry.fsType;
  return isType && staged.entry.superReadOnly === isReaderOnly(capability);
}

/** A raw device next to its mounted file system, or one file system both writable and not, cannot be. */
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

/** An earlier read-only publication that was killed may have left the device, or its number, read-only. */
async function attachWritable(deps: NodeDependencies, view: VolumeView): Promise<Attachment> {
  const attachment = await deps
    .backendOf(view.volume.pool)
    .attach(view.volume.volumeId, { readOnly: false });
  if ((await livePublications(deps, view)).length === 0) {
    const { devicePath } = attachment;
    await deps.native.run('setDeviceReadOnly', { devicePath, readOnly: false });
  }
  return attachment;
}

async function stageDevice(
  deps: NodeDependencies,
  volume: VolumeRecord,
  attachment: Attachment,
  directory: string,
): Promise<void> {
  if (volume.fresh) await deps.catalogue.markVolumeUsed(volume.volumeId);
  const target = stagedDevicePath(directory);
  await makeTarget(target, 'file');
  await bindMount({ source: attachment.devicePath, target, readOnly: false, options: [] });
}

interface FileSystemStaging {
  volume: VolumeRecord;
  attachment: Attachment;
  capability: MountAccess & VolumeCapability;
  directory: string;
}

async function stageFileSystem(deps: NodeDependencies, staging: FileSystemStaging): Promise<void> {
  const { volume, attachment, capability, directory } = staging;
  const type = (await isEmpty(volume, attachment))
    ? await formatFresh(deps, volume, attachment, capability)
    : await findFileSystem(volume, attachment, capability);
  if (volume.fresh) await deps.catalogue.markVolumeUsed(volume.volumeId);
  await mount({
    source: attachment.devicePath,
    target: directory,
    fsType: type,
    options: mountOptions(type, capability.mountFlags, isReaderOnly(capability)),
  });
}

/** Fresh is what nobody has written to. Of a volume with content from elsewhere its device must say so too. */
async function isEmpty(volume: VolumeRecord, attachment: Attachment): Promise<boolean> {
  if (!volume.fresh) return false;
  return volume.sourceSnapshotId === null || (await probe(attachment.devicePath)).kind === 'none';
}

async function formatFresh(
  deps: NodeDependencies,
  volume: VolumeRecord,
  attachment: Attachment,
  capability: MountAccess,
): Promise<FileSystem> {
  const type = isFileSystem(capability.fsType) ? capability.fsType : DEFAULT_FILE_SYSTEM;
  await makeFileSystem(type, attachment.devicePath, volume.sizeBytes);
  await deps.native.run('flush', { path: attachment.devicePath });
  return type;
}

/** The file system a volume holds, mended where that needs no decision. Never makes one. */
async function findFileSystem(
  volume: VolumeRecord,
  attachment: Attachment,
  capability: MountAccess,
): Promise<FileSystem> {
  const signature = await probe(attachment.devicePath);
  const type = signature.kind === 'filesystem' ? signature.type : '';
  const isWanted = capability.fsType === '' || capability.fsType === type;
  if (!isFileSystem(type) || !isWanted) {
    const wanted = capability.fsType === '' ? FILE_SYSTEMS.join(' or ') : capability.fsType;
    throw CsiError.failedPrecondition(
      `volume ${volume.volumeId} was used before and holds ${describeSignature(signature)}, not the ${wanted} asked for; ` +
        'nothing was formatted. Stage it as it is, or copy its data to a new volume',
    );
  }
  const mounts = await mountsOf(attachment);
  if (mounts === 0) await checkFileSystem(type, attachment.devicePath);
  return type;
}

async function mountsOf(attachment: Attachment): Promise<number> {
  const { rdev } = await stat(attachment.devicePath);
  return mountsOfDevice(await readMountInfo(), rdev).length;
}
