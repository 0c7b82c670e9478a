/** One volume: how it is reported and logged, which capabilities are confirmed, and to which size it is expanded. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { StatusName } from '../../src/base/errors.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { logLines } from '../support/plugin-log.js';
import { decodeMessage, encodeMessage, RawConnection } from '../support/raw-call.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin({ env: { BLOCKDELTA_LOG_LEVEL: 'debug' } });
const { orchestrator } = running;
const controller = () => running.client.controller;

/** Of each test. */
let volume: HeldVolume;
beforeEach(async () => {
  volume = await orchestrator.create('volume');
});
afterEach(() => orchestrator.delete(volume));

test('GV3, GV4, LV8: a volume is reported as by CreateVolume, alone and in a list', async () => {
  const created = await controller().CreateVolume(createRequest(volume.name));
  const answer = await controller().ControllerGetVolume({ volume_id: volume.id });
  const volume_condition = { abnormal: false, message: 'the volume is healthy' };
  assert.deepEqual(answer, { ...created, status: { published_node_ids: [], volume_condition } });
  assert.deepEqual((await controller().ListVolumes({}))['entries'], [answer]);
});

const expand = (volume: HeldVolume, required: number, change: Message = {}): Promise<Message> =>
  controller().ControllerExpandVolume({
    volume_id: volume.id,
    capacity_range: { required_bytes: required },
    ...change,
  });
const size = async (): Promise<number> => {
  const { volume: found } = await controller().ControllerGetVolume({ volume_id: volume.id });
  const stored = running.backend().storage.volumes.get(volume.id)?.sizeBytes;
  assert.equal(String(stored), found.capacity_bytes);
  return Number(found.capacity_bytes);
};
const capacity = async (): Promise<number> => Number((await controller().GetCapacity({}))['available_capacity']);

/** A test of each expansion, by what is wrong with it. */
function refuses(code: StatusName, changes: Readonly<Record<string, Message>>): void {
  for (const [title, change] of Object.entries(changes)) {
    test(`${title} is ${code}, and the volume is unchanged`, async () => {
      const field = new RegExp(`^${Object.keys(change)[0]}`);
      await refused(expand(volume, 9 * MIB, change), code, field);
      assert.equal(await size(), 8 * MIB);
    });
  }
}
const between = (required_bytes: number | string, limit_bytes = 0): Message => ({
  capacity_range: { required_bytes, limit_bytes },
});

refuses('INVALID_ARGUMENT', {
  'a range without bounds': between(0),
  'a negative size': between(-1),
  'a negative limit': between(MIB, -1),
  'crossing bounds': between(10 * MIB, 9 * MIB),
  'EV5: a capability of several nodes': { volume_capability: blockCapability('MULTI_NODE_MULTI_WRITER') },
  'EV5: a capability of an unknown file system': { volume_capability: mountCapability('ntfs') },
  'EV5: a capability of an unknown form': { volume_capability: { block: {} } },
});

refuses('OUT_OF_RANGE', {
  'EV4: a limit below the size': between(0, 8 * MIB - 1),
  'EV4: a range below the size': between(MIB, 4 * MIB),
  'EV4: a range between two blocks': between(9 * MIB + 1, 9 * MIB + 4095),
  'EV4: more than the pool': between(100 * 1024 * MIB),
  'EV4: more than any pool': between('9223372036854775807'),
});

test('EV3, EV8, EV9: a block volume gets the size, rounded up to 4096 bytes, and keeps it where it is large enough', async () => {
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
  assert.equal(await size(), 12 * MIB + 4096);
  // Its name is that of a volume of the new size.
  const exact = createRequest(volume.name);
  await refused(controller().CreateVolume(exact), 'ALREADY_EXISTS', /capacity_range/);
  const least = { ...exact, capacity_range: { required_bytes: 8 * MIB } };
  const found = (await controller().CreateVolume(least))['volume'];
  assert.deepEqual([found.volume_id, found.capacity_bytes], [volume.id, capacity_bytes]);
});

