/**
 * Expands a volume, in use or not. Safe to kill at any point.
 *
 * The storage grows first, then the record. After a kill in between, the volume is larger than its
 * record; the next call or the next start (reconcile.ts) records the actual size. Nothing else about the
 * volume changes, so nothing has to be rolled back.
 */

import type { CapacityRange } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { ManagerDependencies } from './manager-dependencies.js';
import type { PoolAdmission } from './pool-admission.js';
import { assertUnderLimit, expandedSize, isReadOnlyVolume } from './volume-rules.js';

/** Returns the volume with its new size. The caller holds the volume's lock. */
export async function expandVolume(
  { catalogue, registry }: Pick<ManagerDependencies, 'catalogue' | 'registry'>,
  admission: PoolAdmission,
  volume: VolumeRecord,
  range: CapacityRange,
): Promise<VolumeRecord> {
  if (isReadOnlyVolume(volume)) {
    throw CsiError.invalidArgument(
      `volume_id: volume ${volume.volumeId} is only read (MULTI_NODE_READER_ONLY), so nothing could grow what it holds`,
    );
  }
  const backend = registry.owning(volume.pool);
  // Growing a truncated file would present zeros in place of the lost content.
  await backend.volumes.check(volume.volumeId, volume.sizeBytes);
  let target = volume.sizeBytes;
  return admission.run(
    backend,
    (pool) => {
      target = expandedSize(volume, range, pool);
      return target - volume.sizeBytes;
    },
    async () => {
      // Runs even if the storage has the size already: a kill may have come before the device grew.
      const sizeBytes = await backend.volumes.expand(volume.volumeId, target);
      if (sizeBytes !== volume.sizeBytes) {
        await catalogue.setVolumeSize(volume.volumeId, sizeBytes);
      }
      assertUnderLimit(sizeBytes, range.limitBytes);
      return { ...volume, sizeBytes };
    },
  );
}

/**
 * Records a size after an interrupted expansion. First grows the volume's device to its storage, which may be larger. Returns
 * the size.
 */
export async function finishExpansion(
  catalogue: AsyncCatalogue,
  backend: Backend,
  volumeId: string,
  storedBytes: bigint,
): Promise<bigint> {
  const sizeBytes = await backend.volumes.expand(volumeId, storedBytes);
  await catalogue.setVolumeSize(volumeId, sizeBytes);
  return sizeBytes;
}
