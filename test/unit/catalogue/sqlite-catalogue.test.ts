import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { SqliteConnection } from '../../../src/database/connection.js';
import { type DirectCatalogue, openCatalogueHere } from '../../support/direct-database.js';
import { throwsWith } from '../../support/expect-status.js';
import { BLOCK, mountOf, snapshotRecord, volumeRecord } from '../../support/records.js';

let directory: string;
let file: string;
let catalogue: DirectCatalogue;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'blockdelta-catalogue-'));
  file = join(directory, 'catalogue.db');
  catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
});

afterEach(() => {
  catalogue.close();
  rmSync(directory, { recursive: true, force: true });
});

test('a volume is read as it was inserted, to the last nanosecond and byte', () => {
  const volume = volumeRecord({
    sizeBytes: 2n ** 62n + 1n,
    parameters: { pool: 'default', ключ: "'; DROP TABLE volumes; --" },
    capabilities: [BLOCK, mountOf('xfs')],
    sourceSnapshotId: 'snap-gone',
    createdNs: 2n ** 61n + 7n,
  });
  catalogue.insertVolume(volume);
  assert.deepEqual(catalogue.volumeById(volume.volumeId), volume);
  assert.deepEqual(catalogue.volumeByName(volume.name), volume);
  assert.equal(catalogue.volumeById('vol-none'), null);
  assert.equal(catalogue.volumeByName('none'), null);
});

test('a name belongs to one volume at a time and is free again after its removal', () => {
  const first = volumeRecord({ name: 'twice' });
  catalogue.insertVolume(first);
  const second = volumeRecord({ name: 'twice' });
  throwsWith(() => catalogue.insertVolume(second), 'ALREADY_EXISTS', /'twice'/);
  for (const state of ['creating', 'ready', 'deleting'] as const) {
    catalogue.setVolumeState(first.volumeId, state);
    throwsWith(() => catalogue.insertVolume(second), 'ALREADY_EXISTS');
  }
  catalogue.removeVolume(first.volumeId);
  catalogue.insertVolume(second);
  assert.equal(catalogue.volumeByName('twice')?.volumeId, second.volumeId);
});

test('a volume id is unique', () => {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  throwsWith(() => catalogue.insertVolume({ ...volume, name: 'other' }), 'ALREADY_EXISTS');
});

test('snapshot names and snapshot ids are unique', () => {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const snapshot = snapshotRecord(volume, { name: 'twice' });
  catalogue.insertSnapshot(snapshot);
  throwsWith(
    () => catalogue.insertSnapshot(snapshotRecord(volume, { name: 'twice' })),
    'ALREADY_EXISTS',
  );
  throwsWith(() => catalogue.insertSnapshot({ ...snapshot, name: 'other' }), 'ALREADY_EXISTS');
});

test('rows with a dangling reference are refused, and not as a name in use', () => {
  const volume = volumeRecord();
  const foreign = { code: 'SQLITE_CONSTRAINT_FOREIGNKEY' };
  assert.throws(() => catalogue.insertSnapshot(snapshotRecord(volume)), foreign);
  assert.throws(() => catalogue.insertVolume(volumeRecord({ pool: 'unknown' })), foreign);
  assert.throws(() =>
    catalogue.putStaging({
      volumeId: volume.volumeId,
      stagingPath: '/s',
      resolvedPath: null,
      capability: BLOCK,
    }),
  );
  assert.equal(catalogue.snapshotByName('none'), null);
});

test('sequences rise with every snapshot and never repeat', () => {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const first = catalogue.insertSnapshot(snapshotRecord(volume));
  const second = catalogue.insertSnapshot(snapshotRecord(volume));
  assert.ok(second.sequence > first.sequence);
  catalogue.removeSnapshot(second.snapshotId, null);
  catalogue.close();
  catalogue = openCatalogueHere(file);
  const third = catalogue.insertSnapshot(snapshotRecord(volume));
  assert.ok(third.sequence > second.sequence, 'the sequence of a removed snapshot is not reused');
});

test('a commit makes a snapshot ready with its creation time and size', () => {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const made = catalogue.insertSnapshot(snapshotRecord(volume, { state: 'creating' }));
  assert.deepEqual(catalogue.listSnapshots(), []);
  assert.deepEqual(catalogue.unfinished().snapshots, [made]);
  const ready = catalogue.commitSnapshot(made.snapshotId, 42n, 4096n);
  assert.deepEqual(ready, { ...made, state: 'ready', creationTimeNs: 42n, sizeBytes: 4096n });
  assert.deepEqual(catalogue.listSnapshots(), [ready]);
  assert.deepEqual(catalogue.unfinished().snapshots, []);
});

