/** The rules of CreateSnapshot and DeleteSnapshot. snapshot-sets.ts does the work, as for groups. */

import type { StringMap } from '../../base/csi/string-map.js';
import { CsiError } from '../../base/errors.js';
import type { SnapshotRecord } from '../catalogue/records.js';
import { copyInTime } from './copy-in-time.js';
import type { ManagerDependencies } from './manager-dependencies.js';
import { snapshotNameKey } from './operation-locks.js';
import { createSnapshots, deleteSnapshots } from './snapshot-sets.js';

export interface SnapshotRequest {
  name: string;
  sourceVolumeId: string;
  parameters: StringMap;
  /** The node that is to keep a copy; left out or null if none is. */
  copyNodeId?: string | null;
  /** When the caller stops waiting, in ms since the epoch; left out if it never does. */
  deadline?: number;
}

interface SingleSnapshot {
  group: null;
  members: readonly [SnapshotRecord];
}

export class SnapshotManager {
  constructor(private readonly deps: ManagerDependencies) {}

  /**
   * Returns the snapshot of that name, and takes it if there is none. Locks the name and the volume.
   *
   * @param signal of the call, here and below: a call with a signal waits for its locks, a call without one does not wait
   */
  async create(
    { name, sourceVolumeId, parameters, copyNodeId = null, deadline }: SnapshotRequest,
    signal?: AbortSignal,
  ): Promise<SnapshotRecord> {
    const copy = { keys: [snapshotNameKey(name)], volumeIds: [sourceVolumeId], deadline };
    const work = (until: number): Promise<SingleSnapshot> =>
      createSnapshots<SingleSnapshot>(this.deps, {
        name,
        parameters,
        deadline: until,
        isGroup: false,
        copyNodeId,
        sources: [{ volumeId: sourceVolumeId, field: 'source_volume_id' }],
        find: () => this.#find(name),
        assertSame: ({ members: [known] }) => {
          const isSame = known.volumeId === sourceVolumeId && known.parameters['copies'] === parameters['copies'];
          if (isSame) return;
          const { copies = '0' } = known.parameters;
          throw CsiError.alreadyExists(
            `name '${name}' is taken by snapshot ${known.snapshotId} of volume ${known.volumeId}, with copies '${copies}'`,
          );
        },
      });
    const { members } = await copyInTime(this.deps.locks, copy, work, signal);
    return members[0];
  }

  /**
   * Deletes the snapshot; succeeds if it does not exist. INVALID_ARGUMENT for a member of a group
   * snapshot, which can only be deleted with its group.
   */
  async delete(snapshotId: string, signal?: AbortSignal): Promise<void> {
    // This needs no lock: a snapshot never joins or leaves a group, and a deleted snapshot may be read as a base.
    const known = await this.deps.catalogue.snapshotById(snapshotId);
    if (known === null) return;
    const { groupSnapshotId: group } = known;
    if (group !== null) {
      throw CsiError.invalidArgument(
        `snapshot ${snapshotId} is a member of group snapshot ${group} and cannot be deleted alone; ` +
          'delete the group with DeleteVolumeGroupSnapshot',
      );
    }
    await deleteSnapshots(this.deps, { group: null, members: [known] }, [], signal);
  }

  async #find(name: string): Promise<SingleSnapshot | null> {
    const snapshot = await this.deps.catalogue.snapshotByName(name);
    return snapshot === null ? null : { group: null, members: [snapshot] };
  }
}
