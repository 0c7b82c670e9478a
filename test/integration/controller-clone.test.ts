/** CreateVolume from another volume, and volumes that are larger than their source. */
import assert from 'node:assert/strict';
import {
  closeSync,
  openSync,
  readFileSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { createRequest, type HeldVolume, MIB, type VolumeSpec } from '../support/orchestrator.js';
import { seededBytes } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('clone', { pools: { main: 'xfs', other: 'btrfs' } });
const { orchestrator } = running;
const create = (request: Message): Promise<Message> =>
  running.client.controller.CreateVolume(request);
const from = (volume_id: string): Message => ({
  volume_content_source: { volume: { volume_id } },
});

async function clone(source: HeldVolume, name: string, spec: VolumeSpec = {}): Promise<HeldVolume> {
  const { capability, sizeBytes } = source;
  return orchestrator.create(name, { capability, sizeBytes, ...spec, volumeId: source.id });
}

async function drop(...volumes: HeldVolume[]): Promise<void> {
  for (const volume of volumes) {
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
}

/** Into the page cache of the device, which the caller keeps open. */
function writeAt(device: number, offset: number, bytes: Buffer): void {
  writeSync(device, bytes, 0, bytes.length, offset);
}

for (const pool of ['main', 'other']) {
  test(`CV25, CV2: a clone in use on ${pool} holds what its source held at that moment`, async () => {
    const source = await orchestrator.create(`source ${pool}`, { parameters: { pool } });
    const device = openSync(await orchestrator.bringUp(source), 'r+');
    const before = seededBytes('before the clone', 65536);
    writeAt(device, MIB, before);
    const request = { ...createRequest(`clone ${pool}`), ...from(source.id) };
    const { volume } = await create(request);
    assert.deepEqual(volume.content_source, { volume: { volume_id: source.id }, type: 'volume' });
    assert.deepEqual((await create(request))['volume'], volume);
    writeAt(device, MIB, seededBytes('after the clone', 65536));
    closeSync(device);
    const held = await clone(source, `clone ${pool}`);
    assert.equal(held.id, volume.volume_id);
    const found = readFileSync(await orchestrator.bringUp(held));
    assert.deepEqual(found.subarray(MIB, MIB + 65536), before);
    assert.deepEqual(found.subarray(0, MIB), Buffer.alloc(MIB));
    await drop(source);
    assert.deepEqual(
      readFileSync(held.targetPath),
      found,
      'the source is gone, the clone is whole',
    );
    // CV2: the source may be gone since.
    assert.equal((await create(request))['volume'].volume_id, held.id);
    await drop(held);
  });
}

test('CV8, G13: a volume whose expansion is missing in its record is copied at its real size', async () => {
  const source = await orchestrator.create('grown', { sizeBytes: 32 * MIB });
  truncateSync(running.poolPath('main', 'volumes', source.id), 48 * MIB);
  const exact = { required_bytes: 32 * MIB, limit_bytes: 32 * MIB };
  const small = { ...createRequest('too small'), ...from(source.id), capacity_range: exact };
  await refused(create(small), 'OUT_OF_RANGE', /50331648/);
  for (const capacity_range of [null, { required_bytes: 32 * MIB }]) {
    const request = { ...createRequest('copy of grown'), ...from(source.id), capacity_range };
    const { volume } = await create(request);
    assert.equal(Number(volume.capacity_bytes), 48 * MIB);
    await orchestrator.delete(orchestrator.hold('copy of grown', volume));
  }
  await orchestrator.delete(source);
});

for (const [fsType, sizeMiB] of [
  ['ext4', 32],
  ['xfs', 320],
  ['btrfs', 256],
] as const) {
  test(`CV9: clone and restore of ${fsType} in use are larger, with the data and a grown file system`, async () => {
    const sizeBytes = sizeMiB * MIB;
    const capability = mountCapability(fsType);
    const source = await orchestrator.create(`files ${fsType}`, { capability, sizeBytes });
    const target = await orchestrator.bringUp(source);
    const bytes = seededBytes('a file', 1 << 20);
    writeFileSync(join(target, 'file'), bytes);
    const snapshotId = await orchestrator.snapshot(source, `files ${fsType}`);
    const larger = { capability, sizeBytes: 2 * sizeBytes };
    const copies = [
      await clone(source, `clone ${fsType}`, larger),
      await orchestrator.create(`restored ${fsType}`, { ...larger, snapshotId }),
    ];
    for (const copy of copies) {
      assert.equal(copy.sizeBytes, larger.sizeBytes);
      const directory = await orchestrator.bringUp(copy);
      assert.deepEqual(readFileSync(join(directory, 'file')), bytes);
      const grown = statfsSync(directory);
      assert.ok(grown.blocks * grown.bsize > 1.5 * sizeBytes, 'the file system is grown');
      writeFileSync(join(directory, 'file'), 'other');
    }
    assert.deepEqual(readFileSync(join(target, 'file')), bytes);
    await drop(source, ...copies);
    await orchestrator.deleteSnapshot(snapshotId);
  });
}

test('CV7, CV8: a clone has the size of its source, or a larger one, and never a smaller one', async () => {
  const source = await orchestrator.create('sized');
  const { sizeBytes } = source;
  const spec = { name: 'same', volume_capabilities: [blockCapability()], ...from(source.id) };
  const { volume } = await create(spec);
  assert.equal(Number(volume.capacity_bytes), sizeBytes);
  const smaller = create({
    ...spec,
    name: 'smaller',
    capacity_range: { limit_bytes: sizeBytes - 1 },
  });
  await refused(smaller, 'OUT_OF_RANGE', /capacity_range/);
  const larger = await clone(source, 'larger', { sizeBytes: sizeBytes + 4096 });
  assert.equal(statSync(running.poolPath('main', 'volumes', larger.id)).size, sizeBytes + 4096);
  await running.client.controller.DeleteVolume({ volume_id: volume.volume_id });
  for (const held of [source, larger]) await orchestrator.delete(held);
});

test('CV11: a volume that does not exist or was deleted is NOT_FOUND as a source', async () => {
  const gone = await orchestrator.create('gone');
  const snapshotId = await orchestrator.snapshot(gone, 'of gone');
  await orchestrator.delete(gone);
  for (const id of ['none-exist-id', gone.id, snapshotId, '../pool-id', 'i'.repeat(128)]) {
    await refused(create({ ...createRequest('clone'), ...from(id) }), 'NOT_FOUND', /source/);
  }
  await orchestrator.deleteSnapshot(snapshotId);
  // Nothing has taken the name.
  await orchestrator.delete(await orchestrator.create('clone'));
});

test('CV12: another pool than that of the source is INVALID_ARGUMENT, and the default is the pool of the source', async () => {
  const source = await orchestrator.create('elsewhere', { parameters: { pool: 'other' } });
  const across = clone(source, 'across', { parameters: { pool: 'main' } });
  await refused(across, 'INVALID_ARGUMENT', /'main'.*'other'/);
  const copy = await clone(source, 'beside');
  assert.ok(statSync(running.poolPath('other', 'volumes', copy.id)).isFile());
  for (const held of [source, copy]) await orchestrator.delete(held);
});

test('CV3: a name taken by a volume with another source, or none, is ALREADY_EXISTS', async () => {
  const source = await orchestrator.create('first');
  const other = await orchestrator.create('second');
  const snapshotId = await orchestrator.snapshot(source, 'first');
  const copy = await clone(source, 'copy');
  const field = /volume_content_source/;
  await refused(create({ ...createRequest('copy'), ...from(other.id) }), 'ALREADY_EXISTS', field);
  await refused(create(createRequest('copy')), 'ALREADY_EXISTS', field);
  await refused(create(createRequest('copy', { snapshotId })), 'ALREADY_EXISTS', field);
  await refused(
    create({ ...createRequest('second'), ...from(source.id) }),
    'ALREADY_EXISTS',
    field,
  );
  for (const held of [source, other, copy]) await orchestrator.delete(held);
  await orchestrator.deleteSnapshot(snapshotId);
});

test('a clone of a pristine volume is pristine, and a clone of a raw volume in use is never formatted', async () => {
  const source = await orchestrator.create('new', { sizeBytes: 16 * MIB });
  const capability = mountCapability('ext4');
  const fresh = await clone(source, 'fresh', { capability });
  await orchestrator.bringUp(fresh);
  const device = openSync(await orchestrator.bringUp(source), 'r+');
  writeAt(device, 0, Buffer.from('no file system'));
  closeSync(device);
  const used = await clone(source, 'used', { capability });
  await refused(orchestrator.stage(used), 'FAILED_PRECONDITION', /nothing was formatted/);
  await drop(source, fresh);
  await orchestrator.delete(used);
});

test('CS13: a clone has snapshots of its own, and its lists of blocks begin with it', async () => {
  const source = await orchestrator.create('lineage');
  const device = openSync(await orchestrator.bringUp(source), 'r+');
  writeAt(device, 0, seededBytes('of the source', 65536));
  closeSync(device);
  const sourceSnapshot = await orchestrator.snapshot(source, 'of the source');
  const copy = await clone(source, 'copy');
  const snapshotId = await orchestrator.snapshot(copy, 'of the copy');
  const { ranges } = await running.client.allocated(snapshotId);
  assert.deepEqual(ranges, [{ offset: 0n, size: 65536n }]);
  const across = running.client.delta(sourceSnapshot, snapshotId);
  await refused(across, 'INVALID_ARGUMENT');
  await orchestrator.takeDown(source);
  for (const held of [source, copy]) await orchestrator.delete(held);
  for (const id of [sourceSnapshot, snapshotId]) await orchestrator.deleteSnapshot(id);
});
