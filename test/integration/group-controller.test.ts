/** CreateVolumeGroupSnapshot, GetVolumeGroupSnapshot and DeleteVolumeGroupSnapshot, and how other calls treat members. */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { snapshotFiles } from '../support/snapshot-files.js';

const UNKNOWN_ID = 'fake-vol-id-0123456789';

const running = runPlugin('group', {
  pools: { main: 'xfs', other: 'btrfs' },
  prepare: async () => {
    block = await orchestrator.create('block');
    files = await orchestrator.create('files', {
      capability: mountCapability('ext4'),
      sizeBytes: 24 * MIB,
    });
    sources = [block, files];
  },
});
const { orchestrator } = running;
let block: HeldVolume;
let files: HeldVolume;
let sources: HeldVolume[];

const create = (fields: Message = {}): Promise<Message> =>
  running.client.groups.CreateVolumeGroupSnapshot({
    name: 'group',
    source_volume_ids: sources.map(({ id }) => id),
    ...fields,
  });
const get = (group_snapshot_id: string, snapshot_ids: readonly string[]): Promise<Message> =>
  running.client.groups.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
const remove = (group_snapshot_id: string, snapshot_ids: readonly string[]): Promise<Message> =>
  running.client.groups.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
const memberIds = (group: Message): string[] =>
  group['snapshots'].map((snapshot: Message) => snapshot['snapshot_id']);
const heldSnapshots = (): string[] => snapshotFiles(running.poolPath('main', 'snapshots')).sort();

test('GG1: the group controller advertises exactly its three calls', async () => {
  const { capabilities } = await running.client.groups.GroupControllerGetCapabilities({});
  assert.deepEqual(
    capabilities.map((capability: Message) => capability['rpc'].type),
    ['CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT'],
  );
});

test('GA1: no name, no sources, an empty source or one named twice is INVALID_ARGUMENT', async () => {
  await refused(create({ name: '' }), 'INVALID_ARGUMENT', /^name /);
  await refused(create({ source_volume_ids: [] }), 'INVALID_ARGUMENT', /^source_volume_ids /);
  const withEmpty = create({ source_volume_ids: [block.id, ''] });
  await refused(withEmpty, 'INVALID_ARGUMENT', /^source_volume_ids\[1\] /);
  const twice = create({ source_volume_ids: [block.id, files.id, block.id] });
  await refused(twice, 'INVALID_ARGUMENT', new RegExp(`${block.id} more than once`));
  await refused(create({ parameters: { mode: 'fast' } }), 'INVALID_ARGUMENT', /\['mode'\]/);
  assert.deepEqual(heldSnapshots(), []);
});

test('GA5: an unknown source is NOT_FOUND, and no snapshot of the others is taken', async () => {
  const wrong = create({ source_volume_ids: [block.id, UNKNOWN_ID] });
  await refused(wrong, 'NOT_FOUND', /source_volume_ids\[1\]/);
  assert.deepEqual(heldSnapshots(), []);
});

test('GA6: volumes of two pools are FAILED_PRECONDITION, and no snapshot is taken', async () => {
  const far = await orchestrator.create('far', { parameters: { pool: 'other' } });
  const wrong = create({ source_volume_ids: [block.id, far.id] });
  await refused(wrong, 'FAILED_PRECONDITION', /'main'.*'other'/);
  assert.deepEqual(heldSnapshots(), []);
  assert.deepEqual(snapshotFiles(running.poolPath('other', 'snapshots')), []);
  await orchestrator.delete(far);
});

test('GA9, GA10, GA11: the answer has an id, a time and one ready member for each source', async () => {
  const before = Date.now();
  const { group_snapshot: group } = await create();
  const { seconds, nanos } = group.creation_time;
  const time = Number(seconds) * 1000 + nanos / 1e6;
  assert.ok(time >= before - 1 && time <= Date.now() + 1);
  assert.equal(group.ready_to_use, true);
  assert.equal(group.snapshots.length, 2);
  for (const [index, source] of sources.entries()) {
    assert.deepEqual(group.snapshots[index], {
      snapshot_id: memberIds(group)[index],
      source_volume_id: source.id,
      size_bytes: String(source.sizeBytes),
      creation_time: group.creation_time,
      ready_to_use: true,
      group_snapshot_id: group.group_snapshot_id,
      accessible_topology: [],
    });
  }
  assert.ok(Buffer.byteLength(group.group_snapshot_id) <= 128);
  assert.deepEqual(heldSnapshots(), memberIds(group).sort());
  await remove(group.group_snapshot_id, memberIds(group));
});

