/** ControllerExpandVolume: volumes in use and not, sizes, capacity, and kills on the way. */
import assert from 'node:assert/strict';
import { readFileSync, statSync, truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { seededBytes } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('expand', { pools: { main: 'xfs', other: 'btrfs' } });
const { orchestrator } = running;
const controller = () => running.client.controller;
const request = (volume: HeldVolume, required: number, change: Message = {}): Message => ({
  volume_id: volume.id,
  capacity_range: { required_bytes: required },
  ...change,
});
const expand = (volume: HeldVolume, required: number, change: Message = {}): Promise<Message> =>
  controller().ControllerExpandVolume(request(volume, required, change));
const sizeOf = async (volume: HeldVolume): Promise<number> => {
  const answer = await controller().ControllerGetVolume({ volume_id: volume.id });
  return Number(answer['volume'].capacity_bytes);
};
const capacity = async (): Promise<number> =>
  Number((await controller().GetCapacity({}))['available_capacity']);
const file = (volume: HeldVolume, pool = 'main'): string =>
  running.poolPath(pool, 'volumes', volume.id);

test('EV1: each required field that is missing is INVALID_ARGUMENT and named', async () => {
  const range = { required_bytes: MIB };
  const noId = controller().ControllerExpandVolume({ capacity_range: range });
  await refused(noId, 'INVALID_ARGUMENT', /^volume_id /);
  const noRange = controller().ControllerExpandVolume({ volume_id: 'none-exist-id' });
  await refused(noRange, 'INVALID_ARGUMENT', /^capacity_range /);
});

test('EV2: an unknown volume is NOT_FOUND, before values are checked', async () => {
  for (const volume_id of ['none-exist-id', '../pool-id', 'i'.repeat(128)]) {
    const call = controller().ControllerExpandVolume({ volume_id, capacity_range: {} });
    await refused(call, 'NOT_FOUND');
  }
});

test('G4, G6: an invalid range is INVALID_ARGUMENT, and the volume is unchanged', async () => {
  const volume = await orchestrator.create('ranges');
  for (const capacity_range of [
    {},
    { required_bytes: -1 },
    { required_bytes: MIB, limit_bytes: -1 },
    { required_bytes: 10 * MIB, limit_bytes: 9 * MIB },
  ]) {
    await refused(expand(volume, 0, { capacity_range }), 'INVALID_ARGUMENT', /^capacity_range/);
  }
  assert.equal(await sizeOf(volume), 8 * MIB);
  await orchestrator.delete(volume);
});

for (const pool of ['main', 'other']) {
  test(`EV8, EV9: a published block volume on ${pool} grows while in use, and the new part reads as zeros`, async () => {
    const volume = await orchestrator.create(`online ${pool}`, { parameters: { pool } });
    const target = await orchestrator.bringUp(volume);
    const bytes = seededBytes('a volume in use', 8 * MIB);
    const device = await open(target, 'r+');
    await device.write(bytes, 0, bytes.length, 0);
    const answer = await expand(volume, 20 * MIB);
    assert.deepEqual(answer, {
      capacity_bytes: String(20 * MIB),
      node_expansion_required: false,
    });
    await device.write(Buffer.from('in the new part'), 0, 15, 19 * MIB);
    await device.sync();
    await device.close();
    const found = readFileSync(target);
    assert.equal(found.length, 20 * MIB);
    assert.ok(found.subarray(0, 8 * MIB).equals(bytes));
    assert.ok(found.subarray(8 * MIB, 19 * MIB).equals(Buffer.alloc(11 * MIB)));
    assert.equal(statSync(file(volume, pool)).size, 20 * MIB);
    assert.equal(await sizeOf(volume), 20 * MIB);
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  });
}

test('EV8, EV9: a file system volume requires node expansion', async () => {
  const capability = mountCapability('ext4');
  const volume = await orchestrator.create('files', { capability, sizeBytes: 16 * MIB });
  for (const bring of [async () => undefined, () => orchestrator.bringUp(volume)]) {
    await bring();
    const wanted = (await sizeOf(volume)) + 16 * MIB;
    const answer = await expand(volume, wanted);
    assert.equal(Number(answer['capacity_bytes']), wanted);
    assert.equal(answer['node_expansion_required'], true);
  }
  const given = await expand(volume, MIB, { volume_capability: blockCapability() });
  assert.equal(given['node_expansion_required'], false, 'the capability that is given counts');
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('EV3: a volume that is large enough is unchanged, and each answer has its real size', async () => {
  const volume = await orchestrator.create('large enough');
  for (const [required, limit] of [
    [MIB, 0],
    [8 * MIB, 8 * MIB],
    [0, 9 * MIB],
  ] as const) {
    const capacity_range = { required_bytes: required, limit_bytes: limit };
    const answer = await expand(volume, 0, { capacity_range });
    assert.equal(Number(answer['capacity_bytes']), 8 * MIB);
  }
  const first = await expand(volume, 12 * MIB);
  assert.deepEqual(await expand(volume, 12 * MIB), first);
  await running.crash();
  assert.deepEqual(await expand(volume, 12 * MIB), first);
  await orchestrator.delete(volume);
});

test('EV4: a size below the current one, between two block sizes, or beyond the pool is OUT_OF_RANGE', async () => {
  const volume = await orchestrator.create('out of range');
  for (const capacity_range of [
    { limit_bytes: 8 * MIB - 1 },
    { required_bytes: MIB, limit_bytes: 4 * MIB },
    { required_bytes: 9 * MIB + 1, limit_bytes: 9 * MIB + 4095 },
    { required_bytes: 100 * 1024 * MIB },
    { required_bytes: '9223372036854775807' },
  ]) {
    await refused(expand(volume, 0, { capacity_range }), 'OUT_OF_RANGE', /^capacity_range/);
  }
  assert.equal(await sizeOf(volume), 8 * MIB);
  assert.equal(statSync(file(volume)).size, 8 * MIB);
  const rounded = await expand(volume, 9 * MIB + 1);
  assert.equal(Number(rounded['capacity_bytes']), 9 * MIB + 4096);
  await orchestrator.delete(volume);
});

test('EV5: an unsupported capability is INVALID_ARGUMENT, and the volume is unchanged', async () => {
  const volume = await orchestrator.create('capability');
  for (const volume_capability of [
    blockCapability('MULTI_NODE_MULTI_WRITER'),
    mountCapability('ntfs'),
    { block: {} },
  ]) {
    const call = expand(volume, 9 * MIB, { volume_capability });
    await refused(call, 'INVALID_ARGUMENT', /^volume_capability/);
  }
  assert.equal(await sizeOf(volume), 8 * MIB);
  await orchestrator.delete(volume);
});

test('EV7: more than the pool has left is RESOURCE_EXHAUSTED, and only the new bytes count', async () => {
  const volume = await orchestrator.create('room');
  const left = await capacity();
  const over = 8 * MIB + left + 4096;
  await refused(expand(volume, over), 'RESOURCE_EXHAUSTED', /'main'/);
  assert.equal(await sizeOf(volume), 8 * MIB);
  await expand(volume, 8 * MIB + left);
  assert.equal(await capacity(), 0);
  await expand(volume, 8 * MIB + left);
  await orchestrator.delete(volume);
});

test('EV7: concurrent expansions never get more than the pool has', async () => {
  const volumes = await Promise.all(
    Array.from({ length: 6 }, (_, index) => orchestrator.create(`rush ${index}`)),
  );
  const before = await capacity();
  const third = 8 * MIB + Math.floor(before / 3 / MIB) * MIB;
  const outcomes = await Promise.allSettled(volumes.map((volume) => expand(volume, third)));
  const grown = outcomes.filter(({ status }) => status === 'fulfilled').length;
  assert.ok(grown >= 1 && grown <= 3, `${grown} volumes grew by a third of the pool each`);
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('CV3: an expanded volume is ALREADY_EXISTS for its original size, and is found by its name', async () => {
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

test('G13: after a kill between growing the file and updating the record the volume has the larger size', async () => {
  const volume = await orchestrator.create('killed');
  await orchestrator.bringUp(volume);
  await running.plugin.kill();
  // What the expansion does first.
  truncateSync(file(volume), 16 * MIB);
  await running.start();
  assert.equal(await sizeOf(volume), 16 * MIB);
  const started = running.plugin.log.split('\n').find((line) => line.includes('"reconciled"'));
  const { finished, differences } = JSON.parse(started ?? '{}');
  assert.deepEqual(differences, []);
  assert.deepEqual(finished, [`expansion of volume ${volume.id} to ${16 * MIB} bytes`]);
  assert.equal(readFileSync(volume.targetPath).length, 16 * MIB, 'its device has grown as well');
  assert.equal(Number((await expand(volume, 16 * MIB))['capacity_bytes']), 16 * MIB);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('a snapshot and a clone of a volume that has grown have its new size', async () => {
  const volume = await orchestrator.create('lineage');
  const small = await orchestrator.snapshot(volume, 'small');
  await expand(volume, 12 * MIB);
  const large = await orchestrator.snapshot(volume, 'large');
  const { capacity: listed } = await running.client.delta(small, large);
  assert.equal(Number(listed), 12 * MIB);
  const { entries } = await controller().ListSnapshots({ source_volume_id: volume.id });
  const sizes = entries.map((entry: Message) => Number(entry['snapshot'].size_bytes));
  assert.deepEqual(sizes.sort(), [8 * MIB, 12 * MIB].sort());
  for (const id of [small, large]) await orchestrator.deleteSnapshot(id);
  await orchestrator.delete(volume);
});
