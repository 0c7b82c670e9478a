/** ControllerExpandVolume: which size a volume gets; what its device does is in integration/node-expand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin('expand');
const { orchestrator } = running;
const controller = () => running.client.controller;
const expand = (volume: HeldVolume, required: number, change: Message = {}): Promise<Message> =>
  controller().ControllerExpandVolume({
    volume_id: volume.id,
    capacity_range: { required_bytes: required },
    ...change,
  });
const sizeOf = async (volume: HeldVolume): Promise<number> => {
  const { volume: found } = await controller().ControllerGetVolume({ volume_id: volume.id });
  assert.equal(
    String(running.backend().storage.volumes.get(volume.id)?.sizeBytes),
    found.capacity_bytes,
  );
  return Number(found.capacity_bytes);
};
const capacity = async (): Promise<number> =>
  Number((await controller().GetCapacity({}))['available_capacity']);

const CAPABILITIES = {
  'several nodes': blockCapability('MULTI_NODE_MULTI_WRITER'),
  'an unknown file system': mountCapability('ntfs'),
  'an unknown form': { block: {} },
};
const RANGES: Readonly<Record<string, readonly ['INVALID_ARGUMENT' | 'OUT_OF_RANGE', Message]>> = {
  'a range without bounds': ['INVALID_ARGUMENT', {}],
  'a negative size': ['INVALID_ARGUMENT', { required_bytes: -1 }],
  'a negative limit': ['INVALID_ARGUMENT', { required_bytes: MIB, limit_bytes: -1 }],
  'crossing bounds': ['INVALID_ARGUMENT', { required_bytes: 10 * MIB, limit_bytes: 9 * MIB }],
  'EV4: a limit below the size': ['OUT_OF_RANGE', { limit_bytes: 8 * MIB - 1 }],
  'EV4: a range below the size': ['OUT_OF_RANGE', { required_bytes: MIB, limit_bytes: 4 * MIB }],
  'EV4: a range between two blocks': [
    'OUT_OF_RANGE',
    { required_bytes: 9 * MIB + 1, limit_bytes: 9 * MIB + 4095 },
  ],
  'EV4: more than the pool': ['OUT_OF_RANGE', { required_bytes: 100 * 1024 * MIB }],
  'EV4: more than any pool': ['OUT_OF_RANGE', { required_bytes: '9223372036854775807' }],
};
const refusals = [
  ...Object.entries(RANGES).map(([title, [code, capacity_range]]) => ({
    ...{ title, code, change: { capacity_range }, message: /^capacity_range/ },
  })),
  ...Object.entries(CAPABILITIES).map(([what, volume_capability]) => ({
    title: `EV5: a capability of ${what}`,
    ...{ code: 'INVALID_ARGUMENT' as const, change: { volume_capability } },
    message: /^volume_capability/,
  })),
];
for (const { title, code, change, message } of refusals) {
  test(`${title} is ${code}, and the volume is unchanged`, async () => {
    const volume = await orchestrator.create('refused');
    await refused(expand(volume, 9 * MIB, change), code, message);
    assert.equal(await sizeOf(volume), 8 * MIB);
    await orchestrator.delete(volume);
  });
}

test('EV3, EV8, EV9: a block volume gets the size, rounded up to 4096 bytes, and keeps it where it is large enough', async () => {
  const volume = await orchestrator.create('block');
  for (const [required_bytes, limit_bytes] of [
    [MIB, 0],
    [8 * MIB, 8 * MIB],
    [0, 9 * MIB],
  ]) {
    const answer = await expand(volume, 0, { capacity_range: { required_bytes, limit_bytes } });
    assert.equal(Number(answer['capacity_bytes']), 8 * MIB);
  }
  const first = await expand(volume, 12 * MIB + 1);
  const capacity_bytes = String(12 * MIB + 4096);
  assert.deepEqual(first, { capacity_bytes, node_expansion_required: false });
  assert.deepEqual(await expand(volume, 12 * MIB), first);
  await running.restart();
  assert.deepEqual(await expand(volume, 12 * MIB + 1), first);
  assert.equal(await sizeOf(volume), 12 * MIB + 4096);
  await orchestrator.delete(volume);
});

test('EV9: a file system volume requires node expansion, unless the capability that is given is another', async () => {
  const capability = mountCapability('ext4');
  const volume = await orchestrator.create('files', { capability, sizeBytes: 16 * MIB });
  assert.equal((await expand(volume, 32 * MIB))['node_expansion_required'], true);
  const given = await expand(volume, MIB, { volume_capability: blockCapability() });
  assert.equal(given['node_expansion_required'], false);
  await orchestrator.delete(volume);
});

test('EV7: more than the pool has left is RESOURCE_EXHAUSTED, and only the new bytes count', async () => {
  const volume = await orchestrator.create('room');
  const other = await orchestrator.create('other');
  const left = await capacity();
  await refused(expand(volume, 8 * MIB + left + 4096), 'RESOURCE_EXHAUSTED', /'main'/);
  assert.equal(await sizeOf(volume), 8 * MIB);
  await expand(volume, 8 * MIB + left);
  assert.equal(await capacity(), 0);
  await expand(volume, 8 * MIB + left);
  for (const each of [volume, other]) await orchestrator.delete(each);
});

test('EV7: concurrent expansions never get more than the pool has', async () => {
  const volumes = await Promise.all(
    Array.from({ length: 6 }, (_, index) => orchestrator.create(`rush ${index}`)),
  );
  const third = 8 * MIB + Math.floor((await capacity()) / 3 / MIB) * MIB;
  const outcomes = await Promise.allSettled(volumes.map((volume) => expand(volume, third)));
  const grown = outcomes.filter(({ status }) => status === 'fulfilled').length;
  assert.ok(grown >= 1 && grown <= 3, `${grown} volumes grew by a third of the pool each`);
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('an expanded volume is ALREADY_EXISTS for its original size, and is found by its name', async () => {
  const volume = await orchestrator.create('grown');
  await expand(volume, 12 * MIB);
  const exact = controller().CreateVolume(createRequest('grown'));
  await refused(exact, 'ALREADY_EXISTS', /capacity_range/);
  const spec = { ...createRequest('grown'), capacity_range: { required_bytes: 8 * MIB } };
  const answer = await controller().CreateVolume(spec);
  assert.equal(answer['volume'].volume_id, volume.id);
  assert.equal(Number(answer['volume'].capacity_bytes), 12 * MIB);
  await orchestrator.delete(volume);
});

test('CS11: a snapshot has the size of its volume at its time, and a list that of its target', async () => {
  const volume = await orchestrator.create('lineage');
  const small = await orchestrator.snapshot(volume, 'small');
  await expand(volume, 12 * MIB);
  const large = await orchestrator.snapshot(volume, 'large');
  assert.equal(Number((await running.client.delta(small, large)).capacity), 12 * MIB);
  const { entries } = await controller().ListSnapshots({ source_volume_id: volume.id });
  const sizes = entries.map((entry: Message) => Number(entry['snapshot'].size_bytes));
  assert.deepEqual(sizes.sort(), [8 * MIB, 12 * MIB].sort());
  for (const id of [small, large]) await orchestrator.deleteSnapshot(id);
  await orchestrator.delete(volume);
});
