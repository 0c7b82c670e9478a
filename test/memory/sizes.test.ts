/** CreateVolume and GetCapacity: which size a volume gets, and which capacity is left. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const GIB = 1024 * MIB;

interface SizeCase {
  title: string;
  range: Message | null;
  capability?: Message;
  /** The size given, or the status of the refusal. */
  outcome: number | 'INVALID_ARGUMENT' | 'OUT_OF_RANGE' | 'RESOURCE_EXHAUSTED';
}

const exactly = (bytes: number): Message => ({ required_bytes: bytes, limit_bytes: bytes });
const EXT4 = mountCapability('ext4');
const XFS = mountCapability('xfs');
const BTRFS = mountCapability('btrfs');

const CASES: readonly SizeCase[] = [
  { title: 'CV7: no range gives 1 GiB', range: null, outcome: GIB },
  { title: 'CV6: an exact size is used as it is', range: exactly(5 * MIB), outcome: 5 * MIB },
  { title: 'CV6: required alone is given', range: { required_bytes: 7 * MIB }, outcome: 7 * MIB },
  {
    title: 'CV6: required is rounded up to whole blocks of 4 KiB',
    range: { required_bytes: 5 * MIB + 1 },
    outcome: 5 * MIB + 4096,
  },
  {
    title: 'CV6: rounding up does not pass the limit',
    range: { required_bytes: 5 * MIB + 1, limit_bytes: 5 * MIB + 4096 },
    outcome: 5 * MIB + 4096,
  },
  {
    title: 'CV6: no whole block between required and limit is OUT_OF_RANGE',
    range: exactly(5 * MIB + 1),
    outcome: 'OUT_OF_RANGE',
  },
  {
    title: 'CV6: a limit alone is used as the size',
    range: { limit_bytes: 64 * MIB },
    outcome: 64 * MIB,
  },
  {
    title: 'CV6: a limit alone that is not a whole block is rounded down',
    range: { limit_bytes: 64 * MIB + 4095 },
    outcome: 64 * MIB,
  },
  {
    title: 'CV6: a large limit alone gives 1 GiB',
    range: { limit_bytes: 100 * GIB },
    outcome: GIB,
  },
  {
    title: 'CV8: a limit below the minimum',
    range: { limit_bytes: 4096 },
    outcome: 'OUT_OF_RANGE',
  },
  { title: 'CV8: the minimum of a block volume', range: exactly(MIB), outcome: MIB },
  { title: 'CV6: required below the minimum', range: { required_bytes: 1 }, outcome: MIB },
  {
    title: 'CV8: less than ext4 takes',
    range: exactly(15 * MIB),
    capability: EXT4,
    outcome: 'OUT_OF_RANGE',
  },
  {
    title: 'CV8: the least ext4 takes',
    range: exactly(16 * MIB),
    capability: EXT4,
    outcome: 16 * MIB,
  },
  {
    title: 'CV8: less than ext4, the default, takes',
    range: exactly(15 * MIB),
    capability: mountCapability(),
    outcome: 'OUT_OF_RANGE',
  },
  {
    title: 'CV8: less than xfs takes',
    range: exactly(300 * MIB - 4096),
    capability: XFS,
    outcome: 'OUT_OF_RANGE',
  },
  {
    title: 'CV8: the least xfs takes',
    range: exactly(300 * MIB),
    capability: XFS,
    outcome: 300 * MIB,
  },
  {
    title: 'CV6: required below what xfs takes, without a limit',
    range: { required_bytes: MIB },
    capability: XFS,
    outcome: 300 * MIB,
  },
  {
    title: 'CV8: less than a btrfs can grow to',
    range: exactly(256 * MIB - 4096),
    capability: BTRFS,
    outcome: 'OUT_OF_RANGE',
  },
  {
    title: 'CV8: the least btrfs takes',
    range: exactly(256 * MIB),
    capability: BTRFS,
    outcome: 256 * MIB,
  },
  { title: 'CV8: more than the pool', range: exactly(100 * GIB), outcome: 'OUT_OF_RANGE' },
  {
    title: 'CV8: more than any pool',
    range: { required_bytes: '9223372036854775807' },
    outcome: 'OUT_OF_RANGE',
  },
  { title: 'a range without bounds', range: {}, outcome: 'INVALID_ARGUMENT' },
  {
    title: 'required over limit',
    range: { required_bytes: 2 * MIB, limit_bytes: MIB },
    outcome: 'INVALID_ARGUMENT',
  },
  { title: 'a negative size', range: { required_bytes: -1 }, outcome: 'INVALID_ARGUMENT' },
  {
    title: 'a negative limit',
    range: { required_bytes: MIB, limit_bytes: -1 },
    outcome: 'INVALID_ARGUMENT',
  },
];

const running = runMemoryPlugin('sizes', { pools: ['main'] });
const { orchestrator } = running;
const capacity = async (request: Message = {}): Promise<number> => {
  const answer = await running.client.controller.GetCapacity(request);
  return Number(answer['available_capacity']);
};

for (const { title, range, capability, outcome } of CASES) {
  const shown = typeof outcome === 'number' ? `gives ${outcome} bytes` : `is ${outcome}`;
  test(`${title} ${shown}`, async () => {
    const request = {
      name: title,
      capacity_range: range,
      volume_capabilities: [capability ?? blockCapability()],
    };
    const call = running.client.controller.CreateVolume(request);
    if (typeof outcome === 'string') {
      await refused(call, outcome, /capacity_range/);
      return;
    }
    const { volume } = await call;
    assert.equal(Number(volume.capacity_bytes), outcome);
    const stored = running.storages.get('main')?.volumes.get(volume.volume_id);
    assert.equal(Number(stored?.sizeBytes), outcome);
    await running.client.controller.DeleteVolume({ volume_id: volume.volume_id });
  });
}

