/** ControllerPublishVolume and ControllerUnpublishVolume, where they are switched on. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { MemoryPlugin, runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldVolume } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const NODE = 'test-node';
const MAXIMUM = 3;

const running = runMemoryPlugin({
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on', BLOCKDELTA_MAX_VOLUMES_PER_NODE: String(MAXIMUM) },
});
const { orchestrator } = running;
const controller = () => running.client.controller;
const publish = (volume: HeldVolume, change: Message = {}): Promise<Message> =>
  controller().ControllerPublishVolume({
    volume_id: volume.id,
    node_id: NODE,
    volume_capability: volume.capability,
    ...change,
  });
const unpublish = (volume: HeldVolume, node_id = NODE): Promise<Message> =>
  controller().ControllerUnpublishVolume({ volume_id: volume.id, node_id });
async function nodesOf(volume: HeldVolume): Promise<string[]> {
  const { status } = await controller().ControllerGetVolume({ volume_id: volume.id });
  const { entries } = await controller().ListVolumes({});
  const listed = entries.find((entry: Message) => entry['volume'].volume_id === volume.id);
  assert.deepEqual(listed.status.published_node_ids, status.published_node_ids);
  return status.published_node_ids;
}

/** Of each test, and held by nobody in the end. */
let volume: HeldVolume;
beforeEach(async () => {
  volume = await orchestrator.create('volume');
});
afterEach(async () => {
  await unpublish(volume, '');
  await orchestrator.delete(volume);
});

test('CP3, CP9, CP10: what cannot be published on this node is refused', async () => {
  for (const node_id of ['nobody', 'Test-Node', 'n'.repeat(256)]) {
    await refused(publish(volume, { node_id }), 'NOT_FOUND', /test-node only/);
  }
  for (const [field, change] of [
    [/one node|own node/, { volume_capability: blockCapability('MULTI_NODE_MULTI_WRITER') }],
    [/^volume_capability/, { volume_capability: { block: {} } }],
    [/^volume_context /, { volume_context: { key: 'value' } }],
  ] as const) {
    await refused(publish(volume, change), 'INVALID_ARGUMENT', field);
  }
  assert.deepEqual(await nodesOf(volume), []);
});

test('CP4, CP5, CP8, CP11: publishing again answers the same, in another way it is ALREADY_EXISTS, and the volume stays', async () => {
  const first = await publish(volume);
  assert.deepEqual(first, { publish_context: {} });
  assert.deepEqual(await publish(volume), first);
  await running.restart();
  assert.deepEqual(await publish(volume), first);
  await refused(publish(volume, { readonly: true }), 'ALREADY_EXISTS', /readonly/);
  for (const capability of [mountCapability(), blockCapability('SINGLE_NODE_READER_ONLY')]) {
    const call = publish(volume, { volume_capability: capability });
    await refused(call, 'ALREADY_EXISTS', /volume_capability/);
  }
  const message = /published on node test-node/;
  await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', message);
  assert.deepEqual(await nodesOf(volume), [NODE]);
});

test('CP7: a node at its maximum accepts no more volumes until one is unpublished', async () => {
  const volumes: HeldVolume[] = [];
  for (let index = 0; index <= MAXIMUM; index += 1) {
    volumes.push(await orchestrator.create(`maximum ${index}`));
  }
  const outcomes = await Promise.allSettled(volumes.map((volume) => publish(volume)));
  const late = volumes.filter((_, index) => outcomes[index]?.status === 'rejected');
  assert.equal(late.length, 1, 'of several at once no more than fit');
  for (const volume of late) await refused(publish(volume), 'RESOURCE_EXHAUSTED', /3/);
  const published = volumes.filter((volume) => !late.includes(volume));
  for (const volume of published) await publish(volume);
  for (const volume of published.slice(0, 1)) await unpublish(volume);
  for (const volume of late) await publish(volume);
  for (const volume of volumes) {
    await unpublish(volume);
    await orchestrator.delete(volume);
  }
});

test('CU2, CU3, LV6: the lists name the node until it, or every node, is unpublished', async () => {
  const other = await orchestrator.create('not listed');
  for (const node_id of [NODE, '']) {
    await unpublish(volume, node_id);
    assert.deepEqual(await nodesOf(volume), []);
    await publish(volume);
    await unpublish(volume, 'nobody');
    assert.deepEqual(await nodesOf(volume), [NODE], 'another node is another matter');
    assert.deepEqual(await nodesOf(other), []);
    await unpublish(volume, node_id);
  }
  assert.deepEqual(await nodesOf(volume), []);
  await orchestrator.delete(other);
});

test('a volume deleted and recreated under its name is not published', async () => {
  const first = await orchestrator.create('reused');
  await publish(first);
  await unpublish(first);
  await orchestrator.delete(first);
  const second = await orchestrator.create('reused');
  assert.deepEqual(await nodesOf(second), []);
  await orchestrator.delete(second);
});

test('what was published before publishing was switched off blocks nothing', async (t) => {
  const env: Record<string, string> = { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' };
  const switched = new MemoryPlugin({ env });
  t.after(() => switched.stop());
  await switched.start();
  const { volume } = await switched.client.controller.CreateVolume(createRequest('switched'));
  const { volume_id } = volume;
  const publication = { volume_id, node_id: NODE, volume_capability: blockCapability() };
  await switched.client.controller.ControllerPublishVolume(publication);
  await switched.stop();
  env['BLOCKDELTA_CONTROLLER_PUBLISH'] = 'off';
  await switched.start();
  const { controller } = switched.client;
  const { entries } = await controller.ListVolumes({});
  assert.deepEqual(entries[0].status.published_node_ids, []);
  await refused(controller.ControllerPublishVolume(publication), 'UNIMPLEMENTED');
  await refused(controller.ControllerUnpublishVolume(publication), 'UNIMPLEMENTED');
  await controller.DeleteVolume({ volume_id });
});