test('GA3, GE4: the same request, its sources in any order, is answered alike, also after a restart', async () => {
  const first = await create();
  const { group_snapshot_id: id } = first['group_snapshot'];
  const members = memberIds(first['group_snapshot']);
  assert.deepEqual(await create(), first);
  assert.deepEqual(await create({ source_volume_ids: [files.id, block.id] }), first);
  const parameters = { 'csi.storage.k8s.io/volumegroupsnapshot/name': 'claim' };
  assert.deepEqual(await create({ parameters }), first);
  await running.restart();
  assert.deepEqual(await create(), first);
  assert.deepEqual(await get(id, members), first);
  assert.deepEqual(await get(id, [...members].reverse()), first);
  assert.equal(heldSnapshots().length, 2);
  await remove(id, members);
});

test('GA4: a taken name with other sources is ALREADY_EXISTS', async () => {
  const { group_snapshot: group } = await create();
  const wrong = create({ source_volume_ids: [block.id] });
  await refused(wrong, 'ALREADY_EXISTS', new RegExp(group.group_snapshot_id));
  await remove(group.group_snapshot_id, memberIds(group));
});

test('a group and a snapshot can have the same name', async () => {
  const { group_snapshot: group } = await create({ name: 'shared' });
  const snapshotId = await orchestrator.snapshot(block, 'shared');
  assert.ok(!memberIds(group).includes(snapshotId));
  await orchestrator.deleteSnapshot(snapshotId);
  await remove(group.group_snapshot_id, memberIds(group));
});

test('GA12: a volume created from a member holds what was written before the snapshot', async () => {
  writeFileSync(await orchestrator.bringUp(block), 'before the cut');
  writeFileSync(`${await orchestrator.bringUp(files)}/file`, 'before the cut');
  const group = await orchestrator.groupSnapshot(sources, 'restored');
  writeFileSync(block.targetPath, 'after  the cut');
  writeFileSync(`${files.targetPath}/file`, 'after the cut');
  for (const [index, source] of sources.entries()) {
    const { capability, sizeBytes } = source;
    const snapshotId = group.snapshotIds[index] ?? '';
    const copy = await orchestrator.create(`copy ${index}`, { capability, sizeBytes, snapshotId });
    const target = await orchestrator.bringUp(copy);
    const held = readFileSync(source === block ? target : `${target}/file`);
    assert.equal(held.subarray(0, 14).toString(), 'before the cut');
    await orchestrator.takeDown(copy);
    await orchestrator.delete(copy);
  }
  await orchestrator.deleteGroup(group);
  for (const source of sources) await orchestrator.takeDown(source);
});

test('LS1, LS3, LS4: members are listed like other snapshots, with the id of their group', async () => {
  const { group_snapshot: group } = await create();
  const alone = await orchestrator.snapshot(block, 'alone');
  const list = async (filter: Message): Promise<Message[]> =>
    (await running.client.controller.ListSnapshots(filter))['entries'].map(
      (entry: Message) => entry['snapshot'],
    );
  assert.deepEqual(
    (await list({})).map((snapshot) => snapshot['snapshot_id']).sort(),
    [...memberIds(group), alone].sort(),
  );
  for (const member of group.snapshots) {
    assert.deepEqual(await list({ snapshot_id: member.snapshot_id }), [member]);
  }
  const ofBlock = await list({ source_volume_id: block.id });
  assert.deepEqual(
    ofBlock.map((snapshot) => snapshot['group_snapshot_id']).sort(),
    ['', group.group_snapshot_id].sort(),
  );
  await orchestrator.deleteSnapshot(alone);
  await remove(group.group_snapshot_id, memberIds(group));
});