test('CV22: more than is left is RESOURCE_EXHAUSTED and leaves nothing behind', async () => {
  const before = await capacity();
  const first = await orchestrator.create('first half', { sizeBytes: 1280 * MIB });
  const call = orchestrator.create('second half', { sizeBytes: 1280 * MIB });
  await refused(call, 'RESOURCE_EXHAUSTED', /'main'/);
  assert.deepEqual(await orchestrator.volumeIds(), [first.id]);
  await orchestrator.delete(first);
  assert.equal(await capacity(), before);
  // The name of the refused volume is free, also for another size.
  await orchestrator.delete(await orchestrator.create('second half'));
});

test('CV22: concurrent callers never get more than the pool has', async () => {
  const before = await capacity();
  const sizeBytes = Math.floor(before / 3 / MIB) * MIB;
  const calls = Array.from({ length: 8 }, (_, index) =>
    orchestrator.create(`rush ${index}`, { sizeBytes }),
  );
  const made = (await Promise.allSettled(calls)).flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  );
  for (const volume of made) await orchestrator.delete(volume);
  assert.ok(made.length <= 3, `${made.length} volumes of a third of the pool each were made`);
  assert.equal(await capacity(), before);
});

test('GC1, GC5, GC6: the capacity that GetCapacity returns can be created, and no byte more', async () => {
  const answer = await running.client.controller.GetCapacity({});
  const available = Number(answer['available_capacity']);
  assert.ok(available > 0);
  assert.equal(Number(answer['maximum_volume_size'].value), available);
  const minimum = Number(answer['minimum_volume_size'].value);
  const over = { name: 'over', volume_capabilities: [blockCapability()] };
  const call = running.client.controller.CreateVolume({
    ...over,
    capacity_range: { required_bytes: available + 1 },
  });
  await refused(call, ['RESOURCE_EXHAUSTED', 'OUT_OF_RANGE']);
  for (const sizeBytes of [available, minimum]) {
    const volume = await orchestrator.create(`promised ${sizeBytes}`, { sizeBytes });
    await orchestrator.delete(volume);
  }
});

test('GC1: the capacity falls by what volumes may still claim', async () => {
  const before = await capacity();
  const volume = await orchestrator.create('claim', { sizeBytes: 100 * MIB });
  const during = await capacity();
  assert.ok(before - during >= 100 * MIB - MIB && before - during <= 102 * MIB);
  await orchestrator.delete(volume);
  assert.equal(await capacity(), before);
});

test('GC2: unsupported capabilities have no capacity', async () => {
  const many = blockCapability('MULTI_NODE_MULTI_WRITER');
  assert.equal(await capacity({ volume_capabilities: [many] }), 0);
  assert.equal(await capacity({ volume_capabilities: [mountCapability('ntfs')] }), 0);
  const flags = { mount: { mount_flags: ['bind'] }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  assert.equal(await capacity({ volume_capabilities: [flags] }), 0);
  assert.ok((await capacity({ volume_capabilities: [EXT4, blockCapability()] })) > 0);
});

test('GC6: the minimum is the smallest limit_bytes that all the capabilities can have', async () => {
  for (const [capability, minimum] of [
    [blockCapability(), MIB],
    [EXT4, 16 * MIB],
    [mountCapability(), 16 * MIB],
    [XFS, 300 * MIB],
  ] as const) {
    const request = { volume_capabilities: [capability] };
    const answer = await running.client.controller.GetCapacity(request);
    assert.equal(Number(answer['minimum_volume_size'].value), minimum);
    const create = { ...request, name: 'minimum' };
    const { controller } = running.client;
    const under = controller.CreateVolume({
      ...create,
      capacity_range: { limit_bytes: minimum - 1 },
    });
    await refused(under, 'OUT_OF_RANGE');
    const { volume } = await controller.CreateVolume({
      ...create,
      capacity_range: { limit_bytes: minimum },
    });
    await controller.DeleteVolume({ volume_id: volume.volume_id });
  }
});

test('GC2: parameters that cannot be used are passed over, and CreateVolume names them', async () => {
  const whole = await capacity({ parameters: { pool: 'main' } });
  assert.ok(whole > 0);
  const { controller } = running.client;
  for (const [key, value] of [
    ['speed', 'high'],
    ['Pool', 'main'],
    ['mkfsOptions', '--no-such-option'],
    ['mountOptions', 'dev'],
    ['readAheadKiB', 'much'],
  ] as const) {
    const parameters = { [key]: value };
    assert.equal(await capacity({ parameters }), whole, key);
    const create = controller.CreateVolume({ ...createRequest('misspelt'), parameters });
    await refused(create, 'INVALID_ARGUMENT', new RegExp(`parameters\\['${key}'\\]`));
  }
});

test('GC2: a pool that this node does not have has no capacity here, and CreateVolume names it', async () => {
  const parameters = { pool: 'none' };
  assert.equal(await capacity({ parameters }), 0);
  const create = running.client.controller.CreateVolume({ ...createRequest('none'), parameters });
  await refused(create, 'INVALID_ARGUMENT', /parameters\['pool'\] is 'none'/);
});

test('a capability of unknown form is INVALID_ARGUMENT for GetCapacity too', async () => {
  const call = running.client.controller.GetCapacity({ volume_capabilities: [{ block: {} }] });
  await refused(call, 'INVALID_ARGUMENT', /^volume_capabilities\[0\]/);
});
