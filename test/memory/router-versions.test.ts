/**
 * A router before nodes that know nothing of what only routers ask, as nodes of an older version do: every call of CSI
 * works. From 0.2.0 on a nightly test does the same with the package of 0.1.0.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeKey, nodeKeyOf } from '../../src/base/csi/handles.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryCluster } from '../support/memory-cluster.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const cluster = runMemoryCluster({ servesRouters: false });
const on = (...ids: string[]): Message[] => ids.map((id) => ({ segments: { 'blockdelta.csi/node': id } }));

async function create(name: string, requirement?: Message): Promise<string> {
  const request = {
    ...createRequest(name),
    ...(requirement === undefined ? {} : { accessibility_requirements: requirement }),
  };
  return (await cluster.client.controller.CreateVolume(request))['volume'].volume_id;
}

test('a volume is made where the topology prefers it, and on any node without one', async () => {
  const all = on('node-a', 'node-b', 'node-c');
  const preferred = await create('preferred', { requisite: all, preferred: all.toReversed() });
  assert.equal(nodeKeyOf(preferred), nodeKey('node-c'));
  const again = await create('preferred', { requisite: all, preferred: all.toReversed() });
  assert.equal(again, preferred);
  await create('equal', { requisite: all });
  await create('anywhere');
});

test('every other call for a volume, its snapshots and groups of them works', async () => {
  const { client } = cluster;
  const { controller, groups, identity } = client;
  const volume_id = await create('life', { requisite: on('node-b') });
  await controller.ControllerGetVolume({ volume_id });
  await controller.ControllerExpandVolume({ volume_id, capacity_range: { required_bytes: 32 * MIB } });
  const volume_capabilities = createRequest('x')['volume_capabilities'];
  await controller.ValidateVolumeCapabilities({ volume_id, volume_capabilities });
  await controller.ControllerModifyVolume({ volume_id, mutable_parameters: { readAheadKiB: '128' } });
  const taken: string[] = [];
  for (const name of ['first', 'second']) {
    const { snapshot } = await controller.CreateSnapshot({ name, source_volume_id: volume_id });
    taken.push(snapshot.snapshot_id);
  }
  const [first = '', second = ''] = taken;
  assert.deepEqual((await client.delta(first, second)).ranges, []);
  assert.deepEqual((await client.allocated(first)).ranges, []);
  await controller.GetSnapshot({ snapshot_id: first });
  assert.equal((await controller.ListSnapshots({}))['entries'].length, 2);
  assert.ok((await controller.ListVolumes({}))['entries'].length > 0);
  assert.ok(BigInt((await controller.GetCapacity({}))['available_capacity']) > 0n);
  const wanted = { name: 'group', source_volume_ids: [volume_id] };
  const { group_snapshot_id, snapshots } = (await groups.CreateVolumeGroupSnapshot(wanted))['group_snapshot'];
  const snapshot_ids = snapshots.map(({ snapshot_id }: Message) => snapshot_id);
  await groups.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
  await groups.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
  for (const snapshot_id of taken) await controller.DeleteSnapshot({ snapshot_id });
  await controller.DeleteVolume({ volume_id });
  await refused(controller.ControllerGetVolume({ volume_id }), 'NOT_FOUND');
  for (const ask of [
    () => identity.Probe({}),
    () => identity.GetPluginCapabilities({}),
    () => controller.ControllerGetCapabilities({}),
    () => groups.GroupControllerGetCapabilities({}),
  ]) {
    await ask();
  }
});
