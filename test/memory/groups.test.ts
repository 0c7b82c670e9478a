/** Group snapshots as the services answer them; the rules of the manager are in unit/volumes/group-manager. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin('groups', {
  env: { BLOCKDELTA_CSI_LEVEL: '1.13' },
  prepare: async ({ orchestrator }) => {
    sources = [await orchestrator.create('first'), await orchestrator.create('second')];
  },
});
const { orchestrator } = running;
let sources: HeldVolume[] = [];

const create = (fields: Message = {}): Promise<Message> =>
  running.client.groups.CreateVolumeGroupSnapshot({
    name: 'group',
    source_volume_ids: sources.map(({ id }) => id),
    ...fields,
  });
const get = (group_snapshot_id: string, snapshot_ids: readonly string[]): Promise<Message> =>
  running.client.groups.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
const remove = (group: Message): Promise<Message> =>
  running.client.groups.DeleteVolumeGroupSnapshot({
    group_snapshot_id: group['group_snapshot_id'],
    snapshot_ids: memberIds(group),
  });
const memberIds = (group: Message): string[] =>
  group['snapshots'].map((snapshot: Message) => snapshot['snapshot_id']);

test('GA1: an empty source, a source named twice and an unknown parameter are INVALID_ARGUMENT', async () => {
  const [first, second] = sources.map(({ id }) => id);
  const withEmpty = create({ source_volume_ids: [first, ''] });
  await refused(withEmpty, 'INVALID_ARGUMENT', /^source_volume_ids\[1\] /);
  const twice = create({ source_volume_ids: [first, second, first] });
  await refused(twice, 'INVALID_ARGUMENT', new RegExp(`${first} more than once`));
  await refused(create({ parameters: { mode: 'fast' } }), 'INVALID_ARGUMENT', /\['mode'\]/);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
});

test('GA9, GA10, GA11: the answer has an id, a time and one ready member for each source, in its place', async () => {
  const before = Date.now();
  const { group_snapshot: group } = await create();
  const { seconds, nanos } = group.creation_time;
  const time = Number(seconds) * 1000 + nanos / 1e6;
  assert.ok(time >= before - 1 && time <= Date.now() + 1);
  assert.equal(group.ready_to_use, true);
  const { accessible_topology: place } = await running.client.node.NodeGetInfo({});
  const wanted = sources.map((source, index) => ({
    snapshot_id: memberIds(group)[index],
    source_volume_id: source.id,
    size_bytes: String(source.sizeBytes),
    creation_time: group.creation_time,
    ready_to_use: true,
    group_snapshot_id: group.group_snapshot_id,
    accessible_topology: [place],
  }));
  assert.deepEqual(group.snapshots, wanted);
  assert.ok(Buffer.byteLength(group.group_snapshot_id) <= 128);
  await remove(group);
});

test('GA3, GE4: the same request, its sources in any order, is answered alike, also after a restart', async () => {
  const first = await create();
  const { group_snapshot: group } = first;
  assert.deepEqual(await create(), first);
  const source_volume_ids = sources.map(({ id }) => id).toReversed();
  assert.deepEqual(await create({ source_volume_ids }), first);
  const parameters = { 'csi.storage.k8s.io/volumegroupsnapshot/name': 'claim' };
  assert.deepEqual(await create({ parameters }), first);
  await running.restart();
  assert.deepEqual(await create(), first);
  for (const ids of [memberIds(group), memberIds(group).toReversed()]) {
    assert.deepEqual(await get(group.group_snapshot_id, ids), first);
  }
  await remove(group);
});

test('a group and a snapshot can have the same name', async () => {
  const { group_snapshot: group } = await create({ name: 'shared' });
  const snapshotId = await orchestrator.snapshot(sources[0] as HeldVolume, 'shared');
  assert.ok(!memberIds(group).includes(snapshotId));
  await orchestrator.deleteSnapshot(snapshotId);
  await remove(group);
});

test('members are reported like other snapshots, with the id of their group', async () => {
  const { group_snapshot: group } = await create();
  const { controller } = running.client;
  const alone = await orchestrator.snapshot(sources[0] as HeldVolume, 'alone');
  const list = async (filter: Message): Promise<Message[]> =>
    (await controller.ListSnapshots(filter))['entries'].map((entry: Message) => entry['snapshot']);
  const { snapshot: single } = await controller.GetSnapshot({ snapshot_id: alone });
  const byId = (a: Message, b: Message): number => (a['snapshot_id'] < b['snapshot_id'] ? -1 : 1);
  assert.deepEqual((await list({})).sort(byId), [...group.snapshots, single].sort(byId));
  for (const member of group.snapshots) {
    const { snapshot_id } = member;
    assert.deepEqual(await list({ snapshot_id }), [member]);
    assert.deepEqual((await controller.GetSnapshot({ snapshot_id }))['snapshot'], member);
  }
  const ofFirst = await list({ source_volume_id: sources[0]?.id });
  assert.deepEqual(ofFirst.sort(byId), [group.snapshots[0], single].sort(byId));
  await orchestrator.deleteSnapshot(alone);
  await remove(group);
});

test('two members of one group have no delta', async () => {
  const { group_snapshot: group } = await create();
  const [first = '', second = ''] = memberIds(group);
  await refused(running.client.delta(first, second), 'INVALID_ARGUMENT', /two snapshots of one/);
  await remove(group);
});
