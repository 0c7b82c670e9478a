/**
 * The rules of group snapshots: which requests mean the same group, and which snapshot ids belong to it.
 * snapshot-sets.ts does the work, as for single snapshots.
 */
import { isDeepStrictEqual } from 'node:util';
import type { StringMap } from '../../base/csi/string-map.js';
import { CsiError } from '../../base/errors.js';
import type { GroupSnapshotRecord, SnapshotRecord } from '../catalogue/records.js';
import { copyInTime } from './copy-in-time.js';
import type { ManagerDependencies } from './manager-dependencies.js';
import { groupSnapshotKey, groupSnapshotNameKey } from './operation-locks.js';
import { createSnapshots, deleteSnapshots } from './snapshot-sets.js';

export interface GroupSnapshotRequest {
  name: string;
  /** Without repetitions. */
  sourceVolumeIds: readonly string[];
  parameters: StringMap;
  /** When the caller stops waiting, in ms since the epoch; left out if it never does. */
  deadline?: number;
}

export interface GroupSnapshot {
  group: GroupSnapshotRecord;
  /** In the order in which the sources were requested. */
  members: readonly SnapshotRecord[];
}

export class GroupManager {
  constructor(private readonly deps: ManagerDependencies) {}

  /**
   * Returns the group snapshot of that name, and takes it if there is none. Locks the name and the volumes.
   *
   * @param signal of the call, here and below: a call with a signal waits for its locks, a call without one does not wait
   */
  async create(request: GroupSnapshotRequest, signal?: AbortSignal): Promise<GroupSnapshot> {
    const { catalogue, locks } = this.deps;
    const { name, parameters, deadline, sourceVolumeIds } = request;
    const copy = { keys: [groupSnapshotNameKey(name)], volumeIds: sourceVolumeIds, deadline };
    const work = (until: number): Promise<GroupSnapshot> =>
      createSnapshots<GroupSnapshot>(this.deps, {
        name,
        parameters,
        deadline: until,
        isGroup: true,
        copyNodeId: null,
        sources: sourceVolumeIds.map((volumeId, index) => ({
          volumeId,
          field: `source_volume_ids[${index}]`,
        })),
        find: async () => this.#withMembers(await catalogue.groupByName(name)),
        assertSame: (known) => assertSameRequest(known, request),
      });
    return copyInTime(locks, copy, work, signal);
  }

  /**
   * Deletes the group snapshot with all its members; succeeds if it does not exist. INVALID_ARGUMENT
   * unless the ids are those of the members. FAILED_PRECONDITION while a member is being read: then
   * nothing is deleted.
   */
  async delete(groupSnapshotId: string, snapshotIds: readonly string[], signal?: AbortSignal): Promise<void> {
    const { catalogue } = this.deps;
    // This needs no lock, because the members of a group never change.
    const found = await this.#withMembers(await catalogue.groupById(groupSnapshotId));
    if (found === null) return;
    assertMembers(found, snapshotIds);
    // Locks the name too, so that no CreateVolumeGroupSnapshot finds the group partly deleted.
    const keys = [groupSnapshotKey(groupSnapshotId), groupSnapshotNameKey(found.group.name)];
    await deleteSnapshots(this.deps, found, keys, signal);
  }

  /**
   * Returns a group snapshot that is ready. FAILED_PRECONDITION while it is being deleted, NOT_FOUND for any other id,
   * INVALID_ARGUMENT unless the ids are those of the members.
   */
  async find(groupSnapshotId: string, snapshotIds: readonly string[]): Promise<GroupSnapshot> {
    const found = await this.#withMembers(await this.deps.catalogue.groupById(groupSnapshotId));
    if (found?.group.state === 'deleting') {
      throw CsiError.failedPrecondition(
        `group snapshot ${groupSnapshotId} is being deleted, and its deletion has not completed; call ` +
          'DeleteVolumeGroupSnapshot again',
      );
    }
    // No lock is held, so the members may be deleted after the group was read.
    if (found?.group.state !== 'ready' || found.members.length === 0) {
      throw CsiError.notFound(`group snapshot ${groupSnapshotId} does not exist on this node`);
    }
    assertMembers(found, snapshotIds);
    return found;
  }

  async #withMembers(group: GroupSnapshotRecord | null): Promise<GroupSnapshot | null> {
    if (group === null) return null;
    const members = await this.deps.catalogue.snapshotsOfGroup(group.groupSnapshotId);
    return { group, members };
  }
}

/** Throws ALREADY_EXISTS if the group of that name was requested with other values. */
function assertSameRequest({ group, members }: GroupSnapshot, request: GroupSnapshotRequest): void {
  const sources = members.map(({ volumeId }) => volumeId);
  const field = !sameSet(sources, request.sourceVolumeIds)
    ? 'source_volume_ids'
    : isDeepStrictEqual(group.parameters, request.parameters)
      ? null
      : 'parameters';
  if (field === null) return;
  throw CsiError.alreadyExists(
    `name '${group.name}' is taken by group snapshot ${group.groupSnapshotId}, created with other ${field}`,
  );
}

/** Throws INVALID_ARGUMENT unless the ids are those of the members, in any order. */
function assertMembers({ group: { groupSnapshotId }, members }: GroupSnapshot, snapshotIds: readonly string[]): void {
  if (snapshotIds.length === 0) {
    throw CsiError.invalidArgument(
      `snapshot_ids is required: list the ${members.length} members of group snapshot ${groupSnapshotId}`,
    );
  }
  const memberIds = members.map(({ snapshotId }) => snapshotId);
  if (sameSet(memberIds, snapshotIds)) return;
  const unknown = snapshotIds.find((id) => !memberIds.includes(id));
  const missing = memberIds.find((id) => !snapshotIds.includes(id));
  throw CsiError.invalidArgument(
    `snapshot_ids are not the members of group snapshot ${groupSnapshotId}: ` +
      (unknown === undefined ? `${missing} is missing` : `${unknown} is not a member`),
  );
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return isDeepStrictEqual(new Set(a), new Set(b));
}