test('EV9: a file system volume requires node expansion, unless the capability that is given is another', async () => {
  const spec = { capability: mountCapability('ext4'), sizeBytes: 16 * MIB };
  const mounted = await orchestrator.create('mounted', spec);
  assert.equal((await expand(mounted, 32 * MIB))['node_expansion_required'], true);
  const given = await expand(mounted, MIB, { volume_capability: blockCapability() });
  assert.equal(given['node_expansion_required'], false);
  await orchestrator.delete(mounted);
});

test('EV7: more than the pool has left is RESOURCE_EXHAUSTED, and only the new bytes count', async () => {
  const other = await orchestrator.create('other');
  const left = await capacity();
  await refused(expand(volume, 8 * MIB + left + 4096), 'RESOURCE_EXHAUSTED', /'main'/);
  assert.equal(await size(), 8 * MIB);
  await expand(volume, 8 * MIB + left);
  assert.equal(await capacity(), 0);
  await expand(volume, 8 * MIB + left);
  await orchestrator.delete(other);
});

test('EV7: concurrent expansions never get more than the pool has', async () => {
  const names = Array.from({ length: 6 }, (_, index) => `rush ${index}`);
  const volumes = await Promise.all(names.map((name) => orchestrator.create(name)));
  const third = 8 * MIB + Math.floor((await capacity()) / 3 / MIB) * MIB;
  const outcomes = await Promise.allSettled(volumes.map((volume) => expand(volume, third)));
  const grown = outcomes.filter(({ status }) => status === 'fulfilled').length;
  assert.ok(grown >= 1 && grown <= 3, `${grown} volumes grew by a third of the pool each`);
  for (const volume of volumes) await orchestrator.delete(volume);
});

const SERVED = [mountCapability('ext4'), blockCapability()];
const validate = (fields: Message): Promise<Message> =>
  controller().ValidateVolumeCapabilities({ volume_id: volume.id, volume_capabilities: SERVED, ...fields });

test('VV3, VV7: capabilities that are served are confirmed, each time', async () => {
  const answer = await validate({});
  const { volume_capabilities: confirmed, ...others } = answer['confirmed'];
  assert.deepEqual(others, { volume_context: {}, parameters: {}, mutable_parameters: {} });
  const [mount, block] = confirmed;
  assert.deepEqual([mount.mount.fs_type, mount.access_mode.mode], ['ext4', 'SINGLE_NODE_WRITER']);
  assert.deepEqual(block.block, {});
  assert.equal(answer['message'], '');
  assert.deepEqual(await validate({}), answer);
});

const WRITER = { mode: 'SINGLE_NODE_WRITER' };
const beside = (capability: Message): Message => ({ volume_capabilities: [blockCapability(), capability] });
const mounted = (mount: Message): Message => beside({ mount, access_mode: WRITER });
const UNCONFIRMED: Readonly<Record<string, Message>> = {
  'VV4: several nodes': beside(blockCapability('MULTI_NODE_MULTI_WRITER')),
  'VV4: a file system that is not served': beside(mountCapability('zfs')),
  'VV4: a very long file system type': beside(mountCapability('f'.repeat(128))),
  'VV4: a type of characters of four bytes': beside(mountCapability('🗄'.repeat(32))),
  'VV4: a type of characters of three bytes': beside(mountCapability('€'.repeat(42))),
  'VV4: a mount flag that is not listed': mounted({ mount_flags: ['bind'] }),
  'VV4: a mount group': mounted({ volume_mount_group: '1000' }),
  'VV5: the context of another volume': { volume_context: { key: 'value' } },
  'VV5: a context of characters of four bytes': { volume_context: { ['🗄'.repeat(100)]: '' } },
};
for (const [title, fields] of Object.entries(UNCONFIRMED)) {
  test(`${title} is not confirmed, and at most 128 bytes say why`, async () => {
    const { confirmed, message } = await validate(fields);
    assert.equal(confirmed, null);
    assert.ok(message !== '' && Buffer.byteLength(message) <= 128, message);
    assert.doesNotMatch(message, /\ufffd/);
    if ('volume_context' in fields) assert.match(message, /volume_context/);
  });
}

