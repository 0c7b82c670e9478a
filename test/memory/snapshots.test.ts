/**
 * Snapshots and groups of them as the services answer them, volumes made from them, and how lists begin and end. The
 * rules of the managers are in unit/volumes.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError } from '../../src/base/errors.js';
import { blockCapability, type Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const BLOCK = 4096;
const running = runMemoryPlugin({
  pools: ['main', 'other'],
  env: { BLOCKDELTA_CSI_LEVEL: '1.13' },
  prepare: async () => {
    source = await orchestrator.create('source');
    second = await orchestrator.create('second source');
  },
});
const { orchestrator } = running;
const controller = () => running.client.controller;
const take = (request: Message): Promise<Message> => controller().CreateSnapshot(request);
const create = (request: Message): Promise<Message> => controller().CreateVolume(request);
const list = async (filter: Message): Promise<Message[]> =>
  (await controller().ListSnapshots(filter))['entries'].map((entry: Message) => entry['snapshot']);
let source: HeldVolume;
let second: HeldVolume;

const here = { segments: { 'blockdelta.csi/node': 'test-node' } };
const there = { segments: { 'blockdelta.csi/node': 'another-node' } };

/** A timestamp within these milliseconds, as of `before` and now. */
function assertNow({ seconds, nanos }: { seconds: string; nanos: number }, before: number): void {
  const time = Number(seconds) * 1000 + nanos / 1e6;
  assert.ok(time >= before - 1 && time <= Date.now() + 1, `${before} ${time}`);
}

test('CS10, GS4, LS7: the answer has the id, source, size and creation time, and is ready, as it is reported later', async () => {
  const before = Date.now();
  const { snapshot } = await take({ source_volume_id: source.id, name: 'answer' });
  const { snapshot_id, creation_time } = snapshot;
  assertNow(creation_time, before);
  assert.deepEqual(snapshot, {
    snapshot_id,
    source_volume_id: source.id,
    size_bytes: String(source.sizeBytes),
    creation_time,
    ready_to_use: true,
    group_snapshot_id: '',
    accessible_topology: [here],
  });
  assert.ok(Buffer.byteLength(snapshot_id) <= 128);
  const get = () => controller().GetSnapshot({ snapshot_id });
  assert.deepEqual((await get())['snapshot'], snapshot);
  assert.deepEqual(await list({ snapshot_id }), [snapshot]);
  await orchestrator.deleteSnapshot(snapshot_id);
  await refused(get(), 'NOT_FOUND');
});

test('CS2: a repeated request is answered alike, also after a restart and without its volume', async () => {
  const volume = await orchestrator.create('short-lived');
  const request = { source_volume_id: volume.id, name: 'replayed' };
  const first = await take(request);
  assert.deepEqual(await take(request), first);
  await running.restart();
  assert.deepEqual(await take(request), first);
  await orchestrator.delete(volume);
  assert.deepEqual(await take(request), first);
});

test('CS3, CS12, CS14: another volume, an unknown parameter and another place are refused, and nothing is taken', async () => {
  const snapshotId = await orchestrator.snapshot(source, 'taken');
  const message = await refused(orchestrator.snapshot(second, 'taken'), 'ALREADY_EXISTS');
  assert.ok(message.includes(snapshotId), message);
  const request = { source_volume_id: source.id, name: 'placed' };
  const fast = take({ ...request, parameters: { mode: 'fast' } });
  await refused(fast, 'INVALID_ARGUMENT', /parameters\['mode'\]/);
  const at = (...requisite: Message[]) => ({ accessibility_requirements: { requisite } });
  await refused(take({ ...request, ...at(there) }), 'RESOURCE_EXHAUSTED', /test-node/);
  const unknown = { ...request, source_volume_id: 'none-exist-id' };
  await refused(take({ ...unknown, ...at(there) }), 'NOT_FOUND');
  assert.ok(!(await list({})).some(({ source_volume_id }) => source_volume_id === second.id));
  const parameters = { 'csi.storage.k8s.io/volumesnapshot/name': 'claim' };
  const { snapshot } = await take({ ...request, ...at(here, there), parameters });
  for (const id of [snapshotId, snapshot.snapshot_id]) await orchestrator.deleteSnapshot(id);
});

