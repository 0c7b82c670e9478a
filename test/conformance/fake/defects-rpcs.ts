/** Defects of the services besides SnapshotMetadata, of advertised capabilities, and of error statuses. */
import { writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { after, answering, before, type Defect, type Defects, instead } from './defect.js';
import { groupMessage } from './group.js';
import { type Message, Refusal, refusal } from './refusal.js';
import type { Group, Snapshot, State, Volume } from './state.js';

interface Kinds {
  volumes: Volume;
  snapshots: Snapshot;
  groups: Group;
}
type Kind = keyof Kinds;
/** What makes them, what tells of one, and the field with its id. */
const CREATES = { volumes: 'CreateVolume', snapshots: 'CreateSnapshot', groups: 'CreateVolumeGroupSnapshot' };
const TELLS = {
  snapshots: ['GetSnapshot', 'snapshot_id'],
  groups: ['GetVolumeGroupSnapshot', 'group_snapshot_id'],
} as const;

const ofKind = <K extends Kind>(state: State, kind: K): Map<string, Kinds[K]> =>
  state[kind] as unknown as Map<string, Kinds[K]>;

/** Asks for other things where the name in the request is known. */
function whereKnown<K extends Kind>(kind: K, fields: (known: Kinds[K], state: State) => Message): Defect {
  return before(CREATES[kind], (request, state) => {
    const known = [...ofKind(state, kind).values()].find(({ name }) => name === request['name']);
    return known === undefined ? request : { ...request, ...fields(known, state) };
  });
}

/** Forgets the name of a created object, so that the next call with the same name creates another. */
const forgetsNames = (kind: Kind): Defect =>
  whereKnown(kind, (known) => {
    known.name = `${known.name} of old`;
    return {};
  });

/** Treats a request without a name as one with a new name. */
const namesTheNameless = (rpc: string): Defect =>
  before(rpc, (request, state) => ({ ...request, name: request['name'] || `nameless-${state.next()}` }));

/** Answers OK without an object for an unknown id. */
function emptyForUnknown(kind: keyof typeof TELLS): Defect {
  const [rpc, field] = TELLS[kind];
  return instead(rpc, (correct, state) => (request) => {
    const id: string = request[field];
    return id === '' || state[kind].has(id) ? correct(request) : {};
  });
}

/** Answers NOT_FOUND to the deletion of what is not there. */
const missing = (rpc: string, kind: 'volume' | 'snapshot'): Defect =>
  before(rpc, (request, state) => {
    const id: string = request[`${kind}_id`];
    if (id !== '') state[kind](id);
    return request;
  });

/** Advertises another controller capability. */
const advertising = (type: string | number): Defect =>
  after('ControllerGetCapabilities', ({ capabilities }) => ({ capabilities: [...capabilities, { rpc: { type } }] }));

/** Changes the group in the responses of Create and Get. */
function tellingOfGroups(change: (members: Message[]) => Message[]): Defect {
  return {
    rpc: (name, correct) => async (request) => {
      const answer = await correct(request);
      if (!/^(Create|Get)VolumeGroupSnapshot$/.test(name)) return answer;
      const { group_snapshot: group } = answer;
      return { group_snapshot: { ...group, snapshots: change(group.snapshots) } };
    },
  };
}

/** Takes the members one after the other. */
const oneByOne = instead('CreateVolumeGroupSnapshot', (correct, state) => async (request) => {
  const { name, source_volume_ids: sources } = request;
  const isKnown = [...state.groups.values()].some((group) => group.name === name);
  if (isKnown || sources.length < 2) return correct(request);
  const id = `fake-group-${state.next()}`;
  const group: Group = { id, name, snapshotIds: [], createdMs: Date.now() };
  for (const source of sources) {
    group.snapshotIds.push(state.takeSnapshot(state.volume(source), '', id).id);
    await delay(500);
  }
  state.groups.set(id, group);
  return { group_snapshot: groupMessage(state, group) };
});

function withDetails(correct: Refusal): Refusal {
  const detailed = new Refusal(correct.code, correct.details);
  detailed.metadata.set('grpc-status-details-bin', Buffer.from([8, correct.code]));
  return detailed;
}

let capabilityCalls = 0;

export const RPC_DEFECTS: Defects = {
  'groups.create': {
    'leaves group_snapshot_id of the members empty': tellingOfGroups((members) =>
      members.map((member) => ({ ...member, group_snapshot_id: '' })),
    ),
    'omits the last member of a group': {
      ...tellingOfGroups((members) => members.slice(0, -1)),
      mayAlsoFail: ['groups.get'],
    },
  },
  'groups.write-order': { 'takes the members one after the other while writes continue': oneByOne },
  'groups.idempotent': { 'takes new members when CreateVolumeGroupSnapshot is repeated': forgetsNames('groups') },
  'groups.mismatch': {
    'returns the group of that name although its sources differ': whereKnown('groups', ({ snapshotIds }, state) => ({
      source_volume_ids: snapshotIds.map((id) => state.snapshot(id).volumeId),
    })),
  },
  'groups.member-delete': {
    'refuses to delete a single member with INTERNAL': before('DeleteSnapshot', (request, state) => {
      const member = state.snapshots.get(request['snapshot_id']);
      if (member?.groupId) throw refusal('INTERNAL', `'${member.id}' cannot be deleted`);
      return request;
    }),
  },
  'groups.delta': {
    'reports no changes in deltas to a member of a group': after('blocks', (blocks, { base, target }) =>
      base !== null && target.groupId !== '' ? [] : blocks,
    ),
  },
  'groups.delete': {
    'deletes a group but not its members': instead('DeleteVolumeGroupSnapshot', (_correct, state) => (request) => {
      const group = state.groups.get(request['group_snapshot_id']);
      for (const id of group?.snapshotIds ?? []) state.snapshot(id).groupId = '';
      if (group !== undefined) state.groups.delete(group.id);
      return {};
    }),
  },
  'groups.list-mismatch': {
    'ignores snapshot_ids that are not the members': {
      rpc: (name, correct, state) => (request) => {
        const { snapshotIds } = state.groups.get(request['group_snapshot_id']) ?? {};
        const isOfGroup = /^(Get|Delete)VolumeGroupSnapshot$/.test(name) && snapshotIds;
        return correct(isOfGroup ? { ...request, snapshot_ids: snapshotIds } : request);
      },
    },
  },
  'groups.refused-leaves-nothing': {
    'refuses a group after it has taken the first member, and leaves that': before(
      'CreateVolumeGroupSnapshot',
      (request, state) => {
        const [first = '', ...others] = request['source_volume_ids'] as string[];
        if (others.some((id) => !state.volumes.has(id))) {
          state.takeSnapshot(state.volume(first), `half of ${request['name']}`);
        }
        return request;
      },
    ),
  },
  'groups.source-missing': {
    'takes snapshots of the volumes that exist and ignores unknown ones': before(
      'CreateVolumeGroupSnapshot',
      (request, state) => {
        const sources: string[] = request['source_volume_ids'];
        return { ...request, source_volume_ids: sources.filter((id) => state.volumes.has(id)) };
      },
    ),
  },
  'groups.missing-fields': { 'creates groups without a name': namesTheNameless('CreateVolumeGroupSnapshot') },
  'groups.get': { 'answers OK without a group for an unknown id': emptyForUnknown('groups') },
  'volume.create-idempotent': {
    'creates another volume when CreateVolume is repeated': forgetsNames('volumes'),
    'creates volumes of half the requested size': before('CreateVolume', (request) => {
      const required_bytes = Number(request['capacity_range'].required_bytes) / 2;
      return { ...request, capacity_range: { required_bytes, limit_bytes: 0 } };
    }),
  },
  'volume.create-conflict': {
    'returns the volume of that name although it is too small': whereKnown('volumes', ({ sizeBytes }) => ({
      capacity_range: { required_bytes: sizeBytes, limit_bytes: 0 },
    })),
  },
  'volume.create-missing-fields': { 'creates volumes without a name': namesTheNameless('CreateVolume') },
  'volume.validate': {
    'confirms no capability of a volume': after('ValidateVolumeCapabilities', () => ({ message: 'who knows' })),
  },
  'volume.create-from-missing': {
    'creates an empty volume when the source snapshot does not exist': before('CreateVolume', (request, state) => {
      const id = request['volume_content_source']?.snapshot?.snapshot_id;
      const isMissing = id !== undefined && !state.snapshots.has(id);
      return { ...request, ...(isMissing ? { volume_content_source: null } : {}) };
    }),
  },
  'volume.delete': { 'answers NOT_FOUND to the deletion of an unknown volume': missing('DeleteVolume', 'volume') },
  'volume.list': {
    'lists all volumes, ignoring max_entries': before('ListVolumes', (request) => ({ ...request, max_entries: 0 })),
    'never returns a token for the next page': answering('ListVolumes', { next_token: '' }),
  },
  'volume.publish-twice': {
    'leaves a file at the target path when it unpublishes': after('NodeUnpublishVolume', (answer, request) => {
      writeFileSync(request['target_path'], '');
      return answer;
    }),
    'refuses to publish again at a path where the volume is already published': before(
      'NodePublishVolume',
      (request, state) => {
        const { volume_id: id, target_path: path } = request;
        if (!state.volumes.get(id)?.publications.has(path)) return request;
        throw refusal('INTERNAL', `${path} is there already`);
      },
    ),
  },
  'snapshot.create-idempotent': { 'takes another snapshot when CreateSnapshot is repeated': forgetsNames('snapshots') },
  'snapshot.create-conflict': {
    'returns the snapshot of that name although it is of another volume': whereKnown('snapshots', ({ volumeId }) => ({
      source_volume_id: volumeId,
    })),
  },
  'snapshot.create-missing-fields': { 'creates snapshots without a name': namesTheNameless('CreateSnapshot') },
  'snapshot.get': { 'answers OK without a snapshot for an unknown id': emptyForUnknown('snapshots') },
  'snapshot.delete': {
    'answers NOT_FOUND to the deletion of an unknown snapshot': missing('DeleteSnapshot', 'snapshot'),
  },
  'snapshot.list': {
    'lists the snapshots of all volumes, ignoring source_volume_id': before('ListSnapshots', (request) => ({
      ...request,
      source_volume_id: '',
    })),
  },
  'identity.info': {
    'has no vendor_version': answering('GetPluginInfo', { vendor_version: '' }),
    'has a name that is not a domain name': answering('GetPluginInfo', { name: 'Fake_Driver!' }),
    'has a name of 64 characters': answering('GetPluginInfo', { name: `${'a'.repeat(56)}.example` }),
  },
  'identity.probe': { 'never becomes ready': answering('Probe', { ready: { value: false } }) },
  'capability.served': {
    'advertises SNAPSHOT_METADATA_SERVICE and does not serve GetMetadataDelta': { unserved: ['GetMetadataDelta'] },
    'advertises GROUP_CONTROLLER_SERVICE and does not serve GetVolumeGroupSnapshot': {
      unserved: ['GetVolumeGroupSnapshot'],
    },
    'advertises LIST_SNAPSHOTS and does not serve ListSnapshots': { unserved: ['ListSnapshots'] },
    'advertises EXPAND_VOLUME and does not serve ControllerExpandVolume': { unserved: ['ControllerExpandVolume'] },
  },
  'capability.consistency': {
    'advertises LIST_VOLUMES_PUBLISHED_NODES without PUBLISH_UNPUBLISH_VOLUME':
      advertising('LIST_VOLUMES_PUBLISHED_NODES'),
    'advertises LIST_VOLUME_HEALTH without GET_VOLUME_HEALTH': {
      ...advertising('LIST_VOLUME_HEALTH'),
      mayAlsoFail: ['capability.served'],
    },
    'advertises online expansion without any EXPAND_VOLUME': {
      without: ['EXPAND_VOLUME'],
      ...after('GetPluginCapabilities', ({ capabilities }) => ({
        capabilities: [...capabilities, { volume_expansion: { type: 'ONLINE' } }],
      })),
    },
    'reports a node topology without VOLUME_ACCESSIBILITY_CONSTRAINTS': answering('NodeGetInfo', {
      accessible_topology: { segments: { 'fake.example/node': 'fake-node' } },
    }),
  },
  'capability.known': { 'advertises a capability that no version of CSI defines': advertising(99) },
  'identity.stable': {
    'advertises different plugin capabilities in every other call': after(
      'GetPluginCapabilities',
      ({ capabilities }) => {
        capabilityCalls += 1;
        const isShort = capabilityCalls % 2 === 1;
        return {
          capabilities: capabilities.filter(
            (one: Message) => !isShort || one['service']?.type !== 'GROUP_CONTROLLER_SERVICE',
          ),
        };
      },
    ),
  },
  'node.info': { 'has a node without an id': answering('NodeGetInfo', { node_id: '' }) },
  'status.message': {
    'sends errors without a message': { refuse: ({ code }) => new Refusal(code, '') },
    'sends rich error details': { refuse: withDetails },
  },
};
