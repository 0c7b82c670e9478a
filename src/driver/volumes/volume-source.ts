/** The content source of a new volume: none, a snapshot, or another volume. */

import { nodeKeyOf } from '../../base/csi/handles.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import type { Backend, PoolObjectId } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { ReplicaRecord, VolumeRecord } from '../catalogue/records.js';
import { type FileSystem, isFileSystem } from '../host/file-systems.js';
import { isPristine } from './pristine.js';
import { snapshotDeleting, volumeDeleting } from './ready-volume.js';

type SourceIds = Pick<VolumeRecord, 'sourceSnapshotId' | 'sourceVolumeId' | 'name'>;

export interface VolumeSource {
  /** Names the source in errors. */
  label: string;
  pool: string;
  sizeBytes: bigint;
  /** Only the plugin has ever written to its content. */
  pristine: boolean;
  /** The capabilities of the source volume, or of the volume that the snapshot was taken of. */
  capabilities: readonly VolumeCapability[];
  /** The file system that a copy is certain to hold; null if the copy holds none yet, or if its file system is not known. */
  fileSystem: FileSystem | null;
  /** In the pool. */
  object: PoolObjectId;
  /** A snapshot that is not ready for users, because no other node keeps the copy yet that it was requested with. */
  awaitsCopy?: boolean;
}

/** A source whose file system is not known yet. */
type FoundSource = Omit<VolumeSource, 'fileSystem' | 'object'>;

/**
 * Finds the source; null if the volume is to be empty. NOT_FOUND if the source does not exist, FAILED_PRECONDITION if it is
 * being deleted or its pool does not hold it completely, RESOURCE_EXHAUSTED if it is a snapshot of another node and there is no
 * replica of it. The caller holds the lock of the source.
 */
export async function findSource(
  catalogue: AsyncCatalogue,
  registry: BackendRegistry,
  { sourceSnapshotId, sourceVolumeId, name }: SourceIds,
  nodeKey: string,
): Promise<VolumeSource | null> {
  if (sourceSnapshotId !== null) {
    const snapshot = await catalogue.snapshotById(sourceSnapshotId);
    const replica = snapshot === null ? await catalogue.replicaById(sourceSnapshotId) : null;
    if (replica !== null && replica.cloneName === null)
      return fromReplica(registry, replica, `snapshot ${sourceSnapshotId}`);
    assertOwn('volume_content_source.snapshot.snapshot_id', sourceSnapshotId, nodeKey);
    if (snapshot?.state === 'deleting') throw snapshotDeleting(sourceSnapshotId, 'DeleteSnapshot');
    const awaitsCopy = snapshot?.awaitsCopy ?? false;
    const volume = snapshot === null ? null : await catalogue.volumeById(snapshot.volumeId);
    const label = `snapshot ${sourceSnapshotId}`;
    const source = { ...existing(snapshot, label), capabilities: volume?.capabilities ?? [] };
    const backend = registry.owning(source.pool);
    await backend.snapshots.check(sourceSnapshotId, source.sizeBytes);
    const object = { snapshotId: sourceSnapshotId };
    return { ...source, fileSystem: await fileSystemOf(backend, object, source, volume), object, awaitsCopy };
  }
  if (sourceVolumeId === null) return null;
  if (isForeign(sourceVolumeId, nodeKey)) {
    const replica = await catalogue.replicaForClone(sourceVolumeId, name);
    if (replica !== null) return fromReplica(registry, replica, `volume ${sourceVolumeId}`);
    assertOwn('volume_content_source.volume.volume_id', sourceVolumeId, nodeKey);
  }
  const volume = await catalogue.volumeById(sourceVolumeId);
  if (volume?.state === 'deleting') throw volumeDeleting(sourceVolumeId);
  const found = existing(volume, `volume ${sourceVolumeId}`);
  const source = { ...found, capabilities: volume?.capabilities ?? [] };
  const backend = registry.owning(source.pool);
  await backend.volumes.check(sourceVolumeId, source.sizeBytes);
  const pristine = await isPristine(backend, {
    volumeId: sourceVolumeId,
    pristine: source.pristine,
  });
  const { storedBytes } = await backend.volumes.condition(sourceVolumeId);
  // An interrupted expansion has left more storage than the record says.
  const isGrown = storedBytes !== null && storedBytes > source.sizeBytes;
  const current = { ...source, pristine, sizeBytes: isGrown ? storedBytes : source.sizeBytes };
  const object = { volumeId: sourceVolumeId };
  return { ...current, fileSystem: await fileSystemOf(backend, object, current, volume), object };
}

