/** Describes a snapshot of this node for another node: everything that a volume from it needs. */

import { nodeKeyOf } from '../../base/csi/handles.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { DescribedSnapshot } from '../catalogue/records.js';
import { findSource } from '../volumes/volume-source.js';

/** Null if this node has no such snapshot that is ready. FAILED_PRECONDITION if its pool does not hold it as it was taken. */
export async function describeSnapshot(
  catalogue: AsyncCatalogue,
  registry: BackendRegistry,
  snapshotId: string,
): Promise<DescribedSnapshot | null> {
  const snapshot = await catalogue.snapshotById(snapshotId);
  if (snapshot?.state !== 'ready') return null;
  const ids = { sourceSnapshotId: snapshotId, sourceVolumeId: null, name: '' };
  const source = await findSource(catalogue, registry, ids, nodeKeyOf(snapshotId) ?? '');
  const poolUuid = await catalogue.poolUuid(snapshot.pool);
  if (source === null || poolUuid === null) return null;
  const { volumeId, sequence, creationTimeNs } = snapshot;
  const { sizeBytes, pristine, fileSystem, capabilities } = source;
  const catalogueUuid = await catalogue.uuid();
  const facts = { sizeBytes, pristine, fileSystem, capabilities, catalogueUuid, poolUuid };
  return { snapshotId, volumeId, sequence, creationTimeNs, ...facts };
}

/** Whether two descriptions, perhaps of different times, are of one snapshot, or of two snapshots of one volume. */
export const isSameOrigin = (a: DescribedSnapshot, b: DescribedSnapshot): boolean =>
  a.volumeId === b.volumeId && a.catalogueUuid === b.catalogueUuid && a.poolUuid === b.poolUuid;