test('DS3, CS15: a member is not deleted alone: INVALID_ARGUMENT, and the message names the group', async () => {
  const { group_snapshot: group } = await create();
  for (const snapshotId of memberIds(group)) {
    const alone = orchestrator.deleteSnapshot(snapshotId);
    await refused(alone, 'INVALID_ARGUMENT', new RegExp(group.group_snapshot_id));
  }
  assert.deepEqual(heldSnapshots(), memberIds(group).sort());
  await remove(group.group_snapshot_id, memberIds(group));
});

test('DV4, GD5: a group outlives its volumes and is deleted completely, and deletion can be repeated', async () => {
  const short = await orchestrator.create('short-lived', { capability: blockCapability() });
  const group = await orchestrator.groupSnapshot([short, block], 'outlives');
  await orchestrator.delete(short);
  assert.equal((await get(group.id, group.snapshotIds))['group_snapshot'].snapshots.length, 2);
  await orchestrator.deleteGroup(group);
  await refused(get(group.id, group.snapshotIds), 'NOT_FOUND');
  await orchestrator.deleteGroup(group);
  assert.deepEqual(heldSnapshots(), []);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
});

test('GD1, GE1: no group_snapshot_id is INVALID_ARGUMENT', async () => {
  for (const call of [get, remove]) {
    await refused(call('', []), 'INVALID_ARGUMENT', /^group_snapshot_id /);
  }
});

test('GD2, GE2: for an unknown group deletion is OK and Get is NOT_FOUND, also without snapshot_ids', async () => {
  for (const members of [[], ['also unknown']]) {
    await remove(UNKNOWN_ID, members);
    await refused(get(UNKNOWN_ID, members), 'NOT_FOUND', new RegExp(UNKNOWN_ID));
  }
});

test('GD3, GE3, GE5: snapshot_ids that are not the members are INVALID_ARGUMENT and change nothing', async () => {
  const { group_snapshot: group } = await create();
  const own = memberIds(group);
  for (const wrong of [[], own.slice(1), [...own, UNKNOWN_ID], [own[0] ?? '', UNKNOWN_ID]]) {
    for (const call of [get, remove]) {
      await refused(call(group.group_snapshot_id, wrong), 'INVALID_ARGUMENT', /^snapshot_ids /);
    }
  }
  assert.deepEqual(heldSnapshots(), own.sort());
  await remove(group.group_snapshot_id, own);
});

test('GD4: while one member is being read neither the group nor any member is deleted', async () => {
  const scattered = await orchestrator.create('scattered', { sizeBytes: 128 * MIB });
  writeEverySecondBlock(running.poolPath('main', 'volumes', scattered.id), 128 * MIB);
  const { group_snapshot: group } = await create({ source_volume_ids: [scattered.id, files.id] });
  const [read = ''] = memberIds(group);
  // The client takes one message and no more. Its library reads some ahead, but not so many.
  const stream = running.client.open('GetMetadataAllocated', { snapshot_id: read, max_results: 1 });
  stream.on('error', () => undefined);
  await new Promise((taken) => stream.once('data', (message) => taken(stream.pause() && message)));
  const call = remove(group.group_snapshot_id, memberIds(group));
  await refused(call, 'FAILED_PRECONDITION', new RegExp(`${read} is being read`));
  assert.deepEqual(heldSnapshots(), memberIds(group).sort());
  stream.cancel();
  await remove(group.group_snapshot_id, memberIds(group));
  assert.deepEqual(heldSnapshots(), []);
  await orchestrator.delete(scattered);
});

function writeEverySecondBlock(path: string, sizeBytes: number): void {
  const block = Buffer.alloc(4096, 1);
  const file = openSync(path, 'r+');
  for (let offset = 0; offset < sizeBytes; offset += 2 * block.length) {
    writeSync(file, block, 0, block.length, offset);
  }
  fsyncSync(file);
  closeSync(file);
}
