/** Defects of group snapshots. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Defect } from './defect.js';
import { makeFile } from './disk.js';
import { groupMessage } from './group.js';
import { type Message, type Rpc, refusal } from './refusal.js';
import type { Group, State } from './state.js';

/** Changes the group in the answers of the honest Create and Get. */
function answering(change: (group: Message) => Message): Defect['fault'] {
  const changed = (rpc: Rpc | undefined) => async (request: Message) => {
    const answer = await rpc?.(request);
    return { group_snapshot: change(answer?.['group_snapshot']) };
  };
  return {
    rpcs: (honest) => ({
      CreateVolumeGroupSnapshot: changed(honest['CreateVolumeGroupSnapshot']),
      GetVolumeGroupSnapshot: changed(honest['GetVolumeGroupSnapshot']),
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
    does: 'shows all members but the last one',
    caughtBy: ['groups.create'],
    mayAlsoFail: ['groups.get'],
    fault: answering((group) => ({ ...group, snapshots: group['snapshots'].slice(0, -1) })),
  },
  {
    name: 'group-cut-one-by-one',
    does: 'cuts the members one after the other while writes go on',
    caughtBy: ['groups.write-order'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolumeGroupSnapshot: async (request) => {
          const { name, source_volume_ids: sources } = request;
          if (groupNamed(state, name) !== undefined || sources.length < 2) {
            return honest['CreateVolumeGroupSnapshot']?.(request) ?? {};
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
        },
      }),
    },
  },
  {
    name: 'group-cut-again',
    does: 'cuts new members when a group is asked for again',
    caughtBy: ['groups.idempotent'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolumeGroupSnapshot: (request) => {
          const known = groupNamed(state, request['name']);
          if (known !== undefined) known.name = `${known.name} of old`;
          return honest['CreateVolumeGroupSnapshot']?.(request) ?? {};
        },
      }),
    },
  },
  {
    name: 'group-of-other-sources',
    does: 'answers with the group of that name, though its sources are others',
    caughtBy: ['groups.mismatch'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolumeGroupSnapshot: (request) => {
          const known = groupNamed(state, request['name']);
          const cut = known?.snapshotIds.map((id) => state.snapshot(id).volumeId);
          return (
            honest['CreateVolumeGroupSnapshot']?.({
              ...request,
              source_volume_ids: cut ?? request['source_volume_ids'],
            }) ?? {}
          );
        },
      }),
    },
  },
  {
    name: 'group-member-is-internal',
    does: 'refuses to delete a member alone with INTERNAL',
    caughtBy: ['groups.member-delete'],
    fault: {
      rpcs: (honest, state) => ({
        DeleteSnapshot: (request) => {
          const member = state.snapshots.get(request['snapshot_id']);
          if (member?.groupId) throw refusal('INTERNAL', `'${member.id}' cannot be deleted`);
          return honest['DeleteSnapshot']?.(request) ?? {};
        },
      }),
    },
  },
  {
    name: 'group-members-have-no-deltas',
    does: 'leaves everything out of deltas to a member of a group',
    caughtBy: ['groups.delta'],
    fault: {
      metadata: (honest) => ({
        blocks: (query) =>
          query.base !== null && query.target.groupId !== ''
            ? Promise.resolve([])
            : honest.blocks(query),
      }),
    },
  },
  {
    name: 'group-leaves-its-members',
    does: 'deletes a group and leaves its members',
    caughtBy: ['groups.delete'],
    fault: {
      rpcs: (_honest, state) => ({
        DeleteVolumeGroupSnapshot: (request) => {
          const group = state.groups.get(request['group_snapshot_id']);
          for (const id of group?.snapshotIds ?? []) state.snapshot(id).groupId = '';
          if (group !== undefined) state.groups.delete(group.id);
          return {};
        },
      }),
    },
  },
  {
    name: 'group-of-any-snapshots',
    does: 'takes no notice of snapshot_ids that are not the members',
    caughtBy: ['groups.list-mismatch'],
    fault: {
      rpcs: (honest, state) => {
        const withMembers = (request: Message): Message => ({
          ...request,
          snapshot_ids: state.groups.get(request['group_snapshot_id'])?.snapshotIds ?? [],
        });
        return {
          GetVolumeGroupSnapshot: (request) =>
            honest['GetVolumeGroupSnapshot']?.(withMembers(request)) ?? {},
          DeleteVolumeGroupSnapshot: (request) =>
            honest['DeleteVolumeGroupSnapshot']?.(withMembers(request)) ?? {},
        };
      },
    },
  },
  {
    name: 'group-skips-missing-volumes',
    does: 'cuts the volumes that are there and says nothing of those that are not',
    caughtBy: ['groups.source-missing'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolumeGroupSnapshot: (request) =>
          honest['CreateVolumeGroupSnapshot']?.({
            ...request,
            source_volume_ids: request['source_volume_ids'].filter((id: string) =>
              state.volumes.has(id),
            ),
          }) ?? {},
      }),
    },
  },
  {
    name: 'group-members-restore-empty',
    does: 'makes an empty volume when asked for one from a member of a group',
    caughtBy: ['groups.restore'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolume: async (request) => {
          const answer = (await honest['CreateVolume']?.(request)) ?? {};
          const volume = state.volumes.get(answer['volume'].volume_id);
          const source = String(volume?.source?.['snapshot']?.snapshot_id);
          if (volume?.device === null && state.snapshots.get(source)?.groupId) {
            await makeFile(volume.path, volume.sizeBytes);
          }
          return answer;
        },
      }),
    },
  },
  {
    name: 'group-without-name',
    does: 'cuts groups without a name',
    caughtBy: ['groups.missing-fields'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolumeGroupSnapshot: (request) =>
          honest['CreateVolumeGroupSnapshot']?.({
            ...request,
            name: request['name'] || `nameless-${state.next()}`,
          }) ?? {},
      }),
    },
  },
  {
    name: 'group-unknown-is-empty',
    does: 'answers OK without a group when asked for an unknown one',
    caughtBy: ['groups.get'],
    fault: {
      rpcs: (honest, state) => ({
        GetVolumeGroupSnapshot: (request) =>
          state.groups.has(request['group_snapshot_id']) || request['group_snapshot_id'] === ''
            ? (honest['GetVolumeGroupSnapshot']?.(request) ?? {})
            : {},
      }),
    },
  },
];
