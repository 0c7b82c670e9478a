/**
 * Copies volumes (a snapshot, a group of snapshots, a clone) without making the caller wait beyond its deadline.
 *
 * The kernel cannot be interrupted while it clones a file, and a disk that hangs never answers. The caller then gets an error
 * in time, and the volumes are unlocked, so that their users can stop using them. The copy continues under the lock of its
 * name, and discards itself when it ends: the addon publishes no copy after the deadline. Knows nothing of backends.
 */

import { CsiError } from '../../base/errors.js';
import { withTimeout } from '../../base/timeout.js';
import { timeToWait } from '../csi/answer-time.js';
import { type LockRequest, type OperationLocks, volumeCopyKey, volumeKey } from './operation-locks.js';

export interface CopyOf {
  /** Locked until the copy has ended. */
  keys: readonly LockRequest[];
  /**
   * The source volumes, which must not be deleted, staged, expanded or copied meanwhile. They are locked until the caller has
   * its answer, and their copy locks until the copy has ended. Empty if the operation copies no volume.
   */
  volumeIds: readonly string[];
  /** When the caller stops waiting, in ms since the epoch; left out if it never does. */
  deadline: number | undefined;
}

/**
 * Runs `copy` under the locks and returns its result. ABORTED if the copy has not ended shortly before the deadline.
 *
 * @param copy receives the time when it must have ended, earlier than the deadline, so that its own error reaches the caller
 * @param signal of the call, which then waits for the locks; without a signal, the call fails unless the locks are free
 */
export async function copyInTime<T>(
  locks: OperationLocks,
  { keys, volumeIds, deadline = Number.POSITIVE_INFINITY }: CopyOf,
  copy: (deadline: number) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const volumes = volumeIds.map(volumeKey);
  const requests = [...keys, ...volumes, ...volumeIds.map(volumeCopyKey)];
  const release = await locks.acquireFor(requests, signal);
  if (volumes.length === 0 || !Number.isFinite(deadline)) {
    try {
      return await copy(deadline);
    } finally {
      release();
    }
  }
  const now = Date.now();
  const copyMs = timeToWait({ deadline });
  const copied = copy(now + copyMs).finally(() => release());
  return withTimeout(copied, (copyMs + deadline - now) / 2, () => {
    release(volumes);
    throw CsiError.aborted(
      `a copy of volume ${volumeIds.slice(0, NAMED).join(', ')} has not ended within the time of the call: the kernel, or ` +
        'the disk of its pool, still works on it; it is discarded when it ends, and until then the volume can be ' +
        'unpublished, but not copied, expanded or deleted; see the kernel log and the conditions of the volume, then ' +
        'try again with more time',
    );
  });
}

/** How many volumes of a group a message names. */
const NAMED = 3;
