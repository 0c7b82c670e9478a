/**
 * Ids that name nothing here. Of any form, they are never paths, are told before values are judged, and what undoes
 * something succeeds with them. With another node's key they are refused, and never taken for deleted objects.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HANDLE_FIELDS } from '../../src/base/csi/handle-fields.js';
import { newGroupSnapshotId, newSnapshotId, newVolumeId, nodeKey } from '../../src/base/csi/handles.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { allRpcs, encodeMessage, RawConnection, type RpcDescription } from '../support/raw-call.js';
import { TEST_NODE_KEY } from '../support/records.js';
import { refused } from '../support/refusal.js';

const NOBODY = '00000000-0000-0000-0000-000000000000';
const IDS: readonly string[] = [
  'none-exist-id',
  ...['vol', 'snap', 'group'].map((kind) => `${kind}-${TEST_NODE_KEY}-${NOBODY}`),
  `VOL-0123456789AB-${NOBODY}`,
  'vol-',
  '/',
  '.',
  '..',
  '../pool-id',
  '../../../../etc/passwd',
  '/etc/passwd',
  'a/b',
  "' OR 1=1 --",
  '%s%n',
  'a\nb',
  'a b',
  '__proto__',
  'constructor',
  '🗄️',
  'i'.repeat(128),
];

const running = runMemoryPlugin({
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
  prepare: async ({ orchestrator, endpoint }) => {
    known = await orchestrator.create('known');
    snapshotId = await orchestrator.snapshot(known, 'known');
    connection = new RawConnection(endpoint);
  },
});
const { orchestrator } = running;
const controller = () => running.client.controller;
let connection: RawConnection;
let known: HeldVolume;
let snapshotId = '';

/** Nothing but what is already there. */
async function assertAsBefore(): Promise<void> {
  assert.deepEqual(await orchestrator.volumeIds(), [known.id]);
  assert.deepEqual(await orchestrator.snapshotIds(), [snapshotId]);
}

async function call(name: string, request: Message): Promise<unknown> {
  const rpc = allRpcs().find((each) => each.name === name) as RpcDescription;
  return connection.call(rpc, encodeMessage(rpc.requestType, request));
}

/** By rule and RPC, and what else tells them apart. */
type Requests = Readonly<Record<string, (id: string) => Message>>;
const called = (title: string, request: Message): Promise<unknown> => call(title.split(' ')[1] ?? '', request);
const madeFrom = (volume_content_source: Message): Message => ({ ...createRequest('new'), volume_content_source });
const broken = { block: {} };

/** Nothing else is right about these requests where the RPC has values that could be wrong. */
const REFUSED: Requests = {
  'CV11: CreateVolume from a snapshot': (snapshot_id) => madeFrom({ snapshot: { snapshot_id } }),
  'CV11: CreateVolume from a volume': (volume_id) => madeFrom({ volume: { volume_id } }),
  'CP2: ControllerPublishVolume': (volume_id) => ({ volume_id, node_id: 'nobody', volume_capability: broken }),
  'VV2: ValidateVolumeCapabilities': (volume_id) => ({ volume_id, volume_capabilities: [broken] }),
  'GV2: ControllerGetVolume': (volume_id) => ({ volume_id }),
  'GV2: ControllerGetVolumeHealth': (volume_id) => ({ volume_id }),
  'MV2: ControllerModifyVolume': (volume_id) => ({ volume_id, mutable_parameters: { x: 'x' } }),
  'MV2: ControllerModifyVolume without parameters': (volume_id) => ({ volume_id }),
  'EV2: ControllerExpandVolume': (volume_id) => ({ volume_id, capacity_range: {} }),
  'CS4: CreateSnapshot': (source_volume_id) => ({ source_volume_id, name: 'new' }),
  'GS2: GetSnapshot': (snapshot_id) => ({ snapshot_id }),
  'GA5: CreateVolumeGroupSnapshot': (id) => ({ name: 'new', source_volume_ids: [known.id, id] }),
  'GE2: GetVolumeGroupSnapshot': (group_snapshot_id) => ({ group_snapshot_id, snapshot_ids: ['other'] }),
  'GE2: GetVolumeGroupSnapshot without members': (group_snapshot_id) => ({ group_snapshot_id }),
  'SM2: GetMetadataAllocated': (snapshot_id) => ({ snapshot_id }),
  'SM2: GetMetadataDelta from it': (base_snapshot_id) => ({ base_snapshot_id, target_snapshot_id: snapshotId }),
  'SM2: GetMetadataDelta to it': (target_snapshot_id) => ({ base_snapshot_id: snapshotId, target_snapshot_id }),
};
for (const [title, requestFor] of Object.entries(REFUSED)) {
  test(`${title} is NOT_FOUND, and no name is taken`, async () => {
    const refuses = (id: string) => refused(called(title, requestFor(id)), 'NOT_FOUND');
    for (const id of IDS) await refuses(id);
    // What is gone is unknown, also while a snapshot keeps the lineage of its volume.
    const gone = await orchestrator.create('new');
    await orchestrator.deleteSnapshot(await orchestrator.snapshot(gone, 'new'));
    const goneSnapshot = await orchestrator.snapshot(gone, 'lineage');
    await orchestrator.delete(gone);
    await refuses(gone.id);
    await orchestrator.deleteSnapshot(goneSnapshot);
    await refuses(goneSnapshot);
  });
}

