/** Members of group snapshots at the level of the specification that gives snapshots a topology. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';

const running = runMemoryPlugin('group-topology', {
  pools: ['main'],
  env: { BLOCKDELTA_CSI_LEVEL: '1.13' },
});

test('ID5, GA10: at level 1.13 each member of a group has the topology of its volume', async () => {
  const { orchestrator, client } = running;
  const volumes = [await orchestrator.create('first'), await orchestrator.create('second')];
  const group = await orchestrator.groupSnapshot(volumes, 'placed');
  const { group_snapshot } = await client.groups.GetVolumeGroupSnapshot({
    group_snapshot_id: group.id,
    snapshot_ids: group.snapshotIds,
  });
  const { accessible_topology: place } = await client.node.NodeGetInfo({});
  const members: Message[] = group_snapshot.snapshots;
  assert.equal(members.length, 2);
  for (const member of members) assert.deepEqual(member['accessible_topology'], [place]);
  const { entries } = await client.controller.ListSnapshots({});
  for (const { snapshot } of entries) assert.deepEqual(snapshot.accessible_topology, [place]);
  await orchestrator.deleteGroup(group);
});
