/** CreateSnapshot, DeleteSnapshot and volumes made from snapshots. */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { snapshotFiles } from '../support/snapshot-files.js';

function writeAt(path: string, offset: number, bytes: Buffer): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, offset);
  fsyncSync(file);
  closeSync(file);
}

const running = runPlugin('snapshots', {
  pools: { main: 'xfs', other: 'xfs-1k' },
  prepare: async () => {
    source = await orchestrator.create('source');
  },
});
const { orchestrator } = running;
const cut = (request: Message): Promise<Message> =>
  running.client.controller.CreateSnapshot(request);
const pool = (...names: string[]): string => running.poolPath('main', ...names);
let source: HeldVolume;

test('CS1: a request without a source or a name is INVALID_ARGUMENT and says which', async () => {
  await refused(cut({ name: 'name' }), 'INVALID_ARGUMENT', /^source_volume_id /);
  await refused(cut({ source_volume_id: source.id }), 'INVALID_ARGUMENT', /^name /);
  const unknown = { source_volume_id: 'fake-vol-id-0123456789' };
  await refused(cut(unknown), 'INVALID_ARGUMENT', /^name /);
});

test('CS4: an unknown source is NOT_FOUND, also when it was deleted', async () => {
  const gone = await orchestrator.create('gone');
  const snapshotId = await orchestrator.snapshot(gone, 'of gone');
  await orchestrator.delete(gone);
  for (const id of ['fake-vol-id-0123456789', gone.id]) {
    await refused(cut({ source_volume_id: id, name: 'new' }), 'NOT_FOUND', /source_volume_id/);
  }
  await orchestrator.deleteSnapshot(snapshotId);
});

