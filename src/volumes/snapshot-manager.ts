/**
 * Cutting and removing snapshots: idempotent by name, safe to kill at any point.
 *
 * As with volumes, a row in state `creating` comes before the cut and `ready` after it is durable.
 * The volume stays locked for the cut, so the rows' sequence is the order of the cuts.
 */
import { CsiError } from '../errors.js';
import { newSnapshotId } from './identifiers.js';
import { snapshotKey, snapshotNameKey, volumeKey } from './operation-locks.js';
import type { SnapshotRecord, VolumeRecord } from './records.js';
import { attemptUndo } from './undo.js';
import type { ManagerDependencies } from './volume-manager.js';

export interface SnapshotRequest {
  name: string;
  sourceVolumeId: string;
  parameters: Readonly<Record<string, string>>;
}

export class SnapshotManager {
  constructor(private readonly deps: ManagerDependencies) {}

  /** The snapshot of that name: cut now, or there already. Locks the name and the volume. */
  async create(request: SnapshotRequest): Promise<SnapshotRecord> {
    const keys = [snapshotNameKey(request.name), volumeKey(request.sourceVolumeId)];
    return this.deps.locks.run(keys, () => this.#createLocked(request));
  }

  /** Removes the snapshot; one that does not exist is removed already. */
  async delete(snapshotId: string): Promise<void> {
    const { catalogue, locks, registry } = this.deps;
    const key = snapshotKey(snapshotId);
    if (locks.isShared(key)) {
      throw CsiError.failedPrecondition(
        `snapshot ${snapshotId} is being read (a metadata stream or a restore); try again when it has ended`,
      );
    }
    await locks.run([key], async () => {
      const snapshot = await catalogue.snapshotById(snapshotId);
      if (snapshot === null) return;
      const backend = registry.owning(snapshot.pool);
      // First, because what is marked below is as good as gone.
      await backend.check();
      await catalogue.setSnapshotState(snapshotId, 'deleting');
      await backend.deleteSnapshot(snapshotId);
      await catalogue.removeSnapshot(snapshotId);
    });
  }

  async #createLocked(request: SnapshotRequest): Promise<SnapshotRecord> {
    const known = await this.deps.catalogue.snapshotByName(request.name);
    if (known === null) return this.#cutNew(request);
    if (known.volumeId !== request.sourceVolumeId) {
      throw CsiError.alreadyExists(
        `name '${request.name}' is taken by snapshot ${known.snapshotId} of volume ${known.volumeId}`,
      );
    }
    if (known.state === 'ready') return known;
    if (known.state === 'deleting') {
      throw CsiError.aborted(
        `snapshot ${known.snapshotId} named '${request.name}' is being deleted; try again when it is gone`,
      );
    }
    await this.#undo(known);
    return this.#cutNew(request);
  }

  async #cutNew(request: SnapshotRequest): Promise<SnapshotRecord> {
    const { catalogue, registry, nodeKey } = this.deps;
    const volume = await this.#sourceVolume(request.sourceVolumeId);
    const snapshot = await catalogue.insertSnapshot({
      snapshotId: newSnapshotId(nodeKey),
      name: request.name,
      groupSnapshotId: null,
      volumeId: volume.volumeId,
      pool: volume.pool,
      sizeBytes: volume.sizeBytes,
      state: 'creating',
      creationTimeNs: 0n,
      parameters: request.parameters,
      fresh: volume.fresh,
    });
    const backend = registry.owning(volume.pool);
    try {
      const { volumeId, snapshotId } = snapshot;
      const cut = await backend.createSnapshots([{ volumeId, snapshotId }]);
      const [sizeBytes = volume.sizeBytes] = cut.sizesBytes;
      return await catalogue.commitSnapshot(snapshotId, cut.creationTimeNs, sizeBytes);
    } catch (thrown) {
      await attemptUndo(async () => {
        await backend.deleteSnapshot(snapshot.snapshotId);
        await catalogue.removeSnapshot(snapshot.snapshotId);
      });
      throw thrown;
    }
  }

  async #sourceVolume(volumeId: string): Promise<VolumeRecord> {
    const volume = await this.deps.catalogue.volumeById(volumeId);
    if (volume?.state !== 'ready') {
      throw CsiError.notFound(`source_volume_id: volume ${volumeId} does not exist on this node`);
    }
    return volume;
  }

  /** Takes back what an earlier process, or an undoing that failed, has left. */
  async #undo(snapshot: SnapshotRecord): Promise<void> {
    const backend = this.deps.registry.owning(snapshot.pool);
    const { volumeId, snapshotId } = snapshot;
    await backend.abandonSnapshots([{ volumeId, snapshotId }]);
    await this.deps.catalogue.removeSnapshot(snapshotId);
  }
}
