/**
 * Cutting and removing group snapshots: several volumes at one point in time, idempotent by name,
 * safe to kill at any point.
 *
 * A group and its members live and die together: their rows are written, made ready, marked and
 * removed in one transaction each. All sources lie in one pool, because one point in time is what a
 * pool can give, and stay locked for the cut.
 */
import { CsiError } from '../base/errors.js';
import type { GroupSnapshotRecord, SnapshotRecord, VolumeRecord } from '../catalogue/records.js';
import { newGroupSnapshotId } from '../domain/identifiers.js';
import {
  assertMembers,
  assertSameRequest,
  type GroupSnapshotRequest,
  onlyPool,
} from './group-rules.js';
import {
  groupSnapshotKey,
  groupSnapshotNameKey,
  snapshotKey,
  volumeKey,
} from './operation-locks.js';
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

export interface GroupSnapshot {
  group: GroupSnapshotRecord;
  /** In the order the sources were asked for. */
  members: readonly SnapshotRecord[];
}

export class GroupManager {
  constructor(private readonly deps: ManagerDependencies) {}

  /** The group snapshot of that name: cut now, or there already. Locks the name and the volumes. */
  async create(request: GroupSnapshotRequest): Promise<GroupSnapshot> {
    const keys = [groupSnapshotNameKey(request.name), ...request.sourceVolumeIds.map(volumeKey)];
    return this.deps.locks.run(keys, () => this.#createLocked(request));
  }

  /**
   * Removes the group snapshot with all its members; one that does not exist is removed already.
   * INVALID_ARGUMENT unless the ids are those of the members. FAILED_PRECONDITION while a member is
   * being read: then nothing is removed.
   */
  async delete(groupSnapshotId: string, snapshotIds: readonly string[]): Promise<void> {
    const { catalogue, retainedBases, locks, registry } = this.deps;
    await locks.run([groupSnapshotKey(groupSnapshotId)], async () => {
      const group = await catalogue.groupById(groupSnapshotId);
      if (group === null) return;
      const members = await catalogue.snapshotsOfGroup(groupSnapshotId);
      assertMembers(group, members, snapshotIds);
      const keys = members.map(({ snapshotId }) => snapshotKey(snapshotId));
      const read = members.find(({ snapshotId }) => locks.isShared(snapshotKey(snapshotId)));
      if (read !== undefined) refuseInUse(read.snapshotId);
      // The name too, so that no CreateVolumeGroupSnapshot finds the group half gone.
      await locks.run([groupSnapshotNameKey(group.name), ...keys], () =>
        this.#deleteLocked(group, members),
      );
      await retainedBases.prune(registry.owning(onlyPool(members)));
    });
  }

  /**
   * A group snapshot that is ready. FAILED_PRECONDITION for one whose deletion has not ended, NOT_FOUND for
   * any other id, INVALID_ARGUMENT as with `delete`.
   */
  async find(groupSnapshotId: string, snapshotIds: readonly string[]): Promise<GroupSnapshot> {
    const found = await this.#ready(groupSnapshotId);
    assertMembers(found.group, found.members, snapshotIds);
    return found;
  }

  async #ready(groupSnapshotId: string): Promise<GroupSnapshot> {
    const { catalogue } = this.deps;
    const group = await catalogue.groupById(groupSnapshotId);
    const members = await catalogue.snapshotsOfGroup(groupSnapshotId);
    if (group?.state === 'deleting') {
      throw CsiError.failedPrecondition(
        `group snapshot ${groupSnapshotId} is being deleted, and its deletion has not ended; call ` +
          'DeleteVolumeGroupSnapshot again',
      );
    }
    // No lock is held, so the members may go between the two questions.
    if (group?.state !== 'ready' || members.length === 0) {
      throw CsiError.notFound(`group snapshot ${groupSnapshotId} does not exist on this node`);
    }
    return { group, members };
  }

  async #createLocked(request: GroupSnapshotRequest): Promise<GroupSnapshot> {
    const { catalogue } = this.deps;
    const group = await catalogue.groupByName(request.name);
    if (group === null) return this.#cutNew(request);
    const members = await catalogue.snapshotsOfGroup(group.groupSnapshotId);
    if (group.state === 'creating') {
      // Never handed out, so nothing that a request could contradict.
      await this.#undo(group, members, request);
      return this.#cutNew(request);
    }
    assertSameRequest(group, members, request);
    if (group.state === 'ready') {
      const backend = this.deps.registry.owning(onlyPool(members));
      for (const { snapshotId, sizeBytes } of members) {
        await backend.checkSnapshot(snapshotId, sizeBytes);
      }
      return { group, members };
    }
    throw CsiError.aborted(
      `group snapshot ${group.groupSnapshotId} named '${request.name}' is being deleted; ` +
        'try again when it is gone',
    );
  }

  async #cutNew(request: GroupSnapshotRequest): Promise<GroupSnapshot> {
    const { catalogue, registry, nodeKey } = this.deps;
    const volumes = await this.#sources(request);
    const backend = registry.owning(onlyPool(volumes));
    const groupSnapshotId = newGroupSnapshotId(nodeKey);
    const { name, parameters } = request;
    const belonging = { name: null, parameters: {}, groupSnapshotId };
    const uncut = await Promise.all(
      volumes.map((volume) => pendingSnapshot({ backend, nodeKey }, volume, belonging)),
    );
    const snapshots = await catalogue.insertGroup(
      { groupSnapshotId, name, state: 'creating', creationTimeNs: 0n, parameters },
      uncut,
    );
    return takeSnapshots({
      backend,
      snapshots,
      commit: async (cut) => {
        const sizes = snapshots.map(({ snapshotId }, index) => ({
          snapshotId,
          sizeBytes: sizeAt(cut, index),
        }));
        await catalogue.commitGroup(groupSnapshotId, cut.creationTimeNs, sizes);
        return this.#ready(groupSnapshotId);
      },
      forget: () => catalogue.removeGroup(groupSnapshotId, []),
    });
  }

  async #sources({ sourceVolumeIds }: GroupSnapshotRequest): Promise<VolumeRecord[]> {
    const volumes: VolumeRecord[] = [];
    for (const [index, volumeId] of sourceVolumeIds.entries()) {
      volumes.push(
        await findSourceVolume(this.deps.catalogue, volumeId, `source_volume_ids[${index}]`),
      );
    }
    return volumes;
  }

  async #deleteLocked(
    { groupSnapshotId }: GroupSnapshotRecord,
    members: readonly SnapshotRecord[],
  ): Promise<void> {
    const { catalogue, retainedBases, registry } = this.deps;
    const backend = registry.owning(onlyPool(members));
    // First, because what is marked below is as good as gone.
    await backend.check();
    await catalogue.setGroupState(groupSnapshotId, 'deleting');
    const remains = await retainedBases.removeSnapshots(backend, members);
    await catalogue.removeGroup(groupSnapshotId, remains);
  }

  /** As SnapshotManager does, for all members. */
  async #undo(
    { groupSnapshotId }: GroupSnapshotRecord,
    members: readonly SnapshotRecord[],
    { sourceVolumeIds }: GroupSnapshotRequest,
  ): Promise<void> {
    const { catalogue, locks, registry } = this.deps;
    await locks.run(otherVolumes(members, sourceVolumeIds), async () => {
      await registry.owning(onlyPool(members)).abandonSnapshots(membersOf(members));
      await catalogue.removeGroup(groupSnapshotId, []);
    });
  }
}
