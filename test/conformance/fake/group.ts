/** The GroupController service of the fake driver: copies with no write in between, or a refusal. */
import { snapshotMessage, timestamp } from './controller.js';
import { demand, type Message, type Rpcs, refusal } from './refusal.js';
import type { Group, Snapshot, State, Volume } from './state.js';

const ATTEMPTS = 50;

export function groupRpcs(state: State): Rpcs {
  return {
    GroupControllerGetCapabilities: () => ({
      capabilities: [{ rpc: { type: 'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT' } }],
    }),
    CreateVolumeGroupSnapshot: (request) => state.inTurn(() => createGroup(state, request)),
    DeleteVolumeGroupSnapshot: (request) => state.inTurn(() => deleteGroup(state, request)),
    GetVolumeGroupSnapshot: (request) => {
      demand(request, 'group_snapshot_id');
      const group = state.groups.get(request['group_snapshot_id']);
      if (group === undefined) {
        throw refusal('NOT_FOUND', `there is no group '${request['group_snapshot_id']}'`);
      }
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

async function createGroup(state: State, request: Message): Promise<Message> {
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
  const volumes = sources.map((id) => state.volume(id));
  const [id, createdMs] = [`fake-group-${state.next()}`, Date.now()];
  const members = await takeSnapshots(state, volumes, id);
  const group = { id, name, snapshotIds: members.map((member) => member.id), createdMs };
  state.groups.set(group.id, group);
  return { group_snapshot: groupMessage(state, group) };
}

async function takeSnapshots(
  state: State,
  volumes: Volume[],
  groupId: string,
): Promise<Snapshot[]> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const members = await state.makeMembers(volumes, groupId);
    if (members !== null) return members;
  }
  throw refusal('ABORTED', `volumes ${volumes.map(({ id }) => id).join(', ')} were written to`);
}

async function deleteGroup(state: State, request: Message): Promise<Message> {
  demand(request, 'group_snapshot_id');
  const group = state.groups.get(request['group_snapshot_id']);
  if (group === undefined) return {};
  expectMembers(group, request);
  for (const id of group.snapshotIds) await state.forget(id);
  state.groups.delete(group.id);
  return {};
}

function expectMembers(group: Group, request: Message): void {
  if (sameSet(group.snapshotIds, request['snapshot_ids'])) return;
  throw refusal('INVALID_ARGUMENT', `snapshot_ids are not the members of '${group.id}'`);
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item) => b.includes(item));
}
