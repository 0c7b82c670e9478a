/** The GroupController service of the fake driver. */
import { snapshotMessage, timestamp } from './controller.js';
import { demand, type Message, type Rpcs, refusal } from './refusal.js';
import type { Group, State } from './state.js';

export function groupRpcs(state: State): Rpcs {
  return {
    GroupControllerGetCapabilities: () => ({
      capabilities: [{ rpc: { type: 'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT' } }],
    }),
    CreateVolumeGroupSnapshot: (request) => createGroup(state, request),
    DeleteVolumeGroupSnapshot: (request) => {
      demand(request, 'group_snapshot_id');
      const group = state.groups.get(request['group_snapshot_id']);
      if (group === undefined) return {};
      expectMembers(group, request);
      for (const id of group.snapshotIds) state.snapshots.delete(id);
      state.groups.delete(group.id);
      return {};
    },
    GetVolumeGroupSnapshot: (request) => {
      demand(request, 'group_snapshot_id');
      const group = state.group(request['group_snapshot_id']);
      expectMembers(group, request);
      return { group_snapshot: groupMessage(state, group) };
    },
  };
}

export function groupMessage(state: State, group: Group): Message {
  return {
    group_snapshot_id: group.id,
    snapshots: group.snapshotIds.map((id) => snapshotMessage(state.snapshot(id))),
    creation_time: timestamp(group.createdMs),
    ready_to_use: true,
  };
}

function createGroup(state: State, request: Message): Message {
  demand(request, 'name', 'source_volume_ids');
  const [name, sources] = [String(request['name']), request['source_volume_ids'] as string[]];
  if (new Set(sources).size !== sources.length) {
    throw refusal('INVALID_ARGUMENT', 'source_volume_ids names a volume twice');
  }
  const known = [...state.groups.values()].find((group) => group.name === name);
  if (known !== undefined) {
    const sourceIds = known.snapshotIds.map((id) => state.snapshot(id).volumeId);
    if (sameSet(sourceIds, sources)) return { group_snapshot: groupMessage(state, known) };
    throw refusal('ALREADY_EXISTS', `group '${name}' is one of volumes ${sourceIds.join(', ')}`);
  }
  const volumes = sources.map((source) => state.volume(source));
  const [id, createdMs] = [`fake-group-${state.next()}`, Date.now()];
  const snapshotIds = volumes.map((volume) => state.takeSnapshot(volume, '', id).id);
  const group = { id, name, snapshotIds, createdMs };
  state.groups.set(id, group);
  return { group_snapshot: groupMessage(state, group) };
}

function expectMembers(group: Group, request: Message): void {
  if (sameSet(group.snapshotIds, request['snapshot_ids'])) return;
  throw refusal('INVALID_ARGUMENT', `snapshot_ids are not the members of '${group.id}'`);
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item) => b.includes(item));
}