test('CS9, CS10, CS11: the answer has the id, source, size and creation time, and is ready', async () => {
  const before = Date.now();
  const { snapshot } = await cut({ source_volume_id: source.id, name: 'answer' });
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

test('CS2: the same request again answers the same snapshot, also after a restart', async () => {
  const request = { source_volume_id: source.id, name: 'replayed' };
  const first = await cut(request);
  assert.deepEqual(await cut(request), first);
  await running.restart();
  assert.deepEqual(await cut(request), first);
});

test('CS2: a snapshot of a deleted volume is still answered by its name', async () => {
  const volume = await orchestrator.create('short-lived');
  const request = { source_volume_id: volume.id, name: 'outlives' };
  const first = await cut(request);
  await orchestrator.delete(volume);
  assert.deepEqual(await cut(request), first);
});

test('CS3: a name taken by a snapshot of another volume is ALREADY_EXISTS', async () => {
  const other = await orchestrator.create('another source');
  const snapshotId = await orchestrator.snapshot(source, 'taken');
  const call = orchestrator.snapshot(other, 'taken');
  const message = await refused(call, 'ALREADY_EXISTS');
  assert.ok(message.includes(snapshotId), message);
  await orchestrator.delete(other);
});

test('CS12: an unknown parameter is INVALID_ARGUMENT and named; those of Kubernetes pass', async () => {
  const request = { source_volume_id: source.id, name: 'parameters' };
  const call = cut({ ...request, parameters: { mode: 'fast' } });
  await refused(call, 'INVALID_ARGUMENT', /parameters\['mode'\]/);
  await cut({ ...request, parameters: { 'csi.storage.k8s.io/volumesnapshot/name': 'claim' } });
});

test('CS7: a snapshot has what was written before it was taken, and not what was written after', async () => {
  const volume = await orchestrator.create('written');
  const device = await orchestrator.bringUp(volume);
  writeAt(device, MIB, Buffer.alloc(8192, 'b'));
  const snapshotId = await orchestrator.snapshot(volume, 'written');
  writeAt(device, MIB, Buffer.alloc(8192, 'a'));
  const held = readFileSync(pool('snapshots', snapshotId));
  assert.deepEqual(held.subarray(MIB, MIB + 8192), Buffer.alloc(8192, 'b'));
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('CS13, CV25: a volume created from a snapshot has its content and names it', async () => {
  const volume = await orchestrator.create('origin');
  const device = await orchestrator.bringUp(volume);
  writeAt(device, 4096, Buffer.from('content of the origin'));
  const snapshotId = await orchestrator.snapshot(volume, 'origin');
  const request = createRequest('copy', { snapshotId });
  const answer = await running.client.controller.CreateVolume(request);
  assert.deepEqual(answer['volume'].content_source?.snapshot, { snapshot_id: snapshotId });
  assert.deepEqual(await running.client.controller.CreateVolume(request), answer);
  const copy = await orchestrator.create('copy', { snapshotId });
  const copied = await orchestrator.bringUp(copy);
  assert.deepEqual(readFileSync(copied), readFileSync(pool('snapshots', snapshotId)));
  // What is written to the copy is seen neither in the snapshot nor in the origin.
  writeAt(copied, 4096, Buffer.alloc(4096, 'x'));
  assert.deepEqual(readFileSync(device), readFileSync(pool('snapshots', snapshotId)));
  for (const held of [copy, volume]) {
    await orchestrator.takeDown(held);
    await orchestrator.delete(held);
  }
});

test('CS13: a snapshot can be taken of a volume that was made from a snapshot', async () => {
  const first = await orchestrator.snapshot(source, 'generation 1');
  const child = await orchestrator.create('child', { snapshotId: first });
  const second = await orchestrator.snapshot(child, 'generation 2');
  const grandchild = await orchestrator.create('grandchild', { snapshotId: second });
  for (const id of [first, second]) await orchestrator.deleteSnapshot(id);
  for (const volume of [child, grandchild]) await orchestrator.delete(volume);
});

test('CV9: a larger raw block volume has zeros beyond the content', async () => {
  const snapshotId = await orchestrator.snapshot(source, 'to grow');
  const spec = { snapshotId, sizeBytes: source.sizeBytes + 4096 };
  const larger = await orchestrator.create('larger', spec);
  assert.equal(larger.sizeBytes, spec.sizeBytes);
  assert.equal(statSync(pool('volumes', larger.id)).size, spec.sizeBytes);
  await orchestrator.delete(larger);
});

test('CV8: a volume smaller than its snapshot is OUT_OF_RANGE', async () => {
  const snapshotId = await orchestrator.snapshot(source, 'to shrink');
  const spec = { snapshotId, sizeBytes: source.sizeBytes - 4096 };
  await refused(orchestrator.create('smaller', spec), 'OUT_OF_RANGE', /capacity_range/);
});

test('CV7, CV9: a file system volume has the size of its snapshot, or a larger one that is asked for', async () => {
  const capability = mountCapability('ext4');
  const volume = await orchestrator.create('to copy', { capability, sizeBytes: 16 * MIB });
  const snapshotId = await orchestrator.snapshot(volume, 'to copy');
  const larger = await orchestrator.create('grown', {
    ...{ capability, snapshotId },
    sizeBytes: 32 * MIB,
  });
  assert.equal(statSync(pool('volumes', larger.id)).size, 32 * MIB);
  await orchestrator.delete(larger);
  const request = {
    name: 'as large',
    volume_capabilities: [capability],
    volume_content_source: { snapshot: { snapshot_id: snapshotId } },
  };
  const answer = await running.client.controller.CreateVolume(request);
  assert.equal(Number(answer['volume'].capacity_bytes), 16 * MIB);
  await running.client.controller.DeleteVolume({ volume_id: answer['volume'].volume_id });
  await orchestrator.delete(volume);
});

test('CV10: a source without a snapshot, or with an empty id, is INVALID_ARGUMENT', async () => {
  for (const volume_content_source of [{}, { snapshot: {} }, { volume: {} }]) {
    const request = { ...createRequest('no source'), volume_content_source };
    const call = running.client.controller.CreateVolume(request);
    await refused(call, 'INVALID_ARGUMENT', /volume_content_source/);
  }
});

test('CV12: another pool than that of the snapshot is INVALID_ARGUMENT', async () => {
  const snapshotId = await orchestrator.snapshot(source, 'pools');
  const spec = { snapshotId, parameters: { pool: 'other' } };
  await refused(orchestrator.create('across', spec), 'INVALID_ARGUMENT', /'other'.*'main'/);
  const volume = await orchestrator.create('in the other', { parameters: { pool: 'other' } });
  const there = await orchestrator.snapshot(volume, 'in the other');
  // Without the parameter the pool of the snapshot is meant, not the default one.
  const restored = await orchestrator.create('restored there', { snapshotId: there });
  assert.ok(statSync(running.poolPath('other', 'volumes', restored.id)).isFile());
  for (const held of [restored, volume]) await orchestrator.delete(held);
});

test('DS2: a snapshot deleted once can be deleted again, and its name is free', async () => {
  const first = await orchestrator.snapshot(source, 'deleted');
  await orchestrator.deleteSnapshot(first);
  await orchestrator.deleteSnapshot(first);
  assert.ok(!snapshotFiles(pool('snapshots')).includes(first));
  const second = await orchestrator.snapshot(source, 'deleted');
  assert.notEqual(second, first);
});

test('DS2: a deleted snapshot is NOT_FOUND as a source of volumes and as a target of metadata', async () => {
  const earlier = await orchestrator.snapshot(source, 'was there before');
  const snapshotId = await orchestrator.snapshot(source, 'vanishes');
  await orchestrator.deleteSnapshot(snapshotId);
  await refused(orchestrator.create('late', { snapshotId }), 'NOT_FOUND');
  await refused(running.client.allocated(snapshotId), 'NOT_FOUND');
  await refused(running.client.delta(earlier, snapshotId), 'NOT_FOUND');
});

test('a snapshot file cannot be written, not even by root', async () => {
  const snapshotId = await orchestrator.snapshot(source, 'frozen');
  assert.throws(() => writeAt(pool('snapshots', snapshotId), 0, Buffer.alloc(1)), /EPERM/);
});

test('CV5: an unsupported capability is refused before the source is checked', async () => {
  const spec = { capability: blockCapability('MULTI_NODE_MULTI_WRITER'), snapshotId: 'none' };
  const call = orchestrator.create('no', spec);
  await refused(call, ['INVALID_ARGUMENT', 'NOT_FOUND']);
});
