/**
 * The look-up that most calls begin with, and what is said of an object that cannot be worked with.
 */
import { CsiError } from '../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';

/**
 * A volume that can be worked with. FAILED_PRECONDITION for one whose deletion has not ended, NOT_FOUND
 * for any other id, also for one that is no handle at all.
 */
export async function readyVolume(
  catalogue: Pick<AsyncCatalogue, 'volumeById'>,
  volumeId: string,
): Promise<VolumeRecord> {
  const volume = await catalogue.volumeById(volumeId);
  if (volume?.state === 'ready') return volume;
  if (volume?.state === 'deleting') throw volumeDeleting(volumeId);
  throw volumeNotFound(volumeId);
}

export function volumeNotFound(volumeId: string): CsiError {
  return CsiError.notFound(`volume ${volumeId} does not exist on this node`);
}

/** A deletion that failed half way: nobody may use the volume, and it still takes its space. */
export function volumeDeleting(volumeId: string): CsiError {
  return CsiError.failedPrecondition(
    `volume ${volumeId} is being deleted, and its deletion has not ended; call DeleteVolume again`,
  );
}

/** As volumeDeleting. `call` is the RPC that ends the deletion. */
export function snapshotDeleting(snapshotId: string, call: string): CsiError {
  return CsiError.failedPrecondition(
    `snapshot ${snapshotId} is being deleted, and its deletion has not ended; call ${call} again`,
  );
}
