/** The look-up that most calls begin with, and the errors for objects that are absent or being deleted. */
import { CsiError } from '../../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';

/**
 * A volume that is ready. FAILED_PRECONDITION while it is being deleted, NOT_FOUND for any other id,
 * including a string that is not a handle.
 */
export async function readyVolume(
  catalogue: Pick<AsyncCatalogue, 'volumeById'>,
  volumeId: string,
): Promise<VolumeRecord> {
  return ifReady(await catalogue.volumeById(volumeId), volumeId);
}

/** The record of this volume; throws as readyVolume does. */
export function ifReady(volume: VolumeRecord | null, volumeId: string): VolumeRecord {
  if (volume?.state === 'ready') return volume;
  if (volume?.state === 'deleting') throw volumeDeleting(volumeId);
  throw volumeNotFound(volumeId);
}

export function volumeNotFound(volumeId: string): CsiError {
  return CsiError.notFound(`volume ${volumeId} does not exist on this node`);
}

/** A deletion has failed part way: the volume still takes its space, and must not be used. */
export function volumeDeleting(volumeId: string): CsiError {
  return CsiError.failedPrecondition(
    `volume ${volumeId} is being deleted, and its deletion has not completed; call DeleteVolume again`,
  );
}

/** As volumeDeleting, for a snapshot. `rpc` is the call that completes the deletion. */
export function snapshotDeleting(snapshotId: string, rpc: string): CsiError {
  return CsiError.failedPrecondition(
    `snapshot ${snapshotId} is being deleted, and its deletion has not completed; call ${rpc} again`,
  );
}
