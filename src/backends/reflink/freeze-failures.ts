/**
 * What it means that a volume's file system could not be brought to rest: the pool is full, the file system
 * has given up after a failed write, or writes to its device have failed.
 *
 * Judged by errno, by the pool's free space, and by what the kernel says of the mount; never by text.
 * Knows nothing of snapshots and files.
 */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { CsiError, type SystemError } from '../../base/errors.js';
import { fileSystemTroubles, isShutDown } from '../../host/file-system-errors.js';
import { type MountEntry, mountsOfDevice, readMountInfo } from '../../host/mountinfo.js';

/** With less than this free a write that needs new blocks cannot be relied on, whatever its size. */
const FULL_BYTES = 4n << 20n;
/** What file systems, and the loop device below them, answer when writing has failed. */
const FAILED_WRITES: readonly string[] = ['EIO', 'ENOSPC', 'EROFS', 'EUCLEAN', 'ESHUTDOWN'];

/** A volume whose content was to be taken. */
export interface RestingVolume {
  volumeId: string;
  /** Null: it is not attached. */
  loopPath: string | null;
}

export interface PoolRoom {
  pool: string;
  freeBytes: () => Promise<bigint>;
}

/**
 * Refuses a volume whose file system does not write any more, though it was mounted for writing: what its
 * users wrote last is not on the device, and never will be. And one in a full pool, where what it still
 * holds in memory would be lost by writing it back.
 */
export async function assertWrites(volume: RestingVolume, room: PoolRoom): Promise<void> {
  if (volume.loopPath === null) return;
  const mounts = await mountsOf(volume.loopPath);
  const broken = mounts.find(hasGivenUpWriting);
  if (broken !== undefined) throw await gaveUp(volume, broken, room, undefined);
  if (mounts.every(({ superReadOnly }) => superReadOnly)) return;
  const full = await fullPool(volume.volumeId, room, undefined);
  if (full !== null) throw full;
}

/** Null: it was something else. */
export async function explainFailedWrite(
  volume: RestingVolume,
  thrown: SystemError,
  room: PoolRoom,
): Promise<CsiError | null> {
  if (!FAILED_WRITES.includes(thrown.code)) return null;
  const { volumeId, loopPath } = volume;
  for (const entry of loopPath === null ? [] : await mountsOf(loopPath)) {
    const { shutDown } = await fileSystemTroubles(entry, basename(loopPath ?? ''));
    if (shutDown || hasGivenUpWriting(entry)) return gaveUp(volume, entry, room, thrown);
  }
  const full = await fullPool(volumeId, room, thrown);
  if (full !== null || thrown.code === 'ENOSPC') return full;
  return CsiError.failedPrecondition(
    `writes of volume ${volumeId} have failed (${thrown.syscall}: ${thrown.code}), so what its users wrote ` +
      'last may be lost; look at the kernel log, let them write it again, and try again',
    { cause: thrown },
  );
}

/** One that is mounted read-only has both flags; one that became so by itself has that of the file system. */
function hasGivenUpWriting(entry: MountEntry): boolean {
  return isShutDown(entry) || (entry.superReadOnly && !entry.readOnly);
}

async function gaveUp(
  { volumeId }: RestingVolume,
  { mountPoint }: MountEntry,
  room: PoolRoom,
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
  { pool, freeBytes }: PoolRoom,
  cause: unknown,
): Promise<CsiError | null> {
  const free = await freeBytes();
  if (free >= FULL_BYTES) return null;
  return CsiError.resourceExhausted(
    `pool '${pool}' has ${free} bytes free, and volume ${volumeId} cannot write what it holds; delete ` +
      'snapshots or volumes, or add space; if its file system has shut down or become read-only, unpublish, ' +
      'unstage and stage the volume then',
    { cause },
  );
}

async function mountsOf(devicePath: string): Promise<MountEntry[]> {
  const { rdev } = await stat(devicePath);
  return mountsOfDevice(await readMountInfo(), rdev);
}
