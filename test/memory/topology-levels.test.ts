/** Topology with a configured key, a node id that is not a topology value, and at CSI level 1.13. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeKey } from '../../src/domain/identifiers.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';

const NODE_ID = 'rack:7/node';
const running = runMemoryPlugin('topology-1.13', {
  pools: ['main'],
  env: {
    BLOCKDELTA_CSI_LEVEL: '1.13',
    BLOCKDELTA_TOPOLOGY_KEY: 'example.com/host',
    BLOCKDELTA_NODE_ID: NODE_ID,
  },
});
const segments = { 'example.com/host': nodeKey(NODE_ID) };

test('the topology has the short name of a node id that is not a topology value', async () => {
  const volume = await running.orchestrator.create('placed');
  const { entries } = await running.client.controller.ListVolumes({});
  assert.deepEqual(entries[0].volume.accessible_topology, [{ segments }]);
  await running.orchestrator.delete(volume);
});

test('CV27: ids consist of this node and random bytes, so that they are unique', async () => {
  const names = ['first', 'second', 'first'];
  const ids: string[] = [];
  for (const name of names) {
    const volume = await running.orchestrator.create(name);
    assert.ok(volume.id.startsWith(`vol-${nodeKey(NODE_ID)}-`), volume.id);
    ids.push(volume.id);
    await running.orchestrator.delete(volume);
  }
  assert.equal(new Set(ids).size, names.length, 'also of one name that was free again');
});

test('from level 1.13 on the status has no condition', async () => {
  const volume = await running.orchestrator.create('status');
  const get = { volume_id: volume.id };
  const { status } = await running.client.controller.ControllerGetVolume(get);
  assert.deepEqual(status, { published_node_ids: [], volume_condition: null });
  const { entries } = await running.client.controller.ListVolumes({});
  assert.deepEqual(entries[0].status, status);
  await running.orchestrator.delete(volume);
});

test('from level 1.13 on a snapshot reports where it can be used', async () => {
  const { orchestrator, client } = running;
  const volume = await orchestrator.create('source');
  const snapshotId = await orchestrator.snapshot(volume, 'placed');
  const { snapshot } = await client.controller.GetSnapshot({ snapshot_id: snapshotId });
  assert.deepEqual(snapshot.accessible_topology, [{ segments }]);
  const { entries } = await client.controller.ListSnapshots({});
  assert.deepEqual(entries[0].snapshot, snapshot);
  await orchestrator.deleteSnapshot(snapshotId);
  await orchestrator.delete(volume);
});
