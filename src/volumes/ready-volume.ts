/** The look-up that most calls begin with. */
import { CsiError } from '../errors.js';
import type { AsyncCatalogue, VolumeRecord } from './records.js';

/** A volume that can be worked with. NOT_FOUND for any other id, also for one that is no handle at all. */
export async function readyVolume(
  catalogue: Pick<AsyncCatalogue, 'volumeById'>,
  volumeId: string,
): Promise<VolumeRecord> {
  const volume = await catalogue.volumeById(volumeId);
  if (volume?.state === 'ready') return volume;
  throw volumeNotFound(volumeId);
}

export function volumeNotFound(volumeId: string): CsiError {
  return CsiError.notFound(`volume ${volumeId} does not exist on this node`);
}
