/**
 * Growing a volume, used or not, safe to kill at any point.
 *
 * The storage grows first and the record follows. What a kill leaves in between is a volume larger
 * than its record, which is the size it has: the next call, or the next start (reconcile.ts), takes
 * it over. Nothing else about the volume changes, so there is nothing to undo.
 */

import type { Backend, PoolContents } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { CapacityRange } from '../domain/volume-capability.js';
import type { PoolAdmission } from './pool-admission.js';
import type { ManagerDependencies } from './volume-manager.js';
import { assertUnderLimit, expandedSize } from './volume-rules.js';

/** The volume as it is then. The caller holds its lock. */
export async function expandVolume(
  { catalogue, registry }: Pick<ManagerDependencies, 'catalogue' | 'registry'>,
  admission: PoolAdmission,
  volume: VolumeRecord,
  range: CapacityRange,
): Promise<VolumeRecord> {
  const backend = registry.owning(volume.pool);
  // Growing a file that was cut short would pass zeros off as what it has lost.
  await backend.checkVolume(volume.volumeId, volume.sizeBytes);
  let target = volume.sizeBytes;
  return admission.run(
    backend,
    (pool) => {
      target = expandedSize(volume, range, pool);
      return target - volume.sizeBytes;
    },
    async () => {
      // Also if the size is there already: a kill may have come before the device has grown.
      const sizeBytes = await backend.expandVolume(volume.volumeId, target);
      if (sizeBytes !== volume.sizeBytes) {
        await catalogue.setVolumeSize(volume.volumeId, sizeBytes);
      }
      assertUnderLimit(sizeBytes, range.limitBytes);
      return { ...volume, sizeBytes };
    },
  );
}

/** A volume whose storage is larger than its record. */
export interface GrownVolume {
  volume: VolumeRecord;
  storedBytes: bigint;
}

/** At start: those of a pool's volumes whose expansion was not finished. */
export function grownVolumes(
  volumes: readonly VolumeRecord[],
  contents: PoolContents,
): GrownVolume[] {
  const held = new Map(contents.volumes.map(({ id, sizeBytes }) => [id, sizeBytes]));
  return volumes
    .map((volume) => ({ volume, storedBytes: held.get(volume.volumeId) ?? 0n }))
    .filter(({ volume, storedBytes }) => storedBytes > volume.sizeBytes);
}

/** Takes the volume as large as it is; also its device, which may be a step behind. Returns the size. */
export async function finishExpansion(
  catalogue: AsyncCatalogue,
  backend: Backend,
  { volume, storedBytes }: GrownVolume,
): Promise<bigint> {
  const { volumeId } = volume;
  const sizeBytes = await backend.expandVolume(volumeId, storedBytes);
  await catalogue.setVolumeSize(volumeId, sizeBytes);
  return sizeBytes;
}
