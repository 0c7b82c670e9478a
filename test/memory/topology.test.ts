/** Topology requirements: CreateVolume, CreateSnapshot, GetCapacity. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blockCapability, type Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const KEY = 'blockdelta.csi/node';
const here = { segments: { [KEY]: 'test-node' } };
const there = { segments: { [KEY]: 'another-node' } };
const zone = { segments: { [KEY]: 'test-node', 'example.com/zone': 'z1' } };

const running = runMemoryPlugin('topology', { pools: ['main'] });
const { orchestrator } = running;
const create = (name: string, accessibility_requirements: Message | null): Promise<Message> =>
  running.client.controller.CreateVolume({ ...createRequest(name), accessibility_requirements });
const remove = ({ volume }: Message): Promise<Message> =>
  running.client.controller.DeleteVolume({ volume_id: volume.volume_id });

const met: Readonly<Record<string, Message>> = {
  'CV18: a requisite list with this node': { requisite: [there, here] },
  'CV19: this node alone': { requisite: [here], preferred: [here] },
  'CV20: another node preferred to this one': {
    requisite: [there, here],
    preferred: [there, here],
  },
  'CV20: another node preferred, and none requisite': { preferred: [there] },
  'CV18: a key in other letters': {
    requisite: [{ segments: { 'blockdelta.csi/NODE': 'test-node' } }],
  },
  'CV18: a place without segments, which is everywhere': { requisite: [{ segments: {} }] },
};
for (const [label, requirement] of Object.entries(met)) {
  test(`${label} is met on this node`, async () => {
    const answer = await create(label, requirement);
    assert.deepEqual(answer['volume'].accessible_topology, [here]);
    await remove(answer);
  });
}

const unmet: Readonly<Record<string, Message>> = {
  'CV18: requisite nodes that are all others': { requisite: [there] },
  'CV19: another node alone': { requisite: [there], preferred: [there] },
  'CV18: a zone, which this node knows nothing of': { requisite: [zone] },
};
for (const [label, requirement] of Object.entries(unmet)) {
  test(`${label} is RESOURCE_EXHAUSTED, and nothing is created`, async () => {
    await refused(create('elsewhere', requirement), 'RESOURCE_EXHAUSTED', /test-node/);
    assert.deepEqual(await orchestrator.volumeIds(), []);
  });
}

const broken: Readonly<Record<string, Message>> = {
  'CV17: an empty requirement': {},
  'CV17: two empty lists': { requisite: [], preferred: [] },
  'CV21: a preferred place that is not requisite': { requisite: [here], preferred: [there] },
  'a key that is none': { requisite: [{ segments: { 'a/b/c': 'v' } }] },
  'a value that is none': { requisite: [{ segments: { [KEY]: 'a value' } }] },
};
for (const [label, requirement] of Object.entries(broken)) {
  test(`${label} is INVALID_ARGUMENT`, async () => {
    await refused(create('broken', requirement), 'INVALID_ARGUMENT', /^accessibility_requirements/);
  });
}

test('a name is taken if its volume is not in the requested topology', async () => {
  const first = await create('taken', { requisite: [here] });
  assert.deepEqual(await create('taken', { requisite: [there, here] }), first);
  assert.deepEqual(await create('taken', null), first);
  const call = create('taken', { requisite: [there] });
  await refused(call, 'ALREADY_EXISTS', /accessibility_requirements/);
  await remove(first);
});

test('a source that does not exist is NOT_FOUND, before the topology is checked', async () => {
  const call = running.client.controller.CreateVolume({
    ...createRequest('no source', { snapshotId: 'none-exist-id' }),
    accessibility_requirements: { requisite: [there] },
  });
  await refused(call, 'NOT_FOUND');
});

test('CS14: a snapshot for another topology is RESOURCE_EXHAUSTED, one for this node is taken', async () => {
  const volume = await orchestrator.create('source');
  const take = (source_volume_id: string, requisite: Message[]): Promise<Message> =>
    running.client.controller.CreateSnapshot({
      ...{ source_volume_id, name: 'placed' },
      accessibility_requirements: { requisite },
    });
  await refused(take('none-exist-id', [there]), 'NOT_FOUND');
  await refused(take(volume.id, [there]), 'RESOURCE_EXHAUSTED', /test-node/);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  const { snapshot } = await take(volume.id, [here, there]);
  assert.deepEqual(snapshot.accessible_topology, [], 'reported from 1.13 on only');
  await orchestrator.deleteSnapshot(snapshot.snapshot_id);
  await orchestrator.delete(volume);
});

test('GC3: this node has capacity and others have none', async () => {
  const available = async (accessible_topology?: Message): Promise<number> => {
    const answer = await running.client.controller.GetCapacity({
      volume_capabilities: [blockCapability()],
      ...(accessible_topology === undefined ? {} : { accessible_topology }),
    });
    return Number(answer['available_capacity']);
  };
  const everywhere = await available();
  assert.ok(everywhere > 0);
  assert.equal(await available(here), everywhere);
  assert.equal(await available({ segments: {} }), everywhere);
  assert.equal(await available(there), 0);
  assert.equal(await available(zone), 0);
  await refused(available({ segments: { '/': 'v' } }), 'INVALID_ARGUMENT', /^accessible_topology/);
});
