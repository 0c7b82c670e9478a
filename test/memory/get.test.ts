/** ControllerGetVolume and GetSnapshot: one object, as in the lists. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin('get', { pools: ['main'] });
const { orchestrator } = running;
const controller = () => running.client.controller;
const FOREIGN_IDS = ['none-exist-id', '../pool-id', '/', "' OR 1=1 --", 'i'.repeat(128)];

test('GV1: ControllerGetVolume without an id is INVALID_ARGUMENT', async () => {
  await refused(controller().ControllerGetVolume({}), 'INVALID_ARGUMENT', /^volume_id /);
});

test('GV2: ControllerGetVolume of an unknown id of any form is NOT_FOUND', async () => {
  for (const volume_id of FOREIGN_IDS) {
    await refused(controller().ControllerGetVolume({ volume_id }), 'NOT_FOUND');
  }
});

test('GV2: a volume that was deleted is NOT_FOUND, also while snapshots keep its lineage', async () => {
  const volume = await orchestrator.create('gone');
  const snapshotId = await orchestrator.snapshot(volume, 'kept');
  await orchestrator.delete(volume);
  const call = controller().ControllerGetVolume({ volume_id: volume.id });
  await refused(call, 'NOT_FOUND', /does not exist/);
  await orchestrator.deleteSnapshot(snapshotId);
});

test('GV3, LV8: a volume is reported as by CreateVolume and ListVolumes, with its status', async () => {
  const { volume } = await controller().CreateVolume(createRequest('told'));
  const answer = await controller().ControllerGetVolume({ volume_id: volume.volume_id });
  assert.deepEqual(answer['volume'], volume);
  assert.notEqual(answer['status'], null);
  assert.deepEqual(answer['status'].published_node_ids, []);
  const { entries } = await controller().ListVolumes({});
  assert.deepEqual(entries, [answer]);
  await controller().DeleteVolume({ volume_id: volume.volume_id });
});

test('LV7, GV4: the status has the condition of the volume, in a list too', async () => {
  const volume = await orchestrator.create('healthy');
  const { status } = await controller().ControllerGetVolume({ volume_id: volume.id });
  assert.equal(status.volume_condition.abnormal, false);
  assert.notEqual(status.volume_condition.message, '');
  const { entries } = await controller().ListVolumes({});
  assert.deepEqual(entries[0].status, status);
  await orchestrator.delete(volume);
});

test('GS1: GetSnapshot without an id is INVALID_ARGUMENT', async () => {
  await refused(controller().GetSnapshot({}), 'INVALID_ARGUMENT', /^snapshot_id /);
});

test('GS2: GetSnapshot of an unknown id of any form is NOT_FOUND', async () => {
  for (const snapshot_id of FOREIGN_IDS) {
    await refused(controller().GetSnapshot({ snapshot_id }), 'NOT_FOUND');
  }
});

test('GS2, GS3: a snapshot is reported as by CreateSnapshot until it is deleted', async () => {
  const volume = await orchestrator.create('source');
  const { snapshot } = await controller().CreateSnapshot({
    source_volume_id: volume.id,
    name: 'told',
  });
  const get = () => controller().GetSnapshot({ snapshot_id: snapshot.snapshot_id });
  assert.deepEqual((await get())['snapshot'], snapshot);
  assert.equal(snapshot.ready_to_use, true);
  assert.equal(snapshot.group_snapshot_id, '');
  await orchestrator.delete(volume);
  assert.deepEqual((await get())['snapshot'], snapshot, 'also without its volume');
  await orchestrator.deleteSnapshot(snapshot.snapshot_id);
  await refused(get(), 'NOT_FOUND');
});

test('GS4, LS1: members of a group are reported with their group, alone and in the list', async () => {
  const volumes = [await orchestrator.create('one'), await orchestrator.create('two')];
  const { group_snapshot: group } = await running.client.groups.CreateVolumeGroupSnapshot({
    name: 'group',
    source_volume_ids: volumes.map(({ id }) => id),
  });
  const { group_snapshot_id } = group;
  const snapshot_ids = group.snapshots.map((member: Message) => member['snapshot_id']);
  for (const member of group.snapshots) {
    assert.equal(member.group_snapshot_id, group_snapshot_id);
    const { snapshot_id } = member;
    assert.deepEqual((await controller().GetSnapshot({ snapshot_id }))['snapshot'], member);
    const { entries } = await controller().ListSnapshots({ snapshot_id });
    assert.deepEqual(entries, [{ snapshot: member }]);
  }
  await running.client.groups.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('G7, G8: secrets are checked for their form and otherwise ignored', async () => {
  const secrets = { 'not a key!': 'value' };
  const call = controller().GetSnapshot({ snapshot_id: 'none-exist-id', secrets });
  await refused(call, 'INVALID_ARGUMENT', /^secrets /);
});
