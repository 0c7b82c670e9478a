/**
 * Cutting and removing snapshots: idempotent by name, safe to kill at any point.
 *
 * As with volumes, a row in state `creating` comes before the cut and `ready` after it is durable.
 * The volume stays locked for the cut, so the rows' sequence is the order of the cuts.
 */
import { CsiError } from '../base/errors.js';
import type { SnapshotRecord } from '../catalogue/records.js';
import { snapshotKey, snapshotNameKey, volumeKey } from './operation-locks.js';
import {
  findSourceVolume,
  membersOf,
  otherVolumes,
  pendingSnapshot,
  refuseInUse,
  sizeAt,
  takeSnapshots,
} from './take-snapshots.js';
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

  /**
   * Removes the snapshot; one that does not exist is removed already. INVALID_ARGUMENT for a member
   * of a group snapshot, which lives and dies with the group.
   */
  async delete(snapshotId: string): Promise<void> {
    const { catalogue, retainedBases, locks, registry } = this.deps;
    // Without a lock: a snapshot never joins or leaves a group, and one that is gone may be read as a base.
    const known = await catalogue.snapshotById(snapshotId);
    if (known === null) return;
    refuseMember(known);
    const key = snapshotKey(snapshotId);
    if (locks.isShared(key)) refuseInUse(snapshotId);
    await locks.run([key], () => this.#deleteLocked(snapshotId));
    await retainedBases.prune(registry.owning(known.pool));
  }

  async #deleteLocked(snapshotId: string): Promise<void> {
    const { catalogue, retainedBases, registry } = this.deps;
    const snapshot = await catalogue.snapshotById(snapshotId);
    if (snapshot === null) return;
    const backend = registry.owning(snapshot.pool);
    // First, because what is marked below is as good as gone.
    await backend.check();
    await catalogue.setSnapshotState(snapshotId, 'deleting');
    const [remains] = await retainedBases.removeSnapshots(backend, [snapshot]);
    await catalogue.removeSnapshot(snapshotId, remains ?? null);
  }

  async #createLocked(request: SnapshotRequest): Promise<SnapshotRecord> {
    const known = await this.deps.catalogue.snapshotByName(request.name);
    if (known === null) return this.#cutNew(request);
    if (known.state === 'creating') {
      // Never handed out, so nothing that a request could contradict.
      await this.#undo(known, request);
      return this.#cutNew(request);
    }
    if (known.volumeId !== request.sourceVolumeId) {
      throw CsiError.alreadyExists(
        `name '${request.name}' is taken by snapshot ${known.snapshotId} of volume ${known.volumeId}`,
      );
    }
    if (known.state === 'ready') {
      await this.deps.registry.owning(known.pool).checkSnapshot(known.snapshotId, known.sizeBytes);
      return known;
    }
    throw CsiError.aborted(
      `snapshot ${known.snapshotId} named '${request.name}' is being deleted; try again when it is gone`,
    );
  }

  async #cutNew(request: SnapshotRequest): Promise<SnapshotRecord> {
    const { catalogue, registry, nodeKey } = this.deps;
    const volume = await findSourceVolume(catalogue, request.sourceVolumeId, 'source_volume_id');
    const backend = registry.owning(volume.pool);
    const { name, parameters } = request;
    const belonging = { name, parameters, groupSnapshotId: null };
    const snapshot = await catalogue.insertSnapshot(
      await pendingSnapshot({ backend, nodeKey }, volume, belonging),
    );
    const { snapshotId } = snapshot;
    return takeSnapshots({
      backend,
      snapshots: [snapshot],
      commit: (cut) => catalogue.commitSnapshot(snapshotId, cut.creationTimeNs, sizeAt(cut, 0)),
      forget: () => catalogue.removeSnapshot(snapshotId, null),
    });
  }

  /**
   * Takes back what an earlier process, or an undoing that failed, has left. Its volume is thawed, and
   * so must be nobody else's meanwhile; the request holds the lock of its own.
   */
  async #undo(snapshot: SnapshotRecord, request: SnapshotRequest): Promise<void> {
    const { catalogue, locks, registry } = this.deps;
    await locks.run(otherVolumes([snapshot], [request.sourceVolumeId]), async () => {
      await registry.owning(snapshot.pool).abandonSnapshots(membersOf([snapshot]));
      await catalogue.removeSnapshot(snapshot.snapshotId, null);
    });
  }
}

function refuseMember({ snapshotId, groupSnapshotId: group }: SnapshotRecord): void {
  if (group === null) return;
  throw CsiError.invalidArgument(
    `snapshot ${snapshotId} is a member of group snapshot ${group} and cannot be deleted alone; ` +
      'delete the group by DeleteVolumeGroupSnapshot',
  );
}
