import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { BackendRegistry } from '../../../src/backends/registry.js';
import { CsiError } from '../../../src/errors.js';
import { type OpenCatalogue, openCatalogue } from '../../../src/volumes/catalogue-client.js';
import { reconcile } from '../../../src/volumes/reconcile.js';
import type { SnapshotRecord, VolumeRecord } from '../../../src/volumes/records.js';
import { MemoryBackend, MemoryStorage } from '../../backend/memory-backend.js';
import { rejectsWith } from '../../support/expect-status.js';
import { snapshotRecord, volumeRecord } from '../../support/records.js';

let directory: string;
let catalogue: OpenCatalogue;
let storage: MemoryStorage;
let backend: MemoryBackend;
let registry: BackendRegistry;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'blockdelta-reconcile-'));
  catalogue = await openCatalogue(join(directory, 'catalogue.db'));
  storage = new MemoryStorage();
  backend = new MemoryBackend(storage);
  registry = new BackendRegistry([backend]);
  await catalogue.registerPool('default', storage.identity);
});

afterEach(async () => {
  await catalogue.close();
  rmSync(directory, { recursive: true, force: true });
});

/** A volume in the catalogue and in the pool. */
async function volume(fields: Partial<VolumeRecord> = {}): Promise<VolumeRecord> {
  const record = volumeRecord(fields);
  await catalogue.insertVolume(record);
  await backend.createVolume(record.volumeId, record.sizeBytes);
  return record;
}

async function snapshot(
  of: VolumeRecord,
  fields: Partial<SnapshotRecord> = {},
): Promise<SnapshotRecord> {
  const record = await catalogue.insertSnapshot(snapshotRecord(of, fields));
  await backend.createSnapshots([{ volumeId: of.volumeId, snapshotId: record.snapshotId }]);
  return record;
}

const nothing = { finished: [], undone: [], differences: [] };

test('a catalogue and a pool that agree are left as they are', async () => {
  const kept = await volume();
  await snapshot(kept);
  assert.deepEqual(await reconcile(catalogue, registry), nothing);
  assert.equal((await catalogue.listVolumes()).length, 1);
  assert.equal((await catalogue.listSnapshots()).length, 1);
});

test('a volume that was being created is undone, made or not, and its name is free', async () => {
  const half = await volume({ state: 'creating', name: 'half' });
  const rowOnly = volumeRecord({ state: 'creating', name: 'row only' });
  await catalogue.insertVolume(rowOnly);
  const report = await reconcile(catalogue, registry);
  assert.deepEqual(
    report.undone.sort(),
    [`volume ${half.volumeId}`, `volume ${rowOnly.volumeId}`].sort(),
  );
  assert.deepEqual(report.differences, []);
  assert.equal(await catalogue.volumeByName('half'), null);
  assert.equal(storage.volumes.size, 0);
  assert.deepEqual(await reconcile(catalogue, registry), nothing);
});

test('a volume that was being deleted is deleted to the end, and its snapshots stay', async () => {
  const going = await volume();
  const kept = await snapshot(going);
  await catalogue.setVolumeState(going.volumeId, 'deleting');
  const report = await reconcile(catalogue, registry);
  assert.deepEqual(report, { ...nothing, finished: [`deletion of volume ${going.volumeId}`] });
  assert.ok(!storage.volumes.has(going.volumeId));
  assert.ok(storage.snapshots.has(kept.snapshotId));
  assert.equal((await catalogue.volumeById(going.volumeId))?.state, 'deleted');
});

test('a snapshot that was being cut is undone, also when its file is complete', async () => {
  const of = await volume();
  const half = await snapshot(of, { state: 'creating' });
  const report = await reconcile(catalogue, registry);
  assert.deepEqual(report, { ...nothing, undone: [`snapshot ${half.snapshotId}`] });
  assert.equal(storage.snapshots.size, 0);
  assert.equal(await catalogue.snapshotById(half.snapshotId), null);
});

