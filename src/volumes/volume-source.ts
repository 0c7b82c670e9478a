/** The content source of a new volume: none, a snapshot, or another volume. */

import type { Backend } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import { CsiError } from '../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { VolumeCapability } from '../domain/volume-capability.js';
import { type LockRequest, shared, snapshotKey, volumeKey } from './operation-locks.js';
import { isPristine } from './pristine.js';
import { snapshotDeleting, volumeDeleting } from './ready-volume.js';

type SourceIds = Pick<VolumeRecord, 'sourceSnapshotId' | 'sourceVolumeId'>;

export interface VolumeSource {
  /** Names it in errors. */
  label: string;
  pool: string;
  sizeBytes: bigint;
  /** Only the plugin has ever written to its content. */
  pristine: boolean;
  /** Those of the volume that the content was written to. */
  capabilities: readonly VolumeCapability[];
}

/**
 * A snapshot may be read by several operations at once. A volume must not be deleted, staged, expanded or
 * snapshotted while it is cloned: each of these would race with the freezing of its file system.
 */
export function sourceLocks({ sourceSnapshotId, sourceVolumeId }: SourceIds): LockRequest[] {
  if (sourceSnapshotId !== null) return [shared(snapshotKey(sourceSnapshotId))];
  return sourceVolumeId === null ? [] : [volumeKey(sourceVolumeId)];
}

/**
 * Null if the volume is to be empty. NOT_FOUND if the source does not exist, FAILED_PRECONDITION if its
 * pool does not hold it completely. The caller holds the locks of `sourceLocks`.
 */
export async function findSource(
  catalogue: AsyncCatalogue,
  registry: BackendRegistry,
  { sourceSnapshotId, sourceVolumeId }: SourceIds,
): Promise<VolumeSource | null> {
  if (sourceSnapshotId !== null) {
    const snapshot = await catalogue.snapshotById(sourceSnapshotId);
    if (snapshot?.state === 'deleting') throw snapshotDeleting(sourceSnapshotId, 'DeleteSnapshot');
    const volume = snapshot === null ? null : await catalogue.volumeById(snapshot.volumeId);
    const label = `snapshot ${sourceSnapshotId}`;
    const source = { ...existing(snapshot, label), capabilities: volume?.capabilities ?? [] };
    await registry.owning(source.pool).checkSnapshot(sourceSnapshotId, source.sizeBytes);
    return source;
  }
  if (sourceVolumeId === null) return null;
  const volume = await catalogue.volumeById(sourceVolumeId);
  if (volume?.state === 'deleting') throw volumeDeleting(sourceVolumeId);
  const found = existing(volume, `volume ${sourceVolumeId}`);
  const source = { ...found, capabilities: volume?.capabilities ?? [] };
  const backend = registry.owning(source.pool);
  await backend.checkVolume(sourceVolumeId, source.sizeBytes);
  const pristine = await isPristine(backend, {
    volumeId: sourceVolumeId,
    pristine: source.pristine,
  });
  const { storedBytes } = await backend.condition(sourceVolumeId);
  // An interrupted expansion has left more storage than the record says.
  const isGrown = storedBytes !== null && storedBytes > source.sizeBytes;
  return { ...source, pristine, sizeBytes: isGrown ? storedBytes : source.sizeBytes };
}

function existing(
  found: (Omit<VolumeSource, 'label' | 'capabilities'> & { state: string }) | null,
  label: string,
): Omit<VolumeSource, 'capabilities'> {
  if (found?.state !== 'ready') {
    throw CsiError.notFound(`volume_content_source: ${label} does not exist on this node`);
  }
  const { pool, sizeBytes, pristine } = found;
  return { label, pool, sizeBytes, pristine };
}

/** Reflinks do not cross file systems. */
export function assertSourcePool(backend: Backend, source: VolumeSource | null): void {
  if (source === null || source.pool === backend.pool) return;
  throw CsiError.invalidArgument(
    `parameters['pool'] is '${backend.pool}' and ${source.label} is in pool '${source.pool}': ` +
      'a volume is created in the pool of its source',
  );
}

/** Creates the volume's storage with its content. */
export async function makeStorage(backend: Backend, volume: VolumeRecord): Promise<void> {
  const { volumeId, sizeBytes, sourceSnapshotId, sourceVolumeId } = volume;
  if (sourceSnapshotId !== null) {
    await backend.restoreVolume(volumeId, sourceSnapshotId, sizeBytes);
  } else if (sourceVolumeId !== null) {
    await backend.cloneVolume(volumeId, sourceVolumeId, sizeBytes);
  } else {
    await backend.createVolume(volumeId, sizeBytes);
  }
}
