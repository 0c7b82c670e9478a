/** What is said of an object that the catalogue knows and the pool does not hold any more. */
import { CsiError } from '../../base/errors.js';

export function lostVolume(volumeId: string, pool: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(
    `volume ${volumeId} is lost: pool '${pool}' holds nothing of it; restore it from a snapshot or a backup`,
    { cause },
  );
}

export function lostSnapshot(snapshotId: string, pool: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(
    `snapshot ${snapshotId} is lost: pool '${pool}' holds nothing of it; make a full backup of another one`,
    { cause },
  );
}

/** What was kept of a deleted snapshot. */
export function invalidatedBase(snapshotId: string, reason: string): CsiError {
  return CsiError.notFound(
    `snapshot ${snapshotId} was deleted, and what was kept of it is lost because ${reason}; make a full backup`,
  );
}
