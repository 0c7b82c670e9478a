/**
 * Making, growing and removing volumes: idempotent by name, safe to kill at any point.
 *
 * The order that makes it so: a row in state `creating` comes before the first byte, the state
 * `ready` after the last one; `deleting` comes before the removal and the row goes after it. What a
 * kill leaves in between, the next call or the next start (reconcile.ts) finishes or undoes.
 * Callers give parsed requests; nothing of gRPC is known here.
 */

import type { Backend, PoolCapacity } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import { bestEffort } from '../base/best-effort.js';
import { CsiError } from '../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { newVolumeId } from '../domain/identifiers.js';
import type { StringMap } from '../domain/string-map.js';
import type { CapacityRange } from '../domain/volume-capability.js';
import { isMutableParameter } from './device-settings.js';
import { type OperationLocks, volumeKey, volumeNameKey } from './operation-locks.js';
import { PoolAdmission } from './pool-admission.js';
import { readyVolume } from './ready-volume.js';
import type { RetainedBases } from './retained-bases.js';
import { expandVolume } from './volume-expansion.js';
import { chooseSize, incompatibleField, type VolumeRequest } from './volume-rules.js';
import { assertSourcePool, findSource, makeStorage, sourceLocks } from './volume-source.js';

export interface ManagerDependencies {
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  registry: BackendRegistry;
  retainedBases: RetainedBases;
  /** This node's part of new handles. */
  nodeKey: string;
  /** Whether ControllerPublishVolume is served, and its records so count. */
  controllerPublish: boolean;
}

export class VolumeManager {
  readonly #admission = new PoolAdmission();

  constructor(private readonly deps: ManagerDependencies) {}

