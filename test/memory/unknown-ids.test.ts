/**
 * Ids that name nothing, of any form: an unknown id is never a path, is told before values are judged, and what
 * undoes something succeeds with it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest } from '../support/orchestrator.js';
import { TEST_NODE_KEY } from '../support/records.js';
import { refused } from '../support/refusal.js';

const NOBODY = '00000000-0000-0000-0000-000000000000';
const IDS: readonly string[] = [
  'none-exist-id',
  ...['vol', 'snap', 'group'].map((kind) => `${kind}-${TEST_NODE_KEY}-${NOBODY}`),
  `VOL-0123456789AB-${NOBODY}`,
  ...['vol-', '/', '.', '..', '../pool-id', '../../../../etc/passwd', '/etc/passwd', 'a/b'],
  ...["' OR 1=1 --", '%s%n', 'a\nb', 'a b', '__proto__', 'constructor', '🗄️', 'i'.repeat(128)],
];

const running = runMemoryPlugin('unknown-ids', {
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
  prepare: async ({ orchestrator }) => {
    const volume = await orchestrator.create('known');
    volumeId = volume.id;
    snapshotId = await orchestrator.snapshot(volume, 'known');
  },
});
let volumeId = '';
let snapshotId = '';
const create = (volume_content_source: Message): Promise<Message> =>
  running.client.controller.CreateVolume({ ...createRequest('new'), volume_content_source });

/** Nothing else is right about these requests where the RPC has values that could be wrong. */
const REFUSED: Readonly<Record<string, (id: string) => Promise<unknown>>> = {
  'CV11: CreateVolume from a snapshot': (snapshot_id) => create({ snapshot: { snapshot_id } }),
  'CV11: CreateVolume from a volume': (volume_id) => create({ volume: { volume_id } }),
  'CP2: ControllerPublishVolume': (volume_id) =>
    running.client.controller.ControllerPublishVolume({
      ...{ volume_id, node_id: 'nobody', volume_capability: { block: {} } },
    }),
  'VV2: ValidateVolumeCapabilities': (volume_id) =>
    running.client.controller.ValidateVolumeCapabilities({
      ...{ volume_id, volume_capabilities: [{ block: {} }] },
    }),
  'GV2: ControllerGetVolume': (volume_id) =>
    running.client.controller.ControllerGetVolume({ volume_id }),
  'GV2: ControllerGetVolumeHealth': (volume_id) =>
    running.client.controller.ControllerGetVolumeHealth({ volume_id }),
  'MV2: ControllerModifyVolume': (volume_id) =>
    running.client.controller.ControllerModifyVolume({
      ...{ volume_id, mutable_parameters: { unknown: 'x' } },
    }),
  'MV2: ControllerModifyVolume without parameters': (volume_id) =>
    running.client.controller.ControllerModifyVolume({ volume_id }),
  'EV2: ControllerExpandVolume': (volume_id) =>
    running.client.controller.ControllerExpandVolume({ volume_id, capacity_range: {} }),
  'CS4: CreateSnapshot': (source_volume_id) =>
    running.client.controller.CreateSnapshot({ source_volume_id, name: 'new' }),
  'GS2: GetSnapshot': (snapshot_id) => running.client.controller.GetSnapshot({ snapshot_id }),
  'GA5: CreateVolumeGroupSnapshot': (id) =>
    running.client.groups.CreateVolumeGroupSnapshot({
      ...{ name: 'new', source_volume_ids: [volumeId, id] },
    }),
  'GE2: GetVolumeGroupSnapshot': (group_snapshot_id) =>
    running.client.groups.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids: ['other'] }),
  'GE2: GetVolumeGroupSnapshot without members': (group_snapshot_id) =>
    running.client.groups.GetVolumeGroupSnapshot({ group_snapshot_id }),
  'SM2: GetMetadataAllocated': (id) => running.client.allocated(id),
  'SM2: GetMetadataDelta from it': (id) => running.client.delta(id, snapshotId),
  'SM2: GetMetadataDelta to it': (id) => running.client.delta(snapshotId, id),
};
for (const [title, call] of Object.entries(REFUSED)) {
  test(`${title} is NOT_FOUND, and no name is taken`, async () => {
    for (const id of IDS) await refused(call(id), 'NOT_FOUND');
    // What is gone is unknown, also while a snapshot keeps the lineage of its volume.
    const { orchestrator } = running;
    const gone = await orchestrator.create('new');
    await orchestrator.deleteSnapshot(await orchestrator.snapshot(gone, 'new'));
    const goneSnapshot = await orchestrator.snapshot(gone, 'lineage');
    await orchestrator.delete(gone);
    await refused(call(gone.id), 'NOT_FOUND');
    await orchestrator.deleteSnapshot(goneSnapshot);
    await refused(call(goneSnapshot), 'NOT_FOUND');
  });
}

const ACCEPTED: Readonly<Record<string, (id: string) => Promise<unknown>>> = {
  'DV2: DeleteVolume': (volume_id) => running.client.controller.DeleteVolume({ volume_id }),
  'DS2: DeleteSnapshot': (snapshot_id) => running.client.controller.DeleteSnapshot({ snapshot_id }),
  'CU4: ControllerUnpublishVolume': (volume_id) =>
    running.client.controller.ControllerUnpublishVolume({ volume_id, node_id: 'nobody' }),
  'GD2: DeleteVolumeGroupSnapshot': (group_snapshot_id) =>
    running.client.groups.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids: ['other'] }),
  'GD2: DeleteVolumeGroupSnapshot without members': (group_snapshot_id) =>
    running.client.groups.DeleteVolumeGroupSnapshot({ group_snapshot_id }),
};
for (const [title, call] of Object.entries(ACCEPTED)) {
  test(`${title} of an id that names nothing is OK and deletes nothing`, async () => {
    for (const id of IDS) await call(id);
    assert.deepEqual(await running.orchestrator.volumeIds(), [volumeId]);
    assert.deepEqual(await running.orchestrator.snapshotIds(), [snapshotId]);
  });
}

test('a list of an id that names nothing is empty', async () => {
  for (const id of [...IDS, volumeId]) {
    const empty = { entries: [], next_token: '' };
    const { controller } = running.client;
    assert.deepEqual(await controller.ListSnapshots({ snapshot_id: id }), empty);
    if (id === volumeId) continue;
    assert.deepEqual(await controller.ListSnapshots({ source_volume_id: id }), empty);
  }
});

test('DV2, DS2: the id of a snapshot deletes no volume, and that of a volume no snapshot', async () => {
  const { controller } = running.client;
  await controller.DeleteVolume({ volume_id: snapshotId });
  await controller.DeleteSnapshot({ snapshot_id: volumeId });
  assert.deepEqual(await running.orchestrator.volumeIds(), [volumeId]);
  assert.deepEqual(await running.orchestrator.snapshotIds(), [snapshotId]);
});

test('DV2, DS2: what was deleted can be deleted again, also after a restart, and its name is free', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('twice');
  const snapshotId = await orchestrator.snapshot(volume, 'twice');
  const remove = async (): Promise<void> => {
    await orchestrator.deleteSnapshot(snapshotId);
    await orchestrator.delete(volume);
  };
  for (let repeat = 0; repeat < 2; repeat += 1) await remove();
  await running.restart();
  await remove();
  const next = await orchestrator.create('twice', { sizeBytes: 9 << 20 });
  assert.notEqual(next.id, volume.id);
  const again = await orchestrator.snapshot(next, 'twice');
  assert.notEqual(again, snapshotId);
  await orchestrator.deleteSnapshot(again);
  await orchestrator.delete(next);
});
