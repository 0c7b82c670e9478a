/**
 * Creates, expands and deletes volumes. Idempotent by name, safe to kill at any point.
 *
 * The order of the steps makes a kill harmless: a row in state `creating` precedes the first byte, and the state `ready`
 * follows the last byte; the state `deleting` precedes the removal of the storage, and the row is removed last. The next call
 * or the next start (reconcile.ts) completes or rolls back what a kill interrupts. Requests arrive parsed. Knows nothing of
 * gRPC.
 */

import { bestEffort, logLeftover } from '../../base/best-effort.js';
import { newVolumeId } from '../../base/csi/handles.js';
import type { StringMap } from '../../base/csi/string-map.js';
import type { CapacityRange } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import type { Backend, PoolCapacity, PoolObjectId } from '../backends/backend.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { assertUnpublished } from '../usage/publications.js';
import { copyInTime } from './copy-in-time.js';
import { isMutableParameter } from './device-settings.js';
import { settleNewVolume } from './interrupted-volume.js';
import type { ManagerDependencies } from './manager-dependencies.js';
import { shared, snapshotKey, volumeCopyKey, volumeKey, volumeNameKey } from './operation-locks.js';
import { PoolAdmission } from './pool-admission.js';
import { readyVolume } from './ready-volume.js';
import { expandVolume } from './volume-expansion.js';
import { chooseSize, incompatibleField, type VolumeRequest } from './volume-rules.js';
import { assertSourceFileSystem, assertSourcePool, assertSourceReady, findSource } from './volume-source.js';

export class VolumeManager {
  readonly #admission = new PoolAdmission();

  constructor(private readonly deps: ManagerDependencies) {}

  /**
   * Returns the volume of that name, and creates it if there is none. Locks the name and the source.
   *
   * @param signal of the call, here and below: a call with a signal waits for its locks, a call without one does not wait
   */
  async create(request: VolumeRequest, signal?: AbortSignal): Promise<VolumeRecord> {
    const { name, sourceSnapshotId, sourceVolumeId, deadline } = request;
    const keys = [volumeNameKey(name)];
    // Several operations may read the snapshot at once.
    if (sourceSnapshotId !== null) keys.push(shared(snapshotKey(sourceSnapshotId)));
    const volumeIds = sourceVolumeId === null ? [] : [sourceVolumeId];
    const create = (until: number) => this.#createLocked({ ...request, deadline: until });
    return copyInTime(this.deps.locks, { keys, volumeIds, deadline }, create, signal);
  }

  /** Deletes the volume; succeeds if it does not exist. Returns the staging paths that it has released. */
  async delete(volumeId: string, signal?: AbortSignal): Promise<string[]> {
    const { catalogue, locks } = this.deps;
    const known = await catalogue.volumeById(volumeId);
    if (known === null || known.state === 'deleted') return [];
    // Locks the name too, so that no CreateVolume finds the volume partly deleted.
    const keys = [volumeKey(volumeId), volumeCopyKey(volumeId), volumeNameKey(known.name)];
    return locks.run(keys, () => this.#deleteLocked(volumeId), signal);
  }

  /** Locks the volume, and expands it to at least the required size. */
  async expand(volumeId: string, range: CapacityRange, signal?: AbortSignal): Promise<VolumeRecord> {
    const work = async (): Promise<VolumeRecord> =>
      expandVolume(this.deps, this.#admission, await readyVolume(this.deps.catalogue, volumeId), range);
    // A copy whose caller has given up still reads the volume.
    return this.deps.locks.run([volumeKey(volumeId), volumeCopyKey(volumeId)], work, signal);
  }

  async #deleteLocked(volumeId: string): Promise<string[]> {
    const { catalogue, retainedBases, registry } = this.deps;
    const volume = await catalogue.volumeById(volumeId);
    if (volume === null || volume.state === 'deleted') return [];
    const backend = registry.owning(volume.pool);
    const released = await this.#releaseUnused(volume, backend);
    // The detach precedes the state `deleting`, because the detach fails while the device is in use.
    await backend.attachments.detach(volumeId);
    await catalogue.setVolumeState(volumeId, 'deleting');
    await backend.volumes.delete(volumeId);
    await catalogue.removeVolume(volumeId);
    await retainedBases.prune(backend, [volumeId]);
    return released;
  }

  async #createLocked(request: VolumeRequest): Promise<VolumeRecord> {
    const known = await this.deps.catalogue.volumeByName(request.name);
    if (known === null) return this.#createNew(request);
    if (known.state === 'creating') {
      const { sourceVolumeId } = known;
      // The request holds the lock of its own source already.
      const isHeld = sourceVolumeId === null || sourceVolumeId === request.sourceVolumeId;
      const keys = isHeld ? [] : [volumeKey(sourceVolumeId)];
      await this.deps.locks.run(keys, () => settleNewVolume(this.deps, known));
      return this.#createLocked(request);
    }
    if (known.state === 'deleting') {
      throw CsiError.aborted(
        `volume ${known.volumeId} named '${request.name}' is being deleted; try again when it is gone`,
      );
    }
    const field = incompatibleField(known, request);
    if (field !== null) {
      throw CsiError.alreadyExists(
        `name '${request.name}' is taken by volume ${known.volumeId}, created with another ${field}`,
      );
    }
    await this.deps.registry.owning(known.pool).volumes.check(known.volumeId, known.sizeBytes);
    return known;
  }

