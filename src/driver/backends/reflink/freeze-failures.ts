/**
 * Why a volume's file system could not be flushed and frozen: the pool is full, the file system has shut down
 * after a failed write, or writes to its device have failed.
 *
 * Decides by errno, by the pool's free space and by the state of the mount. Knows nothing of snapshots and files.
 */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { CsiError, type SystemError } from '../../../base/errors.js';
import { type MountEntry, mountsOfDevice, readMountInfo } from '../../../base/system/mountinfo.js';
import { fileSystemTroubles, hasStoppedWriting } from '../../host/file-system-errors.js';
import { FULL_BYTES } from '../pool-levels.js';

/** Errnos of file systems, and of the loop device below them, after a failed write. */
const FAILED_WRITES: readonly string[] = ['EIO', 'ENOSPC', 'EROFS', 'EUCLEAN', 'ESHUTDOWN'];

export interface SourceVolume {
  volumeId: string;
  /** Null if the volume is not attached. */
  loopPath: string | null;
}

export interface PoolFreeSpace {
  pool: string;
  freeBytes: () => Promise<bigint>;
}

/**
 * FAILED_PRECONDITION if the volume is mounted writable but its file system no longer writes: its users' last
 * writes will never reach the device. RESOURCE_EXHAUSTED if the pool is full: flushing what the file system
 * has in memory would fail, and lose it.
 */
export async function assertWrites(volume: SourceVolume, room: PoolFreeSpace): Promise<void> {
  if (volume.loopPath === null) return;
  const mounts = await mountsOf(volume.loopPath);
  const broken = mounts.find(hasStoppedWriting);
  if (broken !== undefined) throw await stoppedWriting(volume, broken, room, undefined);
  if (mounts.every(({ superReadOnly }) => superReadOnly)) return;
  const full = await fullPool(volume.volumeId, room, undefined);
  if (full !== null) throw full;
}

/** The error for a write that failed; null if the failure has another cause. */
export async function explainFailedWrite(
  volume: SourceVolume,
  thrown: SystemError,
  room: PoolFreeSpace,
): Promise<CsiError | null> {
  if (!FAILED_WRITES.includes(thrown.code)) return null;
  const { volumeId, loopPath } = volume;
  for (const entry of loopPath === null ? [] : await mountsOf(loopPath)) {
    const { shutDown } = await fileSystemTroubles(entry, basename(loopPath ?? ''));
    if (shutDown || hasStoppedWriting(entry)) return stoppedWriting(volume, entry, room, thrown);
  }
  const full = await fullPool(volumeId, room, thrown);
  if (full !== null || thrown.code === 'ENOSPC') return full;
  return CsiError.failedPrecondition(
    `writes of volume ${volumeId} have failed (${thrown.syscall}: ${thrown.code}), so the last data of its ` +
      'users may be lost; check the kernel log, have them write it again, and try again',
    { cause: thrown },
  );
}

async function stoppedWriting(
  { volumeId }: SourceVolume,
  { mountPoint }: MountEntry,
  room: PoolFreeSpace,
  cause: unknown,
): Promise<CsiError> {
  const full = await fullPool(volumeId, room, cause);
  if (full !== null) return full;
  return CsiError.failedPrecondition(
    `the file system of volume ${volumeId} at ${mountPoint} has shut down or become read-only after a ` +
      'failed write, and what it held in memory is lost; unpublish, unstage and stage the volume, which ' +
      'checks and repairs it, then try again',
    { cause },
  );
}

async function fullPool(
  volumeId: string,
  { pool, freeBytes }: PoolFreeSpace,
  cause: unknown,
): Promise<CsiError | null> {
  const free = await freeBytes();
  if (free >= FULL_BYTES) return null;
  return CsiError.resourceExhausted(
    `pool '${pool}' has ${free} bytes free, so volume ${volumeId} cannot be flushed; delete ` +
      'snapshots or volumes, or add space; if its file system has shut down or become read-only, unpublish, ' +
      'unstage and stage the volume afterwards',
    { cause },
  );
}

async function mountsOf(devicePath: string): Promise<MountEntry[]> {
  const { rdev } = await stat(devicePath);
  return mountsOfDevice(await readMountInfo(), rdev);
}
