/**
 * From a volume's device to its file system, mounted in the staging directory.
 *
 * The order makes a kill at any point harmless: make the file system, flush, mark the volume as initialized; give a copied
 * btrfs an id of its own; grow a file system that cannot be grown while mounted; mount; grow any other file system. A volume is
 * formatted only while the catalogue and the pool agree that it is pristine, and it stops being pristine before anything else
 * can write to it.
 */

import { uuidOf } from '../../base/csi/handles.js';
import type { MountAccess } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import { ExecError } from '../../base/process/exec.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import type { Attachment, Backend } from '../backends/backend.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { giveIdentity } from '../host/btrfs-identity.js';
import { cleanFileSystem } from '../host/clean-file-system.js';
import { parseMkfsOptions, parseStoredMountOptions } from '../host/file-system-options.js';
import { DEFAULT_FILE_SYSTEM, FILE_SYSTEMS, type FileSystem, isFileSystem } from '../host/file-systems.js';
import {
  checkFileSystem,
  describeSignature,
  makeFileSystem,
  mountOptions,
  probe,
  publishedOptions,
  type Signature,
} from '../host/filesystem.js';
import type { LookRequest } from '../native/look-calls.js';
import { isReaderOnly } from '../usage/volume-view.js';
import { isPristine, markInitialized } from '../volumes/pristine.js';
import { type FileSystemStaging, growStaged, growsMounted, growUnmounted, mountPointsOf } from './growth.js';
import { assertAccepted, mountGuarded } from './mount-guard.js';
import type { NodeDependencies } from './node-dependencies.js';

/** Options of the StorageClass for mkfs, and for every mount of the volume. */
const MKFS_OPTIONS = 'mkfsOptions';
const MOUNT_OPTIONS = 'mountOptions';

/** @param staging.look looks at the directory among others, and at the device */
export async function stageFileSystem(
  deps: NodeDependencies,
  staging: FileSystemStaging & { look: LookRequest },
  mounts: readonly MountEntry[],
): Promise<void> {
  const { volume, attachment, capability, directory, look } = staging;
  const backend = deps.backendOf(volume.pool);
  const type = (await isEmpty(backend, volume, attachment))
    ? await formatPristine(deps, staging)
    : await namingVolume(volume, () => findFileSystem(deps, staging, mounts));
  await markInitialized(deps.catalogue, backend, volume);
  const flags = [...parseStoredMountOptions(ownOptions(volume), OWN_OPTIONS, type), ...capability.mountFlags];
  const options = mountOptions(type, flags, isReaderOnly(capability));
  const guarded = { volume, attachment, type, directory, options, look };
  await mountGuarded(deps, { ...guarded, before: mounts });
  if (!(await growsMounted(staging, type))) return;
  await growStaged(deps, staging, type, async () => {
    const { mounts: before } = await deps.native.run('look', look);
    await mountGuarded(deps, { ...guarded, before });
  });
}

/** Adds the volume to the failure of a tool, which names only the device. The device soon stands for another volume. */
async function namingVolume<T>({ volumeId }: VolumeRecord, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (thrown) {
    if (!(thrown instanceof CsiError && thrown.cause instanceof ExecError)) throw thrown;
    throw new CsiError(thrown.code, `volume ${volumeId}: ${thrown.message}`, {
      cause: thrown.cause,
    });
  }
}

/** Whether the volume is pristine, so that it may be formatted. A copy must also have no signature on its device. */
async function isEmpty(backend: Backend, volume: VolumeRecord, attachment: Attachment): Promise<boolean> {
  if (!(await isPristine(backend, volume))) return false;
  return !isCopy(volume) || (await probe(attachment.devicePath)).kind === 'none';
}

const isCopy = (volume: VolumeRecord): boolean => volume.sourceSnapshotId !== null || volume.sourceVolumeId !== null;

async function formatPristine(
  deps: NodeDependencies,
  { volume, attachment, capability }: FileSystemStaging,
): Promise<FileSystem> {
  const type = isFileSystem(capability.fsType) ? capability.fsType : DEFAULT_FILE_SYSTEM;
  const text = volume.parameters[MKFS_OPTIONS] ?? '';
  const options = parseMkfsOptions(text, `parameters['${MKFS_OPTIONS}']`, type);
  await makeFileSystem(type, attachment.devicePath, volume.sizeBytes, options);
  await deps.native.run('flush', { path: attachment.devicePath });
  return type;
}

const OWN_OPTIONS = `parameters['${MOUNT_OPTIONS}']`;
const ownOptions = (volume: VolumeRecord): string => volume.parameters[MOUNT_OPTIONS] ?? '';

/** The options of the mount that a workload sees. */
export function optionsPublishedWith(volume: VolumeRecord, capability: MountAccess): string[] {
  return publishedOptions(ownOptions(volume).split(','), capability.mountFlags);
}

/** Finds the file system that a volume holds, and prepares it for its mount. Never makes a file system. */
async function findFileSystem(
  deps: NodeDependencies,
  staging: FileSystemStaging,
  mounts: readonly MountEntry[],
): Promise<FileSystem> {
  const { volume, attachment, capability, directory } = staging;
  const { devicePath, sizeBytes } = attachment;
  const clean = await cleanFileSystem(deps.native, devicePath, sizeBytes);
  const signature: Signature = clean === null ? await probe(devicePath) : { kind: 'filesystem', type: clean };
  const type = signature.kind === 'filesystem' ? signature.type : '';
  const isWanted = capability.fsType === '' || capability.fsType === type;
  if (!isFileSystem(type) || !isWanted) {
    const wanted = capability.fsType === '' ? FILE_SYSTEMS.join(' or ') : capability.fsType;
    throw CsiError.failedPrecondition(
      `volume ${volume.volumeId} was used before and holds ${describeSignature(signature)}, not the ${wanted} asked for; ` +
        'nothing was formatted. Stage it as it is, or copy its data to a new volume',
    );
  }
  if (mountPointsOf(attachment, mounts) > 0) return type;
  // Checks the superblock before a tool gets the device. No tool gets an xfs, which, like all, is checked before its mount.
  if (type !== 'xfs') await assertAccepted(deps, { volume, attachment, type });
  if (clean === null) await checkFileSystem(type, devicePath);
  if (type === 'btrfs' && isCopy(volume)) {
    await giveIdentity(deps.native, devicePath, uuidOf(volume.volumeId), directory);
  }
  if (type === 'ext4' && !(await growsMounted(staging, type))) await growUnmounted(deps, staging);
  return type;
}
