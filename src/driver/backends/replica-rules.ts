/** What the replicas of every kind of pool have in common: what may begin, how ranges are freed, and their errors. */
import { CsiError, errorCode } from '../../base/errors.js';
import type { NativeRunner } from '../native/pool.js';
import type { Replica, ReplicaDevice } from './backend.js';

/** How many ranges one call punches. */
const PUNCHED_AT_ONCE = 4096;

/** Whether the replica is there, unfinished. INTERNAL if it is complete, or unfinished with another size. */
export function isBegun(
  pool: string,
  snapshotId: string,
  found: Pick<Replica, 'sizeBytes' | 'isComplete'> | null,
  sizeBytes: bigint,
): boolean {
  if (found === null) return false;
  if (found.isComplete) {
    throw CsiError.internal(`the replica of ${snapshotId} in pool '${pool}' is complete and was begun again`);
  }
  if (found.sizeBytes === sizeBytes) return true;
  throw CsiError.internal(
    `the unfinished replica of ${snapshotId} in pool '${pool}' has ${found.sizeBytes} bytes where ${sizeBytes} were expected`,
  );
}

/** The error if a replica is promised that is not complete. */
export const notPromised = (snapshotId: string, pool: string): CsiError =>
  CsiError.failedPrecondition(
    `pool '${pool}' has no complete replica of snapshot ${snapshotId} that could be promised`,
  );

export function changedReplica(snapshotId: string, pool: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(
    `the replica of snapshot ${snapshotId} in pool '${pool}' is gone or was changed by another program, so it is no ` +
      'longer the snapshot: remove it, and it is pulled again',
    { cause },
  );
}

/**
 * As ReplicaDevice.punch.
 *
 * @param device what it is of, and `blockBytes` as for punchDevice
 */
export async function punch(
  native: NativeRunner,
  { path, objectId, blockBytes }: { path: string; objectId: string; blockBytes: bigint },
  ranges: Parameters<ReplicaDevice['punch']>[0],
): Promise<void> {
  for (let at = 0; at < ranges.length; at += PUNCHED_AT_ONCE) {
    const words = ranges.slice(at, at + PUNCHED_AT_ONCE).flatMap(({ offset, size }) => [offset, size]);
    await native.run('punchDevice', { path, ranges: BigUint64Array.from(words), blockBytes }, [objectId]);
  }
}

/**
 * As ReplicaDevice.flush.
 *
 * @param holder has had the device open since before the first write. nbdcopy overlooks errors that it has been told, and the
 *   kernel does not tell them again to a descriptor that is opened later.
 */
export async function flushed(holder: { flush(): Promise<void> }, snapshotId: string, pool: string): Promise<void> {
  await holder.flush().catch((thrown) => {
    throw CsiError.unavailable(
      `not all that was written to the replica of snapshot ${snapshotId} has reached pool '${pool}' ` +
        `(${errorCode(thrown) ?? 'unknown error'}): look at the free space of the pool and at the kernel log`,
      { cause: thrown },
    );
  });
}