test('a snapshot that was being deleted is deleted to the end, with the lineage of its volume', async () => {
  const of = await volume();
  const going = await snapshot(of);
  await backend.deleteVolume(of.volumeId);
  await catalogue.removeVolume(of.volumeId);
  await catalogue.setSnapshotState(going.snapshotId, 'deleting');
  const report = await reconcile(catalogue, registry);
  assert.deepEqual(report, { ...nothing, finished: [`deletion of snapshot ${going.snapshotId}`] });
  assert.equal(await catalogue.volumeById(of.volumeId), null);
});

test('temporary files are swept and named', async () => {
  storage.temporary.add('left.tmp');
  const report = await reconcile(catalogue, registry);
  assert.deepEqual(report.undone, ["temporary file left.tmp in pool 'default'"]);
  assert.equal(storage.temporary.size, 0);
});

test('what is lost, strange, foreign or of another size is reported and never touched', async () => {
  const lost = await volume();
  storage.volumes.delete(lost.volumeId);
  const resized = await volume();
  const content = storage.volumes.get(resized.volumeId);
  assert.ok(content !== undefined);
  content.sizeBytes = 1n;
  const gone = await snapshot(resized);
  storage.snapshots.delete(gone.snapshotId);
  const strange = volumeRecord();
  await backend.createVolume(strange.volumeId, strange.sizeBytes);
  storage.foreign.add('/pool/volumes/readme.txt');
  const report = await reconcile(catalogue, registry);
  assert.deepEqual([report.finished, report.undone], [[], []]);
  assert.deepEqual(
    report.differences.sort(),
    [
      `pool 'default' has lost ${lost.volumeId}`,
      `pool 'default': ${resized.volumeId} has 1 bytes and should have ${resized.sizeBytes}`,
      `pool 'default' holds ${strange.volumeId}, which the catalogue does not know`,
      `pool 'default' has lost ${gone.snapshotId}`,
      "pool 'default' holds /pool/volumes/readme.txt, which is not ours",
    ].sort(),
  );
  assert.ok(storage.volumes.has(strange.volumeId));
  assert.ok((await catalogue.volumeById(lost.volumeId)) !== null);
});

test('a pool with another identity is refused before anything is touched', async () => {
  const half = await volume({ state: 'creating' });
  storage.temporary.add('left.tmp');
  storage.identity = 'memory-pool-2';
  await rejectsWith(reconcile(catalogue, registry), 'FAILED_PRECONDITION', /mounted/);
  assert.ok(storage.volumes.has(half.volumeId));
  assert.equal(storage.temporary.size, 1);
  assert.equal((await catalogue.volumeById(half.volumeId))?.state, 'creating');
});

test('all pools are identified before any is settled', async () => {
  const second = new MemoryBackend(new MemoryStorage(), { pool: 'second' });
  await catalogue.registerPool('second', 'another');
  storage.temporary.add('left.tmp');
  const both = new BackendRegistry([backend, second]);
  await rejectsWith(reconcile(catalogue, both), 'FAILED_PRECONDITION', /second/);
  assert.equal(storage.temporary.size, 1);
});

test('one unfinished object that cannot be settled does not keep the others from it', async () => {
  const stuck = await volume({ state: 'creating' });
  const half = await volume({ state: 'creating' });
  const deleteVolume = backend.deleteVolume.bind(backend);
  backend.deleteVolume = async (volumeId) => {
    if (volumeId === stuck.volumeId) throw CsiError.failedPrecondition('held by somebody');
    await deleteVolume(volumeId);
  };
  const report = await reconcile(catalogue, registry);
  assert.deepEqual(report.undone, [`volume ${half.volumeId}`]);
  assert.deepEqual(report.differences, [
    `volume ${stuck.volumeId} is unfinished: held by somebody`,
  ]);
  assert.equal((await catalogue.volumeById(stuck.volumeId))?.state, 'creating');
});

test('an unfinished object of a pool that is not configured any more is reported and kept', async () => {
  await catalogue.registerPool('gone', 'uuid-gone');
  const record = volumeRecord({ pool: 'gone', state: 'deleting' });
  await catalogue.insertVolume(record);
  const report = await reconcile(catalogue, registry);
  assert.equal(report.differences.length, 1);
  assert.match(report.differences[0] ?? '', /'gone' is not configured/);
  assert.equal((await catalogue.volumeById(record.volumeId))?.state, 'deleting');
});