function isForeign(handle: string, nodeKey: string): boolean {
  const owner = nodeKeyOf(handle);
  return owner !== null && owner !== nodeKey;
}

/** An orchestrator tries another node after RESOURCE_EXHAUSTED, CSI's code for what this topology cannot provide. */
function assertOwn(field: string, handle: string, nodeKey: string): void {
  if (!isForeign(handle, nodeKey)) return;
  throw CsiError.resourceExhausted(
    `${field}: ${handle} belongs to the node with the key ${nodeKeyOf(handle)}, and this is the node ` +
      `with the key ${nodeKey}, which has no replica of it; call the plugin of that node, or a router`,
  );
}

/** A snapshot of another node, as that node has described it. ABORTED until all of it is here. */
async function fromReplica(registry: BackendRegistry, replica: ReplicaRecord, label: string): Promise<VolumeSource> {
  const { snapshotId, pool, sizeBytes, pristine, capabilities, fileSystem, nextOffset } = replica;
  if (nextOffset !== null) {
    throw CsiError.aborted(
      `snapshot ${snapshotId} of another node is still being pulled; try again when it is complete`,
    );
  }
  await registry.owning(pool).replicas?.check(snapshotId, sizeBytes);
  const known = fileSystem !== null && isFileSystem(fileSystem) ? fileSystem : null;
  const object = { replicaId: snapshotId };
  return { label, pool, sizeBytes, pristine, capabilities, fileSystem: known, object };
}

/**
 * The file system that the superblock names, where the pool can read the superblock. Otherwise the record decides: the file
 * system is known if the volume is no copy and was created for one file system only, because staging has made that file system.
 */
async function fileSystemOf(
  backend: Backend,
  object: PoolObjectId,
  { pristine, capabilities }: FoundSource,
  volume: VolumeRecord | null,
): Promise<FileSystem | null> {
  const types = capabilities.map((each) => (each.accessType === 'mount' ? each.fsType : null));
  // Nothing was ever written, or the volume can be a raw device, whose content is its user's own matter.
  if (pristine || types.length === 0 || types.includes(null)) return null;
  const found = await backend.volumes.fileSystemIn(object);
  if (found !== null) return found;
  const isCopy = volume === null || volume.sourceSnapshotId !== null || volume.sourceVolumeId !== null;
  const [type = ''] = new Set(types);
  return !isCopy && new Set(types).size === 1 && type !== null && isFileSystem(type) ? type : null;
}

/**
 * INVALID_ARGUMENT if a volume with this content could never be mounted as requested. A request that names no file system gets
 * the file system of the source.
 */
export function assertSourceFileSystem(source: VolumeSource | null, capabilities: readonly VolumeCapability[]): void {
  if (source === null || source.fileSystem === null) return;
  for (const [index, capability] of capabilities.entries()) {
    if (capability.accessType === 'block' || capability.fsType === '') continue;
    if (capability.fsType === source.fileSystem) continue;
    throw CsiError.invalidArgument(
      `volume_capabilities[${index}].mount.fs_type is '${capability.fsType}' and ${source.label} holds ` +
        `${source.fileSystem}: a copy keeps the file system of its source. Use a class with fs_type ` +
        `${source.fileSystem}, or copy the files to a new volume`,
    );
  }
}

/** ABORTED while the snapshot awaits its copy, as all answers about it say that it is not ready. */
export function assertSourceReady(source: VolumeSource | null): void {
  if (source?.awaitsCopy !== true) return;
  throw CsiError.aborted(`${source.label} is not ready until another node has its copy; try again`);
}

function existing(
  found: (Omit<FoundSource, 'label' | 'capabilities'> & { state: string }) | null,
  label: string,
): Omit<FoundSource, 'capabilities'> {
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
