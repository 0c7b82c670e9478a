/** The catalogue's records, what changes together, and its schema over versions. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { openCatalogue } from '../../../src/driver/catalogue/catalogue-client.js';
import type {
  GroupSnapshotRecord,
  NewSnapshot,
  ReplicaRecord,
  VolumeRecord,
} from '../../../src/driver/catalogue/records.js';
import { SqliteConnection } from '../../../src/driver/database/connection.js';
import { type DirectCatalogue, openCatalogueHere } from '../../support/direct-database.js';
import { BLOCK, mountOf, replicaRecord, snapshotRecord, volumeRecord } from '../../support/records.js';
import { throwsRefusal } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

const GROUP: GroupSnapshotRecord = {
  groupSnapshotId: 'group-1',
  name: 'nightly',
  state: 'creating',
  creationTimeNs: 0n,
  parameters: { key: 'value' },
};

let directory: string;
let file: string;
let catalogue: DirectCatalogue;
/** In the catalogue, with a member each of a group that is not. */
let volumes: [VolumeRecord, VolumeRecord];
let members: [NewSnapshot, NewSnapshot];

beforeEach(() => {
  directory = temporaryDirectory();
  file = join(directory, 'catalogue.db');
  catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  volumes = [volumeRecord({ createdNs: 2n }), volumeRecord({ createdNs: 1n })];
  for (const volume of volumes) catalogue.insertVolume(volume);
  const member = { name: null, groupSnapshotId: 'group-1', state: 'creating' } as const;
  members = [snapshotRecord(volumes[0], member), snapshotRecord(volumes[1], member)];
});

afterEach(() => catalogue.close());

function reopen(): void {
  catalogue.close();
  catalogue = openCatalogueHere(file);
}

const states = (): string[] => catalogue.snapshotsOfGroup('group-1').map(({ state }) => state);

test('a volume is read as it was inserted, to the last nanosecond and byte', () => {
  const volume = volumeRecord({
    sizeBytes: 2n ** 62n + 1n,
    parameters: { pool: 'default', ключ: "'; DROP TABLE volumes; --" },
    capabilities: [BLOCK, mountOf('xfs')],
    sourceSnapshotId: 'snap-gone',
    createdNs: 2n ** 61n + 7n,
    awaitsGrowth: true,
  });
  catalogue.insertVolume(volume);
  reopen();
  assert.deepEqual(catalogue.volumeById(volume.volumeId), volume);
  assert.deepEqual(catalogue.volumeByName(volume.name), volume);
  assert.equal(catalogue.volumeById('vol-none'), null);
});

test('a name belongs to one volume in any state, and is free again after its removal', () => {
  const [first] = volumes;
  const second = volumeRecord({ name: first.name });
  for (const state of ['creating', 'ready', 'deleting'] as const) {
    catalogue.setVolumeState(first.volumeId, state);
    throwsRefusal(() => catalogue.insertVolume(second), 'ALREADY_EXISTS', new RegExp(first.name));
  }
  catalogue.removeVolume(first.volumeId);
  catalogue.insertVolume(second);
  assert.equal(catalogue.volumeByName(first.name)?.volumeId, second.volumeId);
});

test('rows with a dangling reference are refused, and not as a name in use', () => {
  const foreign = { code: 'SQLITE_CONSTRAINT_FOREIGNKEY' };
  const orphan = { volumeId: 'vol-none', stagingPath: '/s', resolvedPath: null, capability: BLOCK };
  assert.throws(() => catalogue.insertSnapshot(snapshotRecord(volumeRecord())), foreign);
  assert.throws(() => catalogue.insertVolume(volumeRecord({ pool: 'unknown' })), foreign);
  assert.throws(() => catalogue.putStaging(orphan), foreign);
});

test('sequences rise with every snapshot and never repeat', () => {
  const [volume] = volumes;
  const first = catalogue.insertSnapshot(snapshotRecord(volume));
  const second = catalogue.insertSnapshot(snapshotRecord(volume));
  assert.ok(second.sequence > first.sequence);
  catalogue.removeSnapshot(second.snapshotId, null);
  reopen();
  const third = catalogue.insertSnapshot(snapshotRecord(volume));
  assert.ok(third.sequence > second.sequence, 'the sequence of a removed snapshot is not reused');
});