test('a capability of unknown form is INVALID_ARGUMENT', async () => {
  for (const capability of [{ block: {} }, { access_mode: WRITER }]) {
    const call = validate({ volume_capabilities: [capability] });
    await refused(call, 'INVALID_ARGUMENT', /^volume_capabilities\[0\]/);
  }
});

test('VV6: fields of a later version are not echoed as confirmed', async () => {
  const capability = encodeMessage('VolumeCapability', { block: {}, access_mode: { mode: 1 } });
  // Field 99, a varint of 1: unknown to every version so far.
  const newer = Buffer.concat([capability, Buffer.from([0x98, 0x06, 0x01])]);
  const listed = Buffer.concat([Buffer.from([0x1a, newer.length]), newer]);
  const name = 'ValidateVolumeCapabilities';
  const request = encodeMessage(`${name}Request`, { volume_id: volume.id });
  const connection = new RawConnection(running.endpoint);
  const answer = await connection
    .unary(`/csi.v1.Controller/${name}`, Buffer.concat([request, listed]))
    .finally(() => connection.close());
  assert.notEqual(decodeMessage(`${name}Response`, answer)['confirmed'], null);
  assert.ok(answer.includes(capability), 'the known fields are confirmed');
  assert.ok(!answer.includes(newer), 'the unknown field is confirmed');
});

/** The last line of a call has these fields. */
function assertLogged(method: string, fields: Message, msg = 'call ended'): void {
  const line = logLines(running.log).findLast((each) => each['method'] === method && each['msg'] === msg);
  assert.deepEqual({ ...line, ...fields }, line, `${method} ${msg}`);
}

test('lines of what is created have its id, pool and size', async () => {
  const { id: volume_id, name } = volume;
  const sizeBytes = String(volume.sizeBytes);
  const created = { level: 'info', name, volume_id, pool: 'main', sizeBytes };
  assertLogged('Controller.CreateVolume', created);
  const source = { source_volume_id: volume_id };
  const { snapshot } = await controller().CreateSnapshot({ name, ...source });
  const { snapshot_id } = snapshot;
  assertLogged('Controller.CreateSnapshot', { snapshot_id, ...source, pool: 'main', sizeBytes });
  const group = await orchestrator.groupSnapshot([volume], 'logged');
  const { id: group_snapshot_id } = group;
  const grouped = { group_snapshot_id, pool: 'main', members: 1, sizeBytes };
  assertLogged('GroupController.CreateVolumeGroupSnapshot', grouped);
  await orchestrator.deleteGroup(group);
  await orchestrator.deleteSnapshot(snapshot_id);
});

test('routine is logged at debug, a mistake of the caller at info, and a pool that is full at warn', async () => {
  await running.client.identity.Probe({});
  assertLogged('Identity.Probe', { level: 'debug' });
  await controller().GetCapacity({});
  assertLogged('Controller.GetCapacity', { level: 'debug' });
  await refused(controller().CreateVolume({ name: '' }), 'INVALID_ARGUMENT');
  assertLogged('Controller.CreateVolume', { level: 'info' }, 'call failed');
  const large = await orchestrator.create('large', { sizeBytes: 1500 * MIB });
  await refused(orchestrator.create('full', { sizeBytes: 1500 * MIB }), 'RESOURCE_EXHAUSTED');
  const full = { name: 'full', code: 'RESOURCE_EXHAUSTED', level: 'warn' };
  assertLogged('Controller.CreateVolume', full, 'call failed');
  await orchestrator.delete(large);
});
