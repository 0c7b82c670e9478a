/** The catalogue's calls about group snapshots: a group and its members change together or not at all. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type {
  GroupSnapshotRecord,
  NewSnapshot,
  VolumeRecord,
} from '../../../src/catalogue/records.js';
import { SqliteConnection } from '../../../src/database/connection.js';
import { type DirectCatalogue, openCatalogueHere } from '../../support/direct-database.js';
import { throwsWith } from '../../support/expect-status.js';
import { snapshotRecord, volumeRecord } from '../../support/records.js';

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
let volumes: VolumeRecord[];
let members: NewSnapshot[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'blockdelta-groups-'));
  file = join(directory, 'catalogue.db');
  catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  volumes = [volumeRecord(), volumeRecord()];
  for (const volume of volumes) catalogue.insertVolume(volume);
  members = volumes.map((volume) =>
    snapshotRecord(volume, { name: null, groupSnapshotId: 'group-1', state: 'creating' }),
  );
});

afterEach(() => {
  catalogue.close();
  rmSync(directory, { recursive: true, force: true });
});

const states = (): string[] => catalogue.snapshotsOfGroup('group-1').map(({ state }) => state);

test('a group is read as it was inserted, with its members in the order of their sequence', () => {
  const inserted = catalogue.insertGroup(GROUP, members);
  assert.deepEqual(catalogue.groupById('group-1'), GROUP);
  assert.deepEqual(catalogue.groupByName('nightly'), GROUP);
  assert.deepEqual(catalogue.snapshotsOfGroup('group-1'), inserted);
  assert.deepEqual(
    inserted.map(({ sequence, ...member }) => member),
    members,
  );
  assert.ok((inserted[0]?.sequence ?? 0n) < (inserted[1]?.sequence ?? 0n));
});

test('members count as unfinished through their group, and are listed once it is ready', () => {
  catalogue.insertGroup(GROUP, members);
  const { groups, snapshots } = catalogue.unfinished();
  assert.deepEqual([groups.length, snapshots.length], [1, 0]);
  assert.deepEqual([catalogue.listGroups(), catalogue.listSnapshots()], [[], []]);
  const sizes = members.map(({ snapshotId }) => ({ snapshotId, sizeBytes: 7n }));
  catalogue.commitGroup('group-1', 99n, sizes);
  assert.deepEqual(catalogue.listGroups(), [{ ...GROUP, state: 'ready', creationTimeNs: 99n }]);
  for (const snapshot of catalogue.listSnapshots()) {
    assert.deepEqual([snapshot.creationTimeNs, snapshot.sizeBytes], [99n, 7n]);
  }
  assert.deepEqual(states(), ['ready', 'ready']);
  assert.deepEqual(catalogue.unfinished().groups, []);
});

test('a group and its members change their state together', () => {
  catalogue.insertGroup({ ...GROUP, state: 'ready' }, members);
  catalogue.setGroupState('group-1', 'deleting');
  assert.deepEqual(states(), ['deleting', 'deleting']);
  assert.equal(catalogue.groupById('group-1')?.state, 'deleting');
});

test('removing a group removes its members, and the lineage of deleted volumes', () => {
  catalogue.insertGroup(GROUP, members);
  const [volume] = volumes;
  assert.ok(volume !== undefined);
  catalogue.removeVolume(volume.volumeId);
  assert.equal(catalogue.volumeById(volume.volumeId)?.state, 'deleted');
  catalogue.removeGroup('group-1', []);
  assert.deepEqual(states(), []);
  assert.equal(catalogue.groupById('group-1'), null);
  assert.equal(catalogue.volumeById(volume.volumeId), null);
});

test('a name belongs to one group, and a failed insertion leaves nothing behind', () => {
  catalogue.insertGroup(GROUP, members);
  const other = { ...GROUP, groupSnapshotId: 'group-2' };
  throwsWith(() => catalogue.insertGroup(other, []), 'ALREADY_EXISTS', /nightly/);
  const half = { ...GROUP, groupSnapshotId: 'group-3', name: 'other' };
  const [first] = members;
  assert.ok(first !== undefined);
  const fresh = { ...first, snapshotId: 'snap-new', groupSnapshotId: 'group-3' };
  throwsWith(() => catalogue.insertGroup(half, [fresh, first]), 'ALREADY_EXISTS');
  assert.equal(catalogue.groupById('group-3'), null);
  assert.equal(catalogue.snapshotById('snap-new'), null);
});

test('snapshots of an older catalogue keep their fields and their order', () => {
  const made = volumes.map((volume) => catalogue.insertSnapshot(snapshotRecord(volume)));
  catalogue.close();
  const database = new SqliteConnection(file, 0);
  downgrade(database);
  database.close();
  catalogue = openCatalogueHere(file);
  for (const snapshot of made) {
    assert.deepEqual(catalogue.snapshotById(snapshot.snapshotId), snapshot);
  }
  const [volume] = volumes;
  assert.ok(volume !== undefined);
  assert.deepEqual(catalogue.volumeById(volume.volumeId), volume);
  const next = catalogue.insertSnapshot(snapshotRecord(volume));
  assert.ok(next.sequence > (made.at(-1)?.sequence ?? 0n), 'a later cut has a higher number');
});

/** Reverts all steps of the schema but the first, as far as the tests need it. */
function downgrade(database: SqliteConnection): void {
  database.exec(`
    DROP TABLE kept_bases;
    DROP TABLE former_node_keys;
    ALTER TABLE catalogue DROP COLUMN node_id;
    DROP TABLE controller_publications;
    ALTER TABLE stagings DROP COLUMN resolved_path;
    ALTER TABLE publications DROP COLUMN resolved_path;
    ALTER TABLE publications DROP COLUMN pod_uid;
    ALTER TABLE volumes DROP COLUMN created_mutable_parameters;
    ALTER TABLE volumes DROP COLUMN mutable_parameters;
    ALTER TABLE volumes DROP COLUMN source_volume_id;
    ALTER TABLE volumes DROP COLUMN awaits_growth;
    DROP INDEX snapshots_by_group;
    CREATE TABLE older (
      sequence INTEGER PRIMARY KEY AUTOINCREMENT,
      snapshot_id TEXT NOT NULL UNIQUE,
      name TEXT NOT NULL UNIQUE,
      volume_id TEXT NOT NULL REFERENCES volumes(volume_id),
      pool TEXT NOT NULL REFERENCES pools(name),
      size_bytes INTEGER NOT NULL,
      state TEXT NOT NULL,
      creation_time_ns INTEGER NOT NULL,
      parameters TEXT NOT NULL,
      fresh INTEGER NOT NULL
    ) STRICT;
    INSERT INTO older SELECT sequence, snapshot_id, name, volume_id, pool, size_bytes, state,
      creation_time_ns, parameters, fresh FROM snapshots;
    DROP TABLE snapshots;
    ALTER TABLE older RENAME TO snapshots;
    CREATE INDEX snapshots_by_volume ON snapshots(volume_id);
    DROP TABLE group_snapshots;
    PRAGMA user_version = 1;
  `);
}
