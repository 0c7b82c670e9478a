/** ControllerGetVolume and GetSnapshot: one object, as in the lists. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin('get', { pools: ['main'] });
const { orchestrator } = running;
const controller = () => running.client.controller;

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

test('GV4: the status has the condition of the volume, in a list too', async () => {
  const volume = await orchestrator.create('healthy');
  const { status } = await controller().ControllerGetVolume({ volume_id: volume.id });
  assert.equal(status.volume_condition.abnormal, false);
  assert.notEqual(status.volume_condition.message, '');
  const { entries } = await controller().ListVolumes({});
  assert.deepEqual(entries[0].status, status);
  await orchestrator.delete(volume);
});

test('GS4, LS7: a snapshot is reported as by CreateSnapshot, alone and in a list, until it is deleted', async () => {
  const volume = await orchestrator.create('source');
  const { snapshot } = await controller().CreateSnapshot({
    source_volume_id: volume.id,
    name: 'told',
  });
  const get = () => controller().GetSnapshot({ snapshot_id: snapshot.snapshot_id });
  assert.deepEqual((await get())['snapshot'], snapshot);
  const { snapshot_id } = snapshot;
  const { entries } = await controller().ListSnapshots({ snapshot_id });
  assert.deepEqual(entries, [{ snapshot }]);
  await orchestrator.delete(volume);
  assert.deepEqual((await get())['snapshot'], snapshot, 'also without its volume');
  await orchestrator.deleteSnapshot(snapshot.snapshot_id);
  await refused(get(), 'NOT_FOUND');
});
