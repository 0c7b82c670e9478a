/** Errors about objects that the catalogue has and the pool has lost. */
import { CsiError } from '../../base/errors.js';

export function lostVolume(volumeId: string, pool: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(
    `volume ${volumeId} is lost: pool '${pool}' has no device for it; restore it from a snapshot or a backup`,
    { cause },
  );
}

export function lostSnapshot(snapshotId: string, pool: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(
    `snapshot ${snapshotId} is lost: pool '${pool}' has no device for it; make a full backup of another snapshot`,
    { cause },
  );
}

/** The error for a deleted snapshot whose retained base is no longer sound. */
export function invalidatedBase(snapshotId: string, reason: string): CsiError {
  return CsiError.notFound(
    `snapshot ${snapshotId} was deleted, and no delta can be made from its retained base because ${reason}; make a full backup`,
  );
}