test('a removed volume remains as the lineage of its snapshots until the last one is removed', () => {
  const [{ volumeId, name }, other] = volumes;
  const snapshots = [0, 1].map(() => catalogue.insertSnapshot(snapshotRecord(volumes[0])));
  catalogue.removeVolume(volumeId);
  assert.equal(catalogue.volumeByName(name), null);
  assert.deepEqual(catalogue.listVolumes(), [other]);
  assert.deepEqual(catalogue.unfinished().volumes, []);
  for (const { snapshotId } of snapshots) {
    assert.equal(catalogue.volumeById(volumeId)?.state, 'deleted');
    catalogue.removeSnapshot(snapshotId, null);
  }
  assert.equal(catalogue.volumeById(volumeId), null);
  const last = catalogue.insertSnapshot(snapshotRecord(other));
  catalogue.removeSnapshot(last.snapshotId, null);
  assert.equal(catalogue.volumeById(other.volumeId)?.state, 'ready');
});

test('lists and statistics have ready objects, statistics retained bases, and list the oldest volumes up to a limit', () => {
  const [, first] = volumes;
  for (const state of ['creating', 'deleting'] as const) {
    catalogue.insertVolume(volumeRecord({ state }));
  }
  const ready = volumes.map((volume) => volume.volumeId).sort();
  assert.deepEqual(
    catalogue.listVolumes().map((volume) => volume.volumeId),
    ready,
  );
  assert.equal(catalogue.unfinished().volumes.length, 2);
  const [kept, lost] = [snapshotRecord(first), snapshotRecord(first)];
  for (const snapshot of [kept, lost, snapshotRecord(first)]) catalogue.insertSnapshot(snapshot);
  const base = { deletedNs: 5n, storedBytes: 4096n, invalidReason: null };
  catalogue.removeSnapshot(kept.snapshotId, { ...base, snapshotId: kept.snapshotId });
  catalogue.removeSnapshot(lost.snapshotId, {
    ...base,
    snapshotId: lost.snapshotId,
    invalidReason: 'the pool was repaired',
  });
  const { volumeId, name, pool, sizeBytes } = first;
  assert.deepEqual(catalogue.statistics(1), {
    pools: [
      {
        pool: 'default',
        volumes: 2,
        snapshots: 1,
        usableBases: 1,
        usableBaseBytes: 4096n,
        invalidatedBases: 1,
        promisedReplicas: 0,
        completeReplicas: 0,
        unfinishedReplicas: 0,
      },
    ],
    volumes: [{ volumeId, name, pool, sizeBytes, snapshots: 1, newestCopyNs: null }],
    omittedVolumes: 1,
    copies: { pending: 0, kept: 0, ending: 0 },
  });
  assert.equal(catalogue.statistics(0).omittedVolumes, 2);
});

test('replicas are put, advanced, found by volume and by clone, counted and removed', () => {
  const [volume] = volumes;
  const { volumeId } = volume;
  const replica = (snapshotId: string, sequence: bigint, more: Partial<ReplicaRecord> = {}): ReplicaRecord => {
    const made = replicaRecord(volume, { snapshotId, sequence, ...more });
    catalogue.putReplica(made);
    return made;
  };
  const older = replica('older', 1n);
  const newer = replica('newer', 2n, { cloneName: 'copy', baseId: 'older', fileSystem: null });
  assert.deepEqual(catalogue.replicasOf(volumeId), [newer, older]);
  assert.equal(catalogue.replicaForClone(volumeId, 'copy'), null);
  catalogue.advanceReplica('newer', 4096n, 5n);
  assert.deepEqual(catalogue.replicaById('newer'), { ...newer, nextOffset: 4096n, usedNs: 5n });
  catalogue.advanceReplica('newer', null, 6n);
  assert.equal(catalogue.replicaForClone(volumeId, 'copy')?.snapshotId, 'newer');
  assert.equal(catalogue.replicaForClone(volumeId, 'other'), null);
  catalogue.replicaAsked('older', 8n);
  catalogue.replicaUsed('older', 9n);
  assert.deepEqual(catalogue.listReplicas(), [
    { ...older, askedNs: 8n, usedNs: 9n },
    { ...newer, nextOffset: null, usedNs: 6n },
  ]);
  const [counts] = catalogue.statistics(0).pools;
  assert.deepEqual([counts?.completeReplicas, counts?.unfinishedReplicas], [1, 1]);
  assert.throws(() => replica('beyond', 3n, { nextOffset: volume.sizeBytes + 1n }), /CHECK/);
  catalogue.removeReplica('newer');
  assert.equal(catalogue.replicaById('newer'), null);
});

test('snapshots for clones are in no list', () => {
  const [volume] = volumes;
  const taken = catalogue.insertSnapshot(snapshotRecord(volume, { parameters: { cloneName: 'copy' } }));
  assert.deepEqual(catalogue.listSnapshots(), []);
  assert.deepEqual(catalogue.snapshotsForClones(), [taken]);
  assert.deepEqual(catalogue.snapshotById(taken.snapshotId), taken);
});