test('a removed volume remains as the lineage of its snapshots until the last one is removed', () => {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const one = catalogue.insertSnapshot(snapshotRecord(volume));
  const two = catalogue.insertSnapshot(snapshotRecord(volume));
  catalogue.removeVolume(volume.volumeId);
  assert.equal(catalogue.volumeById(volume.volumeId)?.state, 'deleted');
  assert.equal(catalogue.volumeByName(volume.name), null);
  assert.deepEqual(catalogue.listVolumes(), []);
  assert.deepEqual(catalogue.unfinished().volumes, []);
  catalogue.removeSnapshot(one.snapshotId, null);
  assert.equal(catalogue.volumeById(volume.volumeId)?.state, 'deleted');
  catalogue.removeSnapshot(two.snapshotId, null);
  assert.equal(catalogue.volumeById(volume.volumeId), null);
});

test('removing the last snapshot does not affect a volume that exists', () => {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const snapshot = catalogue.insertSnapshot(snapshotRecord(volume));
  catalogue.removeSnapshot(snapshot.snapshotId, null);
  catalogue.removeSnapshot(snapshot.snapshotId, null);
  assert.equal(catalogue.volumeById(volume.volumeId)?.state, 'ready');
});

test('lists contain ready objects in the order of their ids', () => {
  const volumes = Array.from({ length: 20 }, () => volumeRecord());
  for (const volume of volumes) catalogue.insertVolume(volume);
  catalogue.insertVolume(volumeRecord({ state: 'creating' }));
  catalogue.insertVolume(volumeRecord({ state: 'deleting' }));
  const ids = catalogue.listVolumes().map((volume) => volume.volumeId);
  assert.deepEqual(ids, volumes.map((volume) => volume.volumeId).sort());
  assert.equal(catalogue.unfinished().volumes.length, 2);
});

test('statistics count ready objects and retained bases, and list the oldest volumes up to a limit', () => {
  const [second, first] = [volumeRecord({ createdNs: 2n }), volumeRecord({ createdNs: 1n })];
  for (const volume of [second, first]) catalogue.insertVolume(volume);
  catalogue.insertVolume(volumeRecord({ state: 'deleting' }));
  const [kept, lost] = [snapshotRecord(first), snapshotRecord(first)];
  for (const snapshot of [kept, lost, snapshotRecord(first)]) catalogue.insertSnapshot(snapshot);
  const base = { deletedNs: 5n, storedBytes: 4096n, invalidReason: null };
  catalogue.removeSnapshot(kept.snapshotId, { ...base, snapshotId: kept.snapshotId });
  catalogue.removeSnapshot(lost.snapshotId, {
    ...{ ...base, snapshotId: lost.snapshotId, invalidReason: 'the pool was repaired' },
  });
  const { volumeId, name, pool, sizeBytes } = first;
  assert.deepEqual(catalogue.statistics(1), {
    pools: [
      {
        ...{ pool: 'default', volumes: 2, snapshots: 1 },
        ...{ usableBases: 1, usableBaseBytes: 4096n, invalidatedBases: 1 },
      },
    ],
    volumes: [{ volumeId, name, pool, sizeBytes, snapshots: 1 }],
    omittedVolumes: 1,
  });
  assert.deepEqual(catalogue.statistics(0).volumes, []);
  assert.equal(catalogue.statistics(0).omittedVolumes, 2);
});

test('a volume keeps its creation parameters when those in force change, and its new size', () => {
  const made = volumeRecord({
    createdMutableParameters: { readAheadKiB: '64' },
    mutableParameters: { readAheadKiB: '64' },
    sourceVolumeId: 'vol-gone',
  });
  catalogue.insertVolume(made);
  catalogue.setMutableParameters(made.volumeId, { readAheadKiB: '128', ioScheduler: 'none' });
  catalogue.setVolumeSize(made.volumeId, 32n << 20n);
  assert.deepEqual(catalogue.volumeById(made.volumeId), {
    ...made,
    mutableParameters: { readAheadKiB: '128', ioScheduler: 'none' },
    sizeBytes: 32n << 20n,
  });
});

