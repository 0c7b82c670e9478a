/**
 * Grows the file system of a staged volume to the size of its device.
 *
 * A file system that cannot be grown is staged all the same: the log line of the call holds the failure, and NodeExpandVolume
 * reports it. Only a copy that was created larger than its source must have reached its size once before it is staged.
 */

import type { CallContext } from '../../base/csi/service.js';
import type { MountAccess, VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError, errorCode, messageOf, StatusCode } from '../../base/errors.js';
import { isOfDevice, type MountEntry, mountsOfDevice, readMountInfo } from '../../base/system/mountinfo.js';
import { withTimeout } from '../../base/timeout.js';
import type { Attachment } from '../backends/backend.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { timeToWait } from '../csi/answer-time.js';
import { canGrowMounted, growUnmountedExt4 } from '../host/file-system-growth.js';
import { type FileSystem, MINIMUM_BYTES } from '../host/file-systems.js';
import { checkFileSystem } from '../host/filesystem.js';
import { unmountLayers } from '../host/layers.js';
import { FROZEN_BY_OTHERS } from '../host/left-frozen.js';
import { isGrowable } from '../host/superblock.js';
import { isReaderOnly } from '../usage/volume-view.js';
import type { NodeDependencies } from './node-dependencies.js';

/**
 * Free space that resize2fs needs: it wrote 11 MiB when it grew 1 GiB to 1 TiB, and every written block that a snapshot shares
 * takes new space.
 */
const RESIZE_ROOM_BYTES = 64n << 20n;
const RESIZE_ROOM_DIVISOR = 1024n;

export interface FileSystemStaging {
  volume: VolumeRecord;
  attachment: Attachment;
  capability: MountAccess & VolumeCapability;
  directory: string;
  context: CallContext;
}

/**
 * Whether the file system is grown through the requested mount. XFS and btrfs that are mounted read-only are grown when they
 * are next staged for writing. False if this process lacks the capability to grow the file system.
 */
export async function growsMounted(
  { capability }: Pick<FileSystemStaging, 'capability'>,
  type: FileSystem,
): Promise<boolean> {
  return !isReaderOnly(capability) && (await canGrowMounted(type));
}

/** Grows an ext4 that is not mounted, unless it has its device's size already. */
export async function growUnmounted(
  deps: Pick<NodeDependencies, 'native' | 'backendOf'>,
  staging: FileSystemStaging,
): Promise<void> {
  const { devicePath, sizeBytes } = staging.attachment;
  if (!(await isGrowable(deps.native, 'ext4', devicePath, sizeBytes))) return;
  try {
    await assertRoom(deps, staging.volume);
    await growUnmountedExt4(devicePath);
  } catch (thrown) {
    // The file system is still being grown, and must not be mounted.
    if (thrown instanceof CsiError && thrown.code === StatusCode.ABORTED) throw thrown;
    carryOn(staging, thrown);
    await checkFileSystem('ext4', devicePath);
  }
}

/** If resize2fs runs out of space half way, it leaves a file system that fsck -p refuses. */
async function assertRoom(
  deps: Pick<NodeDependencies, 'backendOf'>,
  { volumeId, pool, sizeBytes }: VolumeRecord,
): Promise<void> {
  const { freeBytes } = await deps.backendOf(pool).capacity();
  const neededBytes = RESIZE_ROOM_BYTES + sizeBytes / RESIZE_ROOM_DIVISOR;
  if (freeBytes >= neededBytes) return;
  throw CsiError.resourceExhausted(
    `the ext4 file system of volume ${volumeId} is not grown: pool '${pool}' has ${freeBytes} bytes free, and ` +
      `growing it safely while it is not mounted takes ${neededBytes}; delete volumes or snapshots, then stage it again`,
  );
}

export interface MountedFileSystem {
  volumeId: string;
  fsType: string;
  mountPoint: string;
  devicePath: string;
  deviceBytes: bigint;
}

/**
 * Grows a mounted file system to its device's size, unless the file system has that size already. ABORTED if the file system
 * does not answer before the caller's deadline; it may still grow later.
 */
export async function growMounted(
  { native }: Pick<NodeDependencies, 'native'>,
  { volumeId, fsType, mountPoint, devicePath, deviceBytes }: MountedFileSystem,
  context: CallContext,
): Promise<void> {
  const growth = native.run('growFileSystem', { mountPoint, devicePath }, [volumeId]);
  try {
    await withTimeout(
      growth,
      timeToWait(context),
      (): never => {
        throw CsiError.aborted(
          `the ${fsType} file system of volume ${volumeId} at ${mountPoint} does not answer and has not grown to ` +
            `${deviceBytes} bytes: ${FROZEN_BY_OTHERS}; thaw it with fsfreeze --unfreeze ${mountPoint}, ` +
            'or check its disk and the kernel log; it grows as soon as it answers',
        );
      },
      context.signal,
    );
  } catch (thrown) {
    throw tooSmallToGrow(volumeId, fsType, deviceBytes, thrown) ?? thrown;
  }
}

/**
 * Grows the file system of a staging directory, unless it has its device's size already. An ext4 that only grows unmounted is
 * unmounted for the growth, unless it is mounted elsewhere too or `mountAgain` is null.
 */
export async function growStaged(
  deps: Pick<NodeDependencies, 'native' | 'backendOf'>,
  staging: FileSystemStaging,
  type: FileSystem,
  mountAgain: (() => Promise<unknown>) | null,
): Promise<void> {
  const { attachment, directory } = staging;
  const { devicePath, sizeBytes: deviceBytes } = attachment;
  const { volumeId } = staging.volume;
  try {
    const mounted = { volumeId, fsType: type, mountPoint: directory, devicePath, deviceBytes };
    await growMounted(deps, mounted, staging.context);
  } catch (thrown) {
    const isOffline = type === 'ext4' && errorCode(thrown) === 'EOPNOTSUPP';
    if (!isOffline || mountAgain === null || mountPointsOf(attachment, await readMountInfo()) > 1) {
      carryOn(staging, thrown);
      return;
    }
    await unmountLayers(deps.native, directory, (entry) => isOfDevice(entry, attachment.rdev));
    await growUnmounted(deps, staging);
    await mountAgain();
  }
}

/** The error for EINVAL if a btrfs has a smaller device than the kernel grows a btrfs to; null for any other failure. */
function tooSmallToGrow(volumeId: string, fsType: string, deviceBytes: bigint, thrown: unknown): CsiError | null {
  const least = MINIMUM_BYTES.btrfs;
  if (fsType !== 'btrfs' || deviceBytes >= least || errorCode(thrown) !== 'EINVAL') return null;
  return CsiError.failedPrecondition(
    `the btrfs file system of volume ${volumeId} cannot be grown to its device of ${deviceBytes} bytes: the kernel ` +
      `cannot grow a btrfs to less than ${least} bytes; expand the volume to at least that with ControllerExpandVolume`,
    { cause: thrown },
  );
}

/** The number of paths where the file system is mounted. mountinfo has a path twice if its parent directory is shared twice. */
export function mountPointsOf({ rdev }: Attachment, mounts: readonly MountEntry[]): number {
  const entries = mountsOfDevice(mounts, rdev);
  return new Set(entries.map(({ mountPoint }) => mountPoint)).size;
}

function carryOn({ volume, context }: FileSystemStaging, thrown: unknown): void {
  if (volume.awaitsGrowth) throw thrown;
  context.note({ growthFailure: messageOf(thrown) });
}