/** What a volume can be made from, and how it is named in the request. */
const COPIES: Readonly<Record<string, (of: HeldVolume) => Promise<Message>>> = {
  'a snapshot': async (of) => ({ snapshot: { snapshot_id: await orchestrator.snapshot(of, `of ${of.name}`) } }),
  'a volume': async (of) => ({ volume: { volume_id: of.id } }),
};
for (const [what, from] of Object.entries(COPIES)) {
  test(`CS13, CV25: a volume made from ${what} holds what that held then, names it, and is found again without it`, async () => {
    const origin = await orchestrator.create(`origin of ${what}`);
    const backend = running.backend();
    backend.write(origin.id, BLOCK, Buffer.alloc(BLOCK, 'b'));
    const volume_content_source = await from(origin);
    backend.write(origin.id, BLOCK, Buffer.alloc(BLOCK, 'a'));
    const request = { ...createRequest(`copy of ${what}`), volume_content_source };
    const answer = await create(request);
    const { volume } = answer;
    const { type } = volume.content_source;
    assert.deepEqual(volume.content_source, { ...volume_content_source, type });
    assert.deepEqual(await create(request), answer);
    const held = backend.read(volume.volume_id).subarray(BLOCK, 2 * BLOCK);
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
    const sized = (name: string, capacity_range: Message | null): Promise<Message> =>
      create({ name, capacity_range, volume_capabilities: [blockCapability()], volume_content_source });
    const { volume } = await sized('same', null);
    assert.equal(Number(volume.capacity_bytes), source.sizeBytes);
    const smaller = { required_bytes: MIB, limit_bytes: source.sizeBytes - BLOCK };
    await refused(sized('smaller', smaller), 'OUT_OF_RANGE', /capacity_range/);
    const { volume: larger } = await sized('larger', { required_bytes: source.sizeBytes + BLOCK });
    assert.equal(Number(larger.capacity_bytes), source.sizeBytes + BLOCK);
    for (const { volume_id } of [volume, larger]) await controller().DeleteVolume({ volume_id });
  });

  test(`CV12: a pool other than that of ${what} is INVALID_ARGUMENT, and the default is the pool of ${what}`, async () => {
    const origin = await orchestrator.create('elsewhere', { parameters: { pool: 'other' } });
    const request = { ...createRequest('beside'), volume_content_source: await from(origin) };
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
  const snapshotId = await orchestrator.snapshot(source, 'first');
  const later = await orchestrator.snapshot(source, 'later');
  const volumes = [
    await orchestrator.create('restored', { snapshotId }),
    await orchestrator.create('cloned', { volumeId: source.id }),
  ];
  for (const [name, spec] of [
    ['restored', { snapshotId: later }],
    ['restored', {}],
    ['cloned', { volumeId: second.id }],
    ['cloned', { snapshotId }],
    ['cloned', {}],
    ['source', { snapshotId }],
    ['second source', { volumeId: source.id }],
  ] as const) {
    const call = create(createRequest(name, spec));
    await refused(call, 'ALREADY_EXISTS', /volume_content_source/);
  }
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('DV6: a deletion that failed half way is completed by the repeated call', async () => {
  const volume = await orchestrator.create('half way');
  const backend = running.backend();
  const remove = backend.volumes.delete.bind(backend.volumes);
  backend.volumes.delete = async (volumeId) => {
    await remove(volumeId);
    throw CsiError.internal('the disk is away');
  };
  await refused(orchestrator.delete(volume), 'INTERNAL', /away/);
  backend.volumes.delete = remove;
  await refused(create(createRequest('half way')), 'ABORTED', /half way|being deleted/);
  await orchestrator.delete(volume);
  assert.ok(!(await orchestrator.volumeIds()).includes(volume.id));
  await orchestrator.delete(await orchestrator.create('half way'));
});

test('DV4, CS11: snapshots of a grown and deleted volume stay listed, served, restorable and deletable, and its name is free', async () => {
  const volume = await orchestrator.create('lineage');
  const base = await orchestrator.snapshot(volume, 'base of lineage');
  await orchestrator.expand(volume, 12 * MIB);
  running.backend().write(volume.id, 0, Buffer.alloc(BLOCK, 1));
  const snapshotId = await orchestrator.snapshot(volume, 'lineage');
  const delta = await running.client.delta(base, snapshotId);
  assert.equal(delta.ranges.length, 1);
  assert.equal(Number(delta.capacity), 12 * MIB);
  await orchestrator.delete(volume);
  const spec = { snapshotId, sizeBytes: 12 * MIB };
  const restored = await orchestrator.create('from lineage', spec);
  await running.restart();
  const kept = await list({ source_volume_id: volume.id });
  const sizes = kept.map(({ size_bytes }) => Number(size_bytes));
  assert.deepEqual(new Set(sizes), new Set([8 * MIB, 12 * MIB]), 'of the time of each');
  assert.deepEqual(await running.client.delta(base, snapshotId), delta);
  assert.deepEqual((await running.client.allocated(snapshotId)).ranges, delta.ranges);
  assert.equal((await orchestrator.create('from lineage', spec)).id, restored.id);
  const next = await orchestrator.create('lineage', { sizeBytes: 9 * MIB });
  assert.notEqual(next.id, volume.id);
  assert.deepEqual(await list({ source_volume_id: next.id }), []);
  for (const id of [base, snapshotId]) await orchestrator.deleteSnapshot(id);
  for (const each of [restored, next]) await orchestrator.delete(each);
  assert.ok(!running.backend().storage.snapshots.has(snapshotId));
});

const createGroup = (fields: Message = {}): Promise<Message> =>
  running.client.groups.CreateVolumeGroupSnapshot({
    name: 'group',
    source_volume_ids: [source.id, second.id],
    ...fields,
  });
const getGroup = (group_snapshot_id: string, snapshot_ids: readonly string[]): Promise<Message> =>
  running.client.groups.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
const idsOf = (group: Message): string[] => group['snapshots'].map((snapshot: Message) => snapshot['snapshot_id']);
const removeGroup = (group: Message): Promise<void> =>
  orchestrator.deleteGroup({ id: group['group_snapshot_id'], snapshotIds: idsOf(group) });

test('GA1: an empty source, a source named twice and an unknown parameter are INVALID_ARGUMENT', async () => {
  const ids = [source.id, second.id];
  const before = await list({});
  const withEmpty = createGroup({ source_volume_ids: [source.id, ''] });
  await refused(withEmpty, 'INVALID_ARGUMENT', /^source_volume_ids\[1\] /);
  const twice = createGroup({ source_volume_ids: [...ids, source.id] });
  await refused(twice, 'INVALID_ARGUMENT', new RegExp(`${source.id} more than once`));
  await refused(createGroup({ parameters: { mode: 'fast' } }), 'INVALID_ARGUMENT', /\['mode'\]/);
  assert.deepEqual(await list({}), before);
});

test('GA9, GA10, GA11: the answer has an id, a time and one ready member for each source, as they are reported alone', async () => {
  const before = Date.now();
  const { group_snapshot: group } = await createGroup();
  assertNow(group.creation_time, before);
  assert.equal(group.ready_to_use, true);
  const wanted = [source, second].map((of, index) => ({
    snapshot_id: idsOf(group)[index],
    source_volume_id: of.id,
    ready_to_use: true,
    size_bytes: String(of.sizeBytes),
    creation_time: group.creation_time,
    group_snapshot_id: group.group_snapshot_id,
    accessible_topology: [here],
  }));
  assert.deepEqual(group.snapshots, wanted);
  assert.ok(Buffer.byteLength(group.group_snapshot_id) <= 128);
  for (const member of wanted) {
    const { snapshot_id } = member;
    assert.deepEqual(await list({ snapshot_id }), [member]);
    assert.deepEqual((await controller().GetSnapshot({ snapshot_id }))['snapshot'], member);
  }
  const ofSecond = await list({ source_volume_id: second.id });
  assert.deepEqual(ofSecond, [wanted[1]]);
  const alone = await orchestrator.snapshot(source, 'group');
  assert.ok(!idsOf(group).includes(alone), 'a group and a snapshot can have the same name');
  await orchestrator.deleteSnapshot(alone);
  await removeGroup(group);
});

test('GA3, GE4: the same request, its sources in any order, is answered alike, also after a restart', async () => {
  const first = await createGroup();
  const { group_snapshot: group } = first;
  for (const fields of [
    {},
    { source_volume_ids: [second.id, source.id] },
    { parameters: { 'csi.storage.k8s.io/volumegroupsnapshot/name': 'claim' } },
    { parameters: { deletionPolicy: 'Delete' } },
  ]) {
    assert.deepEqual(await createGroup(fields), first);
  }
  await running.restart();
  assert.deepEqual(await createGroup(), first);
  for (const ids of [idsOf(group), idsOf(group).toReversed()]) {
    assert.deepEqual(await getGroup(group.group_snapshot_id, ids), first);
  }
  await removeGroup(group);
});

test('SM5, SM25: a list without entries is one message with type and capacity', async () => {
  const { client } = running;
  const volume = await orchestrator.create('listed');
  const base = await orchestrator.snapshot(volume, 'empty');
  running.backend().write(volume.id, BLOCK, Buffer.alloc(2 * BLOCK, 1));
  const target = await orchestrator.snapshot(volume, 'listed');
  const same = await orchestrator.snapshot(volume, 'same');
  const capacity = BigInt(volume.sizeBytes);
  const end = { starting_offset: volume.sizeBytes };
  for (const answer of [
    await client.allocated(base),
    await client.delta(target, same),
    await client.metadata('GetMetadataAllocated', { snapshot_id: target, ...end }),
    await client.metadata('GetMetadataDelta', { base_snapshot_id: base, target_snapshot_id: target, ...end }),
  ]) {
    assert.deepEqual(answer, { type: 'VARIABLE_LENGTH', capacity, ranges: [], messages: 1 });
  }
});

test('SM10, SM11: snapshots of two volumes, an older target and a single snapshot have no delta', async () => {
  const { client } = running;
  const [base, target] = [await orchestrator.snapshot(source, 'b'), await orchestrator.snapshot(source, 't')];
  const stranger = await orchestrator.snapshot(second, 'stranger');
  await refused(client.delta(base, stranger), 'INVALID_ARGUMENT', /two snapshots of one volume/);
  await refused(client.delta(target, base), 'INVALID_ARGUMENT', /older snapshot as the base/);
  await refused(client.delta(base, base), 'INVALID_ARGUMENT', /are both \S+, the same snapshot/);
});

test('SM12: a snapshot whose creation has not completed is FAILED_PRECONDITION', async () => {
  let half = '';
  const died = (): never => {
    throw CsiError.internal('the disk is away');
  };
  // Its row stays, because nothing can be rolled back either.
  const { snapshots } = running.backend();
  snapshots.create = async ([member]) => {
    half = member?.snapshotId ?? '';
    return died();
  };
  snapshots.delete = async () => died();
  await refused(orchestrator.snapshot(source, 'half'), 'INTERNAL');
  await refused(running.client.allocated(half), 'FAILED_PRECONDITION', /not ready/);
});
