/** CreateSnapshot, DeleteSnapshot, DeleteVolume with snapshots, and volumes made from snapshots and volumes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError } from '../../src/base/errors.js';
import { blockCapability, type Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const BLOCK = 4096;
const running = runMemoryPlugin('snapshots', {
  pools: ['main', 'other'],
  prepare: async () => {
    source = await orchestrator.create('source');
  },
});
const { orchestrator } = running;
const controller = () => running.client.controller;
const take = (request: Message): Promise<Message> => controller().CreateSnapshot(request);
const create = (request: Message): Promise<Message> => controller().CreateVolume(request);
let source: HeldVolume;

test('CS10: the answer has the id, source, size and creation time, and is ready', async () => {
  const before = Date.now();
  const { snapshot } = await take({ source_volume_id: source.id, name: 'answer' });
  const after = Date.now();
  const { seconds, nanos } = snapshot.creation_time;
  const time = Number(seconds) * 1000 + nanos / 1e6;
  assert.ok(time >= before - 1 && time <= after + 1, `${before} ${time} ${after}`);
  assert.deepEqual(snapshot, {
    size_bytes: String(source.sizeBytes),
    snapshot_id: snapshot.snapshot_id,
    source_volume_id: source.id,
    creation_time: { seconds, nanos },
    ready_to_use: true,
    group_snapshot_id: '',
    accessible_topology: [],
  });
  assert.ok(Buffer.byteLength(snapshot.snapshot_id) <= 128);
});

test('CS2: the same request is answered alike, after a restart and without its volume too', async () => {
  const volume = await orchestrator.create('short-lived');
  const request = { source_volume_id: volume.id, name: 'replayed' };
  const first = await take(request);
  assert.deepEqual(await take(request), first);
  await running.restart();
  assert.deepEqual(await take(request), first);
  await orchestrator.delete(volume);
  assert.deepEqual(await take(request), first);
});

test('CS3: a name taken by a snapshot of another volume is ALREADY_EXISTS', async () => {
  const other = await orchestrator.create('another source');
  const snapshotId = await orchestrator.snapshot(source, 'taken');
  const message = await refused(orchestrator.snapshot(other, 'taken'), 'ALREADY_EXISTS');
  assert.ok(message.includes(snapshotId), message);
  await orchestrator.delete(other);
});

test('CS12: an unknown parameter is INVALID_ARGUMENT and named; those of Kubernetes pass', async () => {
  const request = { source_volume_id: source.id, name: 'parameters' };
  const call = take({ ...request, parameters: { mode: 'fast' } });
  await refused(call, 'INVALID_ARGUMENT', /parameters\['mode'\]/);
  await take({ ...request, parameters: { 'csi.storage.k8s.io/volumesnapshot/name': 'claim' } });
});

/** What a volume can be made from, and how it is named in the request. */
const COPIES: Readonly<Record<string, (of: HeldVolume) => Promise<Message>>> = {
  'a snapshot': async (of) => ({
    snapshot: { snapshot_id: await orchestrator.snapshot(of, `of ${of.name}`) },
  }),
  'a volume': async (of) => ({ volume: { volume_id: of.id } }),
};
for (const [what, from] of Object.entries(COPIES)) {
  test(`CS13, CV25: a volume made from ${what} holds what that held then, names it, and is found again without it`, async () => {
    const origin = await orchestrator.create(`origin of ${what}`);
    running.backend().write(origin.id, BLOCK, Buffer.alloc(BLOCK, 'b'));
    const volume_content_source = await from(origin);
    running.backend().write(origin.id, BLOCK, Buffer.alloc(BLOCK, 'a'));
    const request = { ...createRequest(`copy of ${what}`), volume_content_source };
    const answer = await create(request);
    const { volume } = answer;
    const { type } = volume.content_source;
    assert.deepEqual(volume.content_source, { ...volume_content_source, type });
    assert.deepEqual(await create(request), answer);
    const held = running
      .backend()
      .read(volume.volume_id)
      .subarray(BLOCK, 2 * BLOCK);
    assert.deepEqual(held, Buffer.alloc(BLOCK, what === 'a snapshot' ? 'b' : 'a'));
    await orchestrator.delete(origin);
    assert.deepEqual(await create(request), answer);
    const copy = orchestrator.hold('copy', volume);
    const again = await orchestrator.snapshot(copy, `of the copy of ${what}`);
    const grandchild = await orchestrator.create(`grandchild of ${what}`, { snapshotId: again });
    for (const each of [copy, grandchild]) await orchestrator.delete(each);
  });

  test(`CV7: a volume made from ${what} has its size or a larger one, and never a smaller one`, async () => {
    const volume_content_source = await from(source);
    const request = (name: string, range: Message | null): Message => ({
      ...{ name, capacity_range: range, volume_capabilities: [blockCapability()] },
      volume_content_source,
    });
    const { volume } = await create(request('same', null));
    assert.equal(Number(volume.capacity_bytes), source.sizeBytes);
    const smaller = { required_bytes: MIB, limit_bytes: source.sizeBytes - BLOCK };
    await refused(create(request('smaller', smaller)), 'OUT_OF_RANGE', /capacity_range/);
    const wanted = { required_bytes: source.sizeBytes + BLOCK };
    const { volume: larger } = await create(request('larger', wanted));
    assert.equal(Number(larger.capacity_bytes), source.sizeBytes + BLOCK);
    for (const { volume_id } of [volume, larger]) await controller().DeleteVolume({ volume_id });
  });

  test(`CV12: a pool other than that of ${what} is INVALID_ARGUMENT, and the default is the pool of ${what}`, async () => {
    const origin = await orchestrator.create('elsewhere', { parameters: { pool: 'other' } });
    const volume_content_source = await from(origin);
    const request = { ...createRequest('beside'), volume_content_source };
    const across = create({ ...request, name: 'across', parameters: { pool: 'main' } });
    await refused(across, 'INVALID_ARGUMENT', /'main'.*'other'/);
    const { volume } = await create(request);
    assert.ok(running.backend('other').storage.volumes.has(volume.volume_id));
    for (const volume_id of [origin.id, volume.volume_id]) {
      await controller().DeleteVolume({ volume_id });
    }
  });
}