const ACCEPTED: Requests = {
  'DV2: DeleteVolume': (volume_id) => ({ volume_id }),
  'DS2: DeleteSnapshot': (snapshot_id) => ({ snapshot_id }),
  'CU4: ControllerUnpublishVolume': (volume_id) => ({ volume_id, node_id: 'nobody' }),
  'GD2: DeleteVolumeGroupSnapshot': (group_snapshot_id) => ({ group_snapshot_id, snapshot_ids: ['other'] }),
  'GD2: DeleteVolumeGroupSnapshot without members': (group_snapshot_id) => ({ group_snapshot_id }),
};
for (const [title, requestFor] of Object.entries(ACCEPTED)) {
  test(`${title} of an id that names nothing is OK and deletes nothing`, async () => {
    for (const id of IDS) await called(title, requestFor(id));
    await assertAsBefore();
  });
}

test('DV2, DS2: the id of a snapshot deletes no volume, and that of a volume no snapshot', async () => {
  await controller().DeleteVolume({ volume_id: snapshotId });
  await controller().DeleteSnapshot({ snapshot_id: known.id });
  await assertAsBefore();
});

test('a list of an id that names nothing is empty', async () => {
  const empty = { entries: [], next_token: '' };
  for (const id of IDS) {
    assert.deepEqual(await controller().ListSnapshots({ snapshot_id: id }), empty);
    assert.deepEqual(await controller().ListSnapshots({ source_volume_id: id }), empty);
  }
  assert.deepEqual(await controller().ListSnapshots({ snapshot_id: known.id }), empty);
});

test('DV2, DS2: what was deleted can be deleted again, also after a restart, and its name is free', async () => {
  const volume = await orchestrator.create('twice');
  const snapshot = await orchestrator.snapshot(volume, 'twice');
  for (let repeat = 0; repeat < 3; repeat += 1) {
    await orchestrator.deleteSnapshot(snapshot);
    await orchestrator.delete(volume);
    if (repeat === 1) await running.restart();
  }
  const next = await orchestrator.create('twice', { sizeBytes: 9 * MIB });
  assert.notEqual(next.id, volume.id);
  const again = await orchestrator.snapshot(next, 'twice');
  assert.notEqual(again, snapshot);
  await orchestrator.deleteSnapshot(again);
  await orchestrator.delete(next);
});

const OTHER = nodeKey('other-node');

function handleFor(field: string): string {
  if (field.includes('group')) return newGroupSnapshotId(OTHER);
  return field.includes('snapshot_id') ? newSnapshotId(OTHER) : newVolumeId(OTHER);
}

/** A request with nothing but the handle, in the field of that path. */
function requestWith(path: string, handle: string): Message {
  const [first = '', ...rest] = path.split('.');
  if (rest.length > 0) return { [first]: requestWith(rest.join('.'), handle) };
  return { [first]: first.endsWith('_ids') ? [handle] : handle };
}

for (const [rpc, paths] of Object.entries(HANDLE_FIELDS)) {
  for (const path of paths) {
    const handle = handleFor(path);
    if (rpc === 'NodeUnstageVolume' || rpc === 'NodeUnpublishVolume') {
      test(`${rpc} releases what is mounted here whatever key the volume's handle has`, async () => {
        const field = rpc === 'NodeUnstageVolume' ? 'staging_target_path' : 'target_path';
        await call(rpc, { volume_id: handle, [field]: running.path('nothing', 'here') });
      });
      continue;
    }
    if (path.startsWith('volume_content_source.')) {
      test(`${rpc} refuses another node's handle in ${path} without a replica here, and names both nodes`, async () => {
        const spec = path.includes('snapshot') ? { snapshotId: handle } : { volumeId: handle };
        const request = createRequest('elsewhere', spec);
        const message = await refused(call(rpc, request), 'RESOURCE_EXHAUSTED', new RegExp(`^${path}: `));
        for (const part of [handle, OTHER, TEST_NODE_KEY, 'router']) assert.ok(message.includes(part), part);
      });
      continue;
    }
    test(`${rpc} refuses another node's handle in ${path} and names both nodes`, async () => {
      const message = await refused(call(rpc, requestWith(path, handle)), 'FAILED_PRECONDITION');
      const field = path.split('.').at(-1) ?? '';
      for (const part of [field, handle, OTHER, TEST_NODE_KEY, 'test-node']) {
        assert.ok(message.includes(part), `${part} is missing in: ${message}`);
      }
    });
  }
}

test('one foreign member makes a group refused, and a snapshot of this node is not taken', async () => {
  const source_volume_ids = [known.id, newVolumeId(OTHER)];
  const group = call('CreateVolumeGroupSnapshot', { name: 'mixed', source_volume_ids });
  await refused(group, 'FAILED_PRECONDITION', /^source_volume_ids\[1\]: /);
  await assertAsBefore();
});
