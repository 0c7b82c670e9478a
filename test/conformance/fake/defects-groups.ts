/** Defects of group snapshots. */
import { setTimeout as delay } from 'node:timers/promises';
import { type Defect, inList, inRpc } from './defect.js';
import { makeFile } from './disk.js';
import { groupMessage } from './group.js';
import { type Message, type Rpc, refusal } from './refusal.js';
import type { Group, State } from './state.js';

/** Changes the group in the responses of the correct Create and Get. */
function answering(change: (group: Message) => Message): Defect['fault'] {
  const changed = (rpc: Rpc | undefined) => async (request: Message) => {
    const answer = await rpc?.(request);
    return { group_snapshot: change(answer?.['group_snapshot']) };
  };
  return {
    rpcs: (correct) => ({
      CreateVolumeGroupSnapshot: changed(correct['CreateVolumeGroupSnapshot']),
      GetVolumeGroupSnapshot: changed(correct['GetVolumeGroupSnapshot']),
    }),
  };
}

function groupNamed(state: State, name: unknown): Group | undefined {
  return [...state.groups.values()].find((group) => group.name === name);
}

export const GROUP_DEFECTS: readonly Defect[] = [
  {
    name: 'group-members-without-group',
    does: 'leaves group_snapshot_id of the members empty',
    caughtBy: ['groups.create'],
    fault: answering((group) => ({
      ...group,
      snapshots: group['snapshots'].map((member: Message) => ({
        ...member,
        group_snapshot_id: '',
      })),
    })),
  },
  {
    name: 'group-lacks-a-member',
    does: 'omits the last member of a group',
    caughtBy: ['groups.create'],
    mayAlsoFail: ['groups.get'],
    fault: answering((group) => ({ ...group, snapshots: group['snapshots'].slice(0, -1) })),
  },
  {
    name: 'group-one-by-one',
    does: 'takes the members one after the other while writes continue',
    caughtBy: ['groups.write-order'],
    fault: inRpc('CreateVolumeGroupSnapshot', (correct, state) => async (request) => {
      const { name, source_volume_ids: sources } = request;
      if (groupNamed(state, name) !== undefined || sources.length < 2) {
        return correct(request);
      }
      const id = `fake-group-${state.next()}`;
      const group: Group = { id, name, snapshotIds: [], createdMs: Date.now() };
      for (const source of sources) {
        const members = await state.makeMembers([state.volume(source)], id);
        group.snapshotIds.push(...(members ?? []).map((member) => member.id));
        await delay(500);
      }
      state.groups.set(id, group);
      return { group_snapshot: groupMessage(state, group) };
    }),
  },
  {
    name: 'group-taken-again',
    does: 'takes new members when CreateVolumeGroupSnapshot is repeated',
    caughtBy: ['groups.idempotent'],
    fault: inRpc('CreateVolumeGroupSnapshot', (correct, state) => (request) => {
      const known = groupNamed(state, request['name']);
      if (known !== undefined) known.name = `${known.name} of old`;
      return correct(request);
    }),
  },
  {
    name: 'group-of-other-sources',
    does: 'returns the group of that name although its sources differ',
    caughtBy: ['groups.mismatch'],
    fault: inRpc('CreateVolumeGroupSnapshot', (correct, state) => (request) => {
      const known = groupNamed(state, request['name']);
      const sourceIds = known?.snapshotIds.map((id) => state.snapshot(id).volumeId);
      return correct({
        ...request,
        source_volume_ids: sourceIds ?? request['source_volume_ids'],
      });
    }),
  },
  {
    name: 'group-member-is-internal',
    does: 'refuses to delete a single member with INTERNAL',
    caughtBy: ['groups.member-delete'],
    fault: inRpc('DeleteSnapshot', (correct, state) => (request) => {
      const member = state.snapshots.get(request['snapshot_id']);
      if (member?.groupId) throw refusal('INTERNAL', `'${member.id}' cannot be deleted`);
      return correct(request);
    }),
  },
  {
    name: 'group-members-have-no-deltas',
    does: 'reports no changes in deltas to a member of a group',
    caughtBy: ['groups.delta'],
    fault: inList(
      'blocks',
      (correct) => (query) =>
        query.base !== null && query.target.groupId !== ''
          ? Promise.resolve([])
          : correct.blocks(query),
    ),
  },
  {
    name: 'group-leaves-its-members',
    does: 'deletes a group but not its members',
    caughtBy: ['groups.delete'],
    fault: inRpc('DeleteVolumeGroupSnapshot', (_correct, state) => (request) => {
      const group = state.groups.get(request['group_snapshot_id']);
      for (const id of group?.snapshotIds ?? []) state.snapshot(id).groupId = '';
      if (group !== undefined) state.groups.delete(group.id);
      return {};
    }),
  },
  {
    name: 'group-of-any-snapshots',
    does: 'ignores snapshot_ids that are not the members',
    caughtBy: ['groups.list-mismatch'],
    fault: {
      rpcs: (correct, state) => {
        const withMembers = (request: Message): Message => ({
          ...request,
          snapshot_ids: state.groups.get(request['group_snapshot_id'])?.snapshotIds ?? [],
        });
        return {
          GetVolumeGroupSnapshot: (request) =>
            correct['GetVolumeGroupSnapshot']?.(withMembers(request)) ?? {},
          DeleteVolumeGroupSnapshot: (request) =>
            correct['DeleteVolumeGroupSnapshot']?.(withMembers(request)) ?? {},
        };
      },
    },
  },
  {
    name: 'group-refused-half-way',
    does: 'refuses a group after it has taken the first member, and leaves that',
    caughtBy: ['groups.refused-leaves-nothing'],
    fault: inRpc('CreateVolumeGroupSnapshot', (correct, state) => async (request) => {
      const [first, ...others] = request['source_volume_ids'] as string[];
      if (others.some((id) => !state.volumes.has(id))) {
        await state.makeSnapshot(state.volume(first ?? ''), `half of ${request['name']}`);
      }
      return correct(request);
    }),
  },
  {
    name: 'group-skips-missing-volumes',
    does: 'takes snapshots of the volumes that exist and ignores unknown ones',
    caughtBy: ['groups.source-missing'],
    fault: inRpc(
      'CreateVolumeGroupSnapshot',
      (correct, state) => (request) =>
        correct({
          ...request,
          source_volume_ids: request['source_volume_ids'].filter((id: string) =>
            state.volumes.has(id),
          ),
        }) ?? {},
    ),
  },
  {
    name: 'group-members-restore-empty',
    does: 'creates an empty volume when asked to restore a member of a group',
    caughtBy: ['groups.restore'],
    fault: inRpc('CreateVolume', (correct, state) => async (request) => {
      const answer = await correct(request);
      const volume = state.volumes.get(answer['volume'].volume_id);
      const source = String(volume?.source?.['snapshot']?.snapshot_id);
      if (volume?.device === null && state.snapshots.get(source)?.groupId) {
        await makeFile(volume.path, volume.sizeBytes);
      }
      return answer;
    }),
  },
  {
    name: 'group-without-name',
    does: 'creates groups without a name',
    caughtBy: ['groups.missing-fields'],
    fault: inRpc(
      'CreateVolumeGroupSnapshot',
      (correct, state) => (request) =>
        correct({
          ...request,
          name: request['name'] || `nameless-${state.next()}`,
        }),
    ),
  },
  {
    name: 'group-unknown-is-empty',
    does: 'answers OK without a group for an unknown id',
    caughtBy: ['groups.get'],
    fault: inRpc(
      'GetVolumeGroupSnapshot',
      (correct, state) => (request) =>
        state.groups.has(request['group_snapshot_id']) || request['group_snapshot_id'] === ''
          ? correct(request)
          : {},
    ),
  },
];