test('stagings and publications are inserted, replaced, found and removed, also with their volume', () => {
  const [{ volumeId }] = volumes;
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
    readOnly: true,
  };
  catalogue.putPublication({ ...publication, readOnly: false });
  catalogue.putPublication(publication);
  catalogue.putPublication({ ...publication, targetPath: '/u' });
  assert.deepEqual(catalogue.volumeUses('', '/t').there, publication);
  assert.equal(catalogue.publications(volumeId).length, 2);
  for (const path of ['/t', '/t']) catalogue.removePublication(path);
  assert.equal(catalogue.volumeUses('', '/t').there, null);
  catalogue.removeVolume(volumeId);
  assert.deepEqual([catalogue.volumeUses('', '/u').there, catalogue.stagings(volumeId)], [null, []]);
});

test('a pool keeps the identity of its first registration, which no other one can have', () => {
  assert.equal(catalogue.registerPool('default', 'uuid-2'), 'uuid-1');
  assert.equal(catalogue.registerPool('second', 'uuid-2'), 'uuid-2');
  assert.throws(() => catalogue.registerPool('third', 'uuid-1'));
});

test('a group and its members are unfinished, ready and deleting together', () => {
  const inserted = catalogue.insertGroup(GROUP, members);
  assert.deepEqual(catalogue.groupById('group-1'), GROUP);
  assert.deepEqual(catalogue.groupByName('nightly'), GROUP);
  assert.deepEqual(catalogue.snapshotsOfGroup('group-1'), inserted);
  assert.deepEqual(
    inserted.map(({ sequence, ...member }) => member),
    members,
  );
  const { groups, snapshots } = catalogue.unfinished();
  assert.deepEqual([groups.length, snapshots.length], [1, 0]);
  assert.deepEqual(catalogue.listSnapshots(), []);
  const sizes = members.map(({ snapshotId }) => ({ snapshotId, sizeBytes: 7n }));
  catalogue.commitGroup('group-1', 99n, sizes);
  const ready = { ...GROUP, state: 'ready', creationTimeNs: 99n };
  assert.deepEqual(catalogue.groupByName('nightly'), ready);
  for (const snapshot of catalogue.listSnapshots()) {
    assert.deepEqual([snapshot.creationTimeNs, snapshot.sizeBytes], [99n, 7n]);
  }
  assert.deepEqual([states(), catalogue.unfinished().groups], [['ready', 'ready'], []]);
  catalogue.setGroupState('group-1', 'deleting');
  assert.deepEqual(states(), ['deleting', 'deleting']);
  assert.equal(catalogue.groupById('group-1')?.state, 'deleting');
});

test('a name belongs to one group, and a failed insertion leaves nothing behind', () => {
  catalogue.insertGroup(GROUP, members);
  const other = { ...GROUP, groupSnapshotId: 'group-2' };
  throwsRefusal(() => catalogue.insertGroup(other, []), 'ALREADY_EXISTS', /nightly/);
  const half = { ...GROUP, groupSnapshotId: 'group-3', name: 'other' };
  const fresh = { ...members[0], snapshotId: 'snap-new', groupSnapshotId: 'group-3' };
  throwsRefusal(() => catalogue.insertGroup(half, [fresh, members[0]]), 'ALREADY_EXISTS');
  assert.equal(catalogue.groupById('group-3'), null);
  assert.equal(catalogue.snapshotById('snap-new'), null);
});

test('the client has every call of the catalogue, and no other', async () => {
  const served = Object.keys(catalogue).sort();
  const client = await openCatalogue(join(directory, 'other.db'));
  assert.deepEqual(Object.keys(client).sort(), served);
  await client.close();
});

/** What a connection of its own to the file does, which nobody has open meanwhile. */
function inFile<Result>(use: (database: SqliteConnection) => Result): Result {
  const database = new SqliteConnection(file, 0);
  try {
    return use(database);
  } finally {
    database.close();
  }
}

test('a catalogue of a newer plugin is refused and not changed', () => {
  catalogue.close();
  const version = (): unknown => inFile((raw) => raw.get('PRAGMA user_version')?.['user_version']);
  const own = version();
  inFile((raw) => raw.exec('PRAGMA user_version = 999'));
  assert.throws(() => openCatalogueHere(file), /schema version is 999.*newer/);
  assert.equal(version(), 999n);
  inFile((raw) => raw.exec(`PRAGMA user_version = ${own}`));
  catalogue = openCatalogueHere(file);
  assert.equal(catalogue.registerPool('default', 'x'), 'uuid-1');
});