test('a volume has one controller publication for each node; they are listed, and removed with the volume', () => {
  const volume = volumeRecord();
  const { volumeId } = volume;
  catalogue.insertVolume(volume);
  const publication = { volumeId, nodeId: 'node-a', capability: BLOCK, readOnly: false };
  catalogue.putControllerPublication(publication);
  catalogue.putControllerPublication({ ...publication, readOnly: true });
  catalogue.putControllerPublication({ ...publication, nodeId: 'node-b' });
  assert.deepEqual(catalogue.controllerPublications(volumeId)[0], {
    ...publication,
    readOnly: true,
  });
  assert.equal(catalogue.listControllerPublications().length, 2);
  catalogue.removeControllerPublication(volumeId, 'node-b');
  assert.equal(catalogue.listControllerPublications().length, 1);
  catalogue.removeVolume(volumeId);
  assert.deepEqual(catalogue.listControllerPublications(), []);
});

test('stagings and publications are inserted, replaced, found and removed, also with their volume', () => {
  const volume = volumeRecord();
  const { volumeId } = volume;
  catalogue.insertVolume(volume);
  const staging = { volumeId, stagingPath: '/s', resolvedPath: '/real/s' };
  catalogue.putStaging({ ...staging, resolvedPath: null, capability: BLOCK });
  catalogue.putStaging({ ...staging, capability: mountOf('xfs') });
  assert.deepEqual(catalogue.stagings(volumeId), [{ ...staging, capability: mountOf('xfs') }]);
  const publication = {
    volumeId,
    targetPath: '/t',
    resolvedPath: '/real/t',
    stagingPath: '/s',
    capability: BLOCK,
    podUid: 'pod-1',
  };
  catalogue.putPublication({ ...publication, readOnly: false });
  catalogue.putPublication({ ...publication, readOnly: true });
  catalogue.putPublication({ ...publication, targetPath: '/u', readOnly: false });
  assert.deepEqual(catalogue.publicationAt('/t'), { ...publication, readOnly: true });
  assert.equal(catalogue.publications(volumeId).length, 2);
  catalogue.removePublication('/t');
  catalogue.removePublication('/t');
  assert.equal(catalogue.publicationAt('/t'), null);
  catalogue.removeVolume(volumeId);
  assert.equal(catalogue.publicationAt('/u'), null);
  assert.deepEqual(catalogue.stagings(volumeId), []);
});

test('a volume is pristine until it is marked as initialized, also after reopening', () => {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  assert.equal(catalogue.volumeById(volume.volumeId)?.pristine, true);
  catalogue.markVolumeInitialized(volume.volumeId);
  catalogue.close();
  catalogue = openCatalogueHere(file);
  assert.equal(catalogue.volumeById(volume.volumeId)?.pristine, false);
});

test('a volume awaits its growth until it has grown; in an older catalogue no volume does', () => {
  const volume = volumeRecord({ awaitsGrowth: true });
  catalogue.insertVolume(volume);
  assert.deepEqual(catalogue.volumeById(volume.volumeId), volume);
  catalogue.markVolumeGrown(volume.volumeId);
  assert.deepEqual(catalogue.volumeById(volume.volumeId), { ...volume, awaitsGrowth: false });
});

test('a pool keeps the identity of its first registration', () => {
  assert.equal(catalogue.registerPool('default', 'uuid-2'), 'uuid-1');
  assert.equal(catalogue.registerPool('second', 'uuid-2'), 'uuid-2');
});

test('one identity cannot belong to two pools', () => {
  assert.throws(() => catalogue.registerPool('second', 'uuid-1'));
});

test('a catalogue of a newer plugin is refused and not changed', () => {
  catalogue.close();
  const raw = new SqliteConnection(file, 0);
  const version = raw.get('PRAGMA user_version')?.['user_version'];
  raw.exec('PRAGMA user_version = 999');
  raw.close();
  assert.throws(() => openCatalogueHere(file), /schema version is 999.*newer/);
  const after = new SqliteConnection(file, 0);
  assert.deepEqual(after.get('PRAGMA user_version'), { user_version: 999n });
  after.exec(`PRAGMA user_version = ${version}`);
  after.close();
  catalogue = openCatalogueHere(file);
  assert.equal(catalogue.registerPool('default', 'x'), 'uuid-1');
});
