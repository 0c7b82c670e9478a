/** Completes or removes a volume whose creation a kill or a failed rollback has interrupted. */
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';

/**
 * Completes a volume in state `creating` if the pool holds all of it or has marked it, and removes it otherwise. A complete
 * volume may have been acknowledged and used since, because the catalogue may be a copy that was taken during the creation.
 * Thaws the source of a clone, so no other operation may use the source meanwhile.
 *
 * @returns whether the volume is ready now
 */
export async function settleNewVolume(
  { catalogue, registry }: { catalogue: AsyncCatalogue; registry: BackendRegistry },
  { volumeId, pool, sizeBytes, sourceVolumeId }: VolumeRecord,
): Promise<boolean> {
  const backend = registry.owning(pool);
  if (sourceVolumeId !== null) await backend.volumes.thaw(sourceVolumeId);
  const { volumes } = await backend.list();
  const found = volumes.find(({ id }) => id === volumeId);
  const isComplete = found !== undefined && found.sizeBytes >= sizeBytes;
  // Only a ready volume is marked: if its storage is missing, somebody has lost data and has to be told.
  if (isComplete || (await backend.marks.has(volumeId))) {
    await catalogue.setVolumeState(volumeId, 'ready');
    return true;
  }
  await backend.volumes.delete(volumeId);
  await catalogue.removeVolume(volumeId);
  return false;
}