  /** The volume of that name: made now, or there already. Locks the name and the source. */
  async create(request: VolumeRequest): Promise<VolumeRecord> {
    const keys = [volumeNameKey(request.name), ...sourceLocks(request)];
    return this.deps.locks.run(keys, () => this.#createLocked(request));
  }

  /** Removes the volume; one that does not exist is removed already. */
  async delete(volumeId: string): Promise<void> {
    const { catalogue, retainedBases, locks, registry } = this.deps;
    await locks.run([volumeKey(volumeId)], async () => {
      const volume = await catalogue.volumeById(volumeId);
      if (volume === null || volume.state === 'deleted') return;
      // The name stays locked too, so that no CreateVolume finds the volume half gone.
      await locks.run([volumeNameKey(volume.name)], async () => {
        const backend = registry.owning(volume.pool);
        await this.#assertUnused(volume, backend);
        // First, because it refuses what somebody holds, and what is marked below is as good as gone.
        await backend.detach(volumeId);
        await catalogue.setVolumeState(volumeId, 'deleting');
        await backend.deleteVolume(volumeId);
        await catalogue.removeVolume(volumeId);
        await retainedBases.prune(backend);
      });
    });
  }

  /** Makes the volume as large as the range asks for, at least. Locks it. */
  async expand(volumeId: string, range: CapacityRange): Promise<VolumeRecord> {
    return this.deps.locks.run([volumeKey(volumeId)], async () =>
      expandVolume(this.deps, this.#admission, await this.find(volumeId), range),
    );
  }

  /** A volume that can be worked with, as readyVolume finds it. */
  async find(volumeId: string): Promise<VolumeRecord> {
    return readyVolume(this.deps.catalogue, volumeId);
  }

  async #createLocked(request: VolumeRequest): Promise<VolumeRecord> {
    const known = await this.deps.catalogue.volumeByName(request.name);
    if (known === null) return this.#makeNew(request);
    if (known.state === 'creating') {
      // Never handed out, so nothing that a request could contradict.
      await this.#undo(known, request);
      return this.#makeNew(request);
    }
    if (known.state === 'deleting') {
      throw CsiError.aborted(
        `volume ${known.volumeId} named '${request.name}' is being deleted; try again when it is gone`,
      );
    }
    const field = incompatibleField(known, request);
    if (field !== null) {
      throw CsiError.alreadyExists(
        `name '${request.name}' is taken by volume ${known.volumeId}, made with another ${field}`,
      );
    }
    await this.deps.registry.owning(known.pool).checkVolume(known.volumeId, known.sizeBytes);
    return known;
  }

  async #makeNew(request: VolumeRequest): Promise<VolumeRecord> {
    const { catalogue, registry, nodeKey } = this.deps;
    const source = await findSource(catalogue, registry, request);
    const asked = request.parameters['pool'];
    const backend =
      asked === undefined && source !== null
        ? registry.owning(source.pool)
        : registry.select(asked ?? '');
    const size = (pool: PoolCapacity): bigint => {
      const { range, capabilities } = request;
      const sourceBytes = source?.sizeBytes ?? null;
      const sourceCapabilities = source?.capabilities ?? [];
      const sizeBytes = chooseSize({ range, capabilities, pool, sourceBytes, sourceCapabilities });
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
      return this.#fill(volume);
    });
  }

  /** From a `creating` row to a ready volume. A failure leaves neither file nor row behind. */
  async #fill(volume: VolumeRecord): Promise<VolumeRecord> {
    const { catalogue, locks, registry } = this.deps;
    const backend = registry.owning(volume.pool);
    return locks.run([volumeKey(volume.volumeId)], async () => {
      try {
        await makeStorage(backend, volume);
      } catch (thrown) {
        await bestEffort(() => this.#remove(volume));
        throw thrown;
      }
      await catalogue.setVolumeState(volume.volumeId, 'ready');
      return { ...volume, state: 'ready' };
    });
  }

  /** Takes back what this very call has made. A clone that failed has thawed its source. */
  async #remove({ volumeId, pool }: VolumeRecord): Promise<void> {
    await this.deps.registry.owning(pool).deleteVolume(volumeId);
    await this.deps.catalogue.removeVolume(volumeId);
  }

  /**
   * Takes back what an earlier process, or an undoing that failed, has left. The source of a clone is
   * thawed, and so must be nobody else's meanwhile; the request holds the lock of its own source.
   */
  async #undo(volume: VolumeRecord, request: VolumeRequest): Promise<void> {
    const { volumeId, sourceVolumeId } = volume;
    if (sourceVolumeId === null) return this.#remove(volume);
    const keys = sourceVolumeId === request.sourceVolumeId ? [] : [volumeKey(sourceVolumeId)];
    await this.deps.locks.run(keys, async () => {
      await this.deps.registry.owning(volume.pool).abandonClone(volumeId, sourceVolumeId);
      await this.deps.catalogue.removeVolume(volumeId);
    });
  }

  async #assertUnused(volume: VolumeRecord, backend: Backend): Promise<void> {
    if (this.deps.controllerPublish) await this.#assertUnpublished(volume.volumeId);
    // Records of the node prove nothing (they outlive a reboot); its device says whether they count.
    if ((await backend.findAttachment(volume.volumeId)) === null) return;
    const publications = await this.deps.catalogue.publications(volume.volumeId);
    const stagings = await this.deps.catalogue.stagings(volume.volumeId);
    const path = publications[0]?.targetPath ?? stagings[0]?.stagingPath;
    if (path === undefined) return;
    throw CsiError.failedPrecondition(
      `volume ${volume.volumeId} is still in use at ${path}; unpublish and unstage it first`,
    );
  }

  async #assertUnpublished(volumeId: string): Promise<void> {
    const [publication] = await this.deps.catalogue.controllerPublications(volumeId);
    if (publication === undefined) return;
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is still published on node ${publication.nodeId}; unpublish it first`,
    );
  }
}

/** The parameters of a StorageClass that a volume begins with and may change later. */
function mutableOf(parameters: StringMap): StringMap {
  return Object.fromEntries(Object.entries(parameters).filter(([key]) => isMutableParameter(key)));
}