test('a name taken by a volume with another source, or none, is ALREADY_EXISTS', async () => {
  const other = await orchestrator.create('other source');
  const snapshotId = await orchestrator.snapshot(source, 'first');
  const second = await orchestrator.snapshot(source, 'second');
  const volumes = [
    await orchestrator.create('restored', { snapshotId }),
    await orchestrator.create('cloned', { volumeId: source.id }),
    other,
  ];
  for (const [name, spec] of [
    ['restored', { snapshotId: second }],
    ['restored', {}],
    ['cloned', { volumeId: other.id }],
    ['cloned', { snapshotId }],
    ['cloned', {}],
    ['source', { snapshotId }],
    ['other source', { volumeId: source.id }],
  ] as const) {
    const call = create(createRequest(name, spec));
    await refused(call, 'ALREADY_EXISTS', /volume_content_source/);
  }
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('CV10: a source without a snapshot, or with an empty id, is INVALID_ARGUMENT', async () => {
  for (const volume_content_source of [{}, { snapshot: {} }, { volume: {} }]) {
    const call = create({ ...createRequest('no source'), volume_content_source });
    await refused(call, 'INVALID_ARGUMENT', /volume_content_source/);
  }
});

test('DV6: a deletion that failed half way is completed by the repeated call', async () => {
  const volume = await orchestrator.create('half way');
  const backend = running.backend();
  const remove = backend.deleteVolume.bind(backend);
  backend.deleteVolume = async (volumeId) => {
    await remove(volumeId);
    throw CsiError.internal('the disk is away');
  };
  await refused(orchestrator.delete(volume), 'INTERNAL', /away/);
  backend.deleteVolume = remove;
  await refused(create(createRequest('half way')), 'ABORTED', /half way|being deleted/);
  await orchestrator.delete(volume);
  assert.ok(!(await orchestrator.volumeIds()).includes(volume.id));
  await orchestrator.delete(await orchestrator.create('half way'));
});

test('DV4: snapshots of a deleted volume stay listed, served, restorable and deletable, and its name is free', async () => {
  const volume = await orchestrator.create('lineage');
  const base = await orchestrator.snapshot(volume, 'base of lineage');
  running.backend().write(volume.id, 0, Buffer.alloc(BLOCK, 1));
  const snapshotId = await orchestrator.snapshot(volume, 'lineage');
  const { ranges } = await running.client.delta(base, snapshotId);
  assert.equal(ranges.length, 1);
  await orchestrator.delete(volume);
  const restored = await orchestrator.create('from lineage', { snapshotId });
  await running.restart();
  const list = async (source_volume_id: string): Promise<Message[]> =>
    (await controller().ListSnapshots({ source_volume_id }))['entries'];
  assert.equal((await list(volume.id)).length, 2);
  assert.deepEqual((await running.client.delta(base, snapshotId)).ranges, ranges);
  assert.deepEqual((await running.client.allocated(snapshotId)).ranges, ranges);
  assert.equal((await orchestrator.create('from lineage', { snapshotId })).id, restored.id);
  const next = await orchestrator.create('lineage', { sizeBytes: 9 * MIB });
  assert.notEqual(next.id, volume.id);
  assert.deepEqual(await list(next.id), []);
  for (const id of [base, snapshotId]) await orchestrator.deleteSnapshot(id);
  for (const each of [restored, next]) await orchestrator.delete(each);
  assert.ok(!running.backend().storage.snapshots.has(snapshotId));
});