  async #createNew(request: VolumeRequest): Promise<VolumeRecord> {
    const { catalogue, registry, nodeKey } = this.deps;
    const source = await findSource(catalogue, registry, request, nodeKey);
    assertSourceReady(source);
    assertSourceFileSystem(source, request.capabilities);
    const pool = request.parameters['pool'];
    const backend = pool === undefined && source !== null ? registry.owning(source.pool) : registry.select(pool ?? '');
    const size = (capacity: PoolCapacity): bigint => {
      const { range, capabilities } = request;
      const sourceBytes = source?.sizeBytes ?? null;
      const sourceCapabilities = source?.capabilities ?? [];
      const sizeBytes = chooseSize({
        range,
        capabilities,
        sourceBytes,
        sourceCapabilities,
        pool: capacity,
      });
      assertSourcePool(backend, source);
      if (request.topologyProblem !== null) {
        throw CsiError.resourceExhausted(request.topologyProblem);
      }
      return sizeBytes;
    };
    return this.#admission.run(backend, size, async (sizeBytes) => {
      const volume: VolumeRecord = {
        volumeId: newVolumeId(nodeKey),
        name: request.name,
        pool: backend.pool,
        sizeBytes,
        state: 'creating',
        parameters: request.parameters,
        capabilities: request.capabilities,
        sourceSnapshotId: request.sourceSnapshotId,
        sourceVolumeId: request.sourceVolumeId,
        createdMutableParameters: request.mutableParameters,
        mutableParameters: { ...mutableOf(request.parameters), ...request.mutableParameters },
        pristine: source === null || source.pristine,
        awaitsGrowth: source !== null && sizeBytes > source.sizeBytes,
        createdNs: BigInt(Date.now()) * 1_000_000n,
      };
      await catalogue.insertVolume(volume);
      return this.#createStorage(volume, source?.object ?? null, request.deadline);
    });
  }

  /** Turns a row in state `creating` into a ready volume. A failure leaves neither storage nor row behind. */
  async #createStorage(
    volume: VolumeRecord,
    source: PoolObjectId | null,
    deadline: number | undefined,
  ): Promise<VolumeRecord> {
    const { catalogue, locks, registry } = this.deps;
    const backend = registry.owning(volume.pool);
    return locks.run([volumeKey(volume.volumeId)], async () => {
      try {
        await backend.volumes.create(volume.volumeId, volume.sizeBytes, source, deadline);
      } catch (thrown) {
        const onFailure = logLeftover(this.deps.logger, {
          stays: `volume ${volume.volumeId} in pool '${volume.pool}', half created`,
          removedBy: 'the next CreateVolume with its name completes it; the next start removes or completes it',
        });
        await bestEffort(() => this.#remove(volume), onFailure);
        throw thrown;
      }
      await catalogue.setVolumeState(volume.volumeId, 'ready');
      if (source !== null && 'replicaId' in source) await catalogue.replicaUsed(source.replicaId, volume.createdNs);
      return { ...volume, state: 'ready' };
    });
  }

  /** Removes what the current call has created. A failed clone has thawed its source already. */
  async #remove({ volumeId, pool }: VolumeRecord): Promise<void> {
    await this.deps.registry.owning(pool).volumes.delete(volumeId);
    await this.deps.catalogue.removeVolume(volumeId);
  }

  /** Returns the staging paths that it has released. FAILED_PRECONDITION if the volume is published or used elsewhere. */
  async #releaseUnused(volume: VolumeRecord, backend: Backend): Promise<string[]> {
    const isAttached = (await backend.attachments.find(volume.volumeId)) !== null;
    await assertUnpublished(this.deps, volume.volumeId, isAttached);
    return isAttached ? this.deps.stagings.release(volume) : [];
  }
}

/** The parameters of a StorageClass that ControllerModifyVolume can change later. */
function mutableOf(parameters: StringMap): StringMap {
  return Object.fromEntries(Object.entries(parameters).filter(([key]) => isMutableParameter(key)));
}
