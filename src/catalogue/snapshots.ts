/**
 * The catalogue's calls about snapshots and groups of them, in SQL. Each one is a transaction; a
 * group and its members never differ in state. No rule of CSI lives here.
 */

import { CsiError } from '../base/errors.js';
import { insertUnique, type KeptDatabase } from '../database/kept-database.js';
import type {
  Catalogue,
  ListStretch,
  NewSnapshot,
  Remains,
  SnapshotFilter,
  SnapshotRecord,
} from './records.js';
import { insertRetainedBase } from './retained-bases.js';
import * as rows from './rows.js';
import { dropOrphanedLineage, WHOLE_LIST } from './volumes.js';

export type SnapshotCalls = Pick<
  Catalogue,
  | 'snapshotById'
  | 'snapshotByName'
  | 'listSnapshots'
  | 'insertSnapshot'
  | 'commitSnapshot'
  | 'setSnapshotState'
  | 'removeSnapshot'
>;

export type GroupCalls = Pick<
  Catalogue,
  | 'groupById'
  | 'groupByName'
  | 'listGroups'
  | 'snapshotsOfGroup'
  | 'insertGroup'
  | 'commitGroup'
  | 'setGroupState'
  | 'removeGroup'
>;

export function snapshotCalls(database: KeptDatabase): SnapshotCalls {
  return {
    snapshotById: (snapshotId) => snapshotById(database, snapshotId),
    snapshotByName: (name) =>
      rows.snapshot(database.get('SELECT * FROM snapshots WHERE name = ?', name)),
    listSnapshots: (stretch, filter) => listSnapshots(database, stretch, filter),
    insertSnapshot: (snapshot) => insertSnapshot(database, snapshot),
    commitSnapshot: (snapshotId, creationTimeNs, sizeBytes) => {
      commit(database, snapshotId, creationTimeNs, sizeBytes);
      return existingSnapshot(database, snapshotId);
    },
    setSnapshotState: (snapshotId, state) =>
      database.run('UPDATE snapshots SET state = ? WHERE snapshot_id = ?', state, snapshotId),
    removeSnapshot: (snapshotId, remains) =>
      database.transaction(() => {
        const snapshot = snapshotById(database, snapshotId);
        if (snapshot !== null) removeSnapshot(database, snapshot, remains);
      }),
  };
}

/** The most selective index serves each filter: that of the ids, or that of the volumes. */
function listSnapshots(
  database: KeptDatabase,
  { after, limit }: ListStretch = WHOLE_LIST,
  { snapshotId, volumeId }: SnapshotFilter = { snapshotId: '', volumeId: '' },
): SnapshotRecord[] {
  const given = [snapshotId, volumeId].filter((id) => id !== '');
  const conditions = [
    ...(snapshotId === '' ? [] : ['snapshot_id = ?']),
    ...(volumeId === '' ? [] : ['volume_id = ?']),
    "snapshot_id > ? AND state IN ('ready', 'deleting')",
  ];
  const found = database.all(
    `SELECT * FROM snapshots WHERE ${conditions.join(' AND ')} ORDER BY snapshot_id LIMIT ?`,
    ...given,
    after,
    limit,
  );
  return found.map(rows.snapshotRow);
}

export function groupCalls(database: KeptDatabase): GroupCalls {
  const snapshotsOfGroup: Catalogue['snapshotsOfGroup'] = (groupId) =>
    database
      .all('SELECT * FROM snapshots WHERE group_snapshot_id = ? ORDER BY sequence', groupId)
      .map(rows.snapshotRow);
  const setState = 'UPDATE group_snapshots SET state = ? WHERE group_snapshot_id = ?';
  return {
    groupById: (groupId) =>
      rows.group(
        database.get('SELECT * FROM group_snapshots WHERE group_snapshot_id = ?', groupId),
      ),
    groupByName: (name) =>
      rows.group(database.get('SELECT * FROM group_snapshots WHERE name = ?', name)),
    listGroups: () =>
      database
        .all("SELECT * FROM group_snapshots WHERE state = 'ready' ORDER BY group_snapshot_id")
        .map(rows.groupRow),
    snapshotsOfGroup,
    insertGroup: (group, members) =>
      insertUnique(`group snapshot name '${group.name}'`, () =>
        database.transaction(() => {
          database.run(
            `INSERT INTO group_snapshots (group_snapshot_id, name, state, creation_time_ns, parameters)
               VALUES (?, ?, ?, ?, ?)`,
            group.groupSnapshotId,
            group.name,
            group.state,
            group.creationTimeNs,
            JSON.stringify(group.parameters),
          );
          return members.map((member) => insertSnapshot(database, member));
        }),
      ),
    commitGroup: (groupId, creationTimeNs, sizes) =>
      database.transaction(() => {
        for (const { snapshotId, sizeBytes } of sizes) {
          commit(database, snapshotId, creationTimeNs, sizeBytes);
        }
        database.run(
          "UPDATE group_snapshots SET state = 'ready', creation_time_ns = ? WHERE group_snapshot_id = ?",
          creationTimeNs,
          groupId,
        );
      }),
    setGroupState: (groupId, state) =>
      database.transaction(() => {
        database.run(setState, state, groupId);
        database.run('UPDATE snapshots SET state = ? WHERE group_snapshot_id = ?', state, groupId);
      }),
    removeGroup: (groupId, remains) =>
      database.transaction(() => {
        const of = new Map(remains.map((each) => [each.snapshotId, each]));
        for (const member of snapshotsOfGroup(groupId)) {
          removeSnapshot(database, member, of.get(member.snapshotId) ?? null);
        }
        database.run('DELETE FROM group_snapshots WHERE group_snapshot_id = ?', groupId);
      }),
  };
}

function snapshotById(database: KeptDatabase, snapshotId: string): SnapshotRecord | null {
  return rows.snapshot(database.get('SELECT * FROM snapshots WHERE snapshot_id = ?', snapshotId));
}

function existingSnapshot(database: KeptDatabase, snapshotId: string): SnapshotRecord {
  const snapshot = snapshotById(database, snapshotId);
  if (snapshot === null) throw CsiError.internal(`snapshot ${snapshotId} is not in the catalogue`);
  return snapshot;
}

function insertSnapshot(database: KeptDatabase, snapshot: NewSnapshot): SnapshotRecord {
  insertUnique(`snapshot name '${snapshot.name}'`, () =>
    database.run(
      `INSERT INTO snapshots (snapshot_id, name, group_snapshot_id, volume_id, pool, size_bytes,
         state, creation_time_ns, parameters, fresh) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      snapshot.snapshotId,
      snapshot.name,
      snapshot.groupSnapshotId,
      snapshot.volumeId,
      snapshot.pool,
      snapshot.sizeBytes,
      snapshot.state,
      snapshot.creationTimeNs,
      JSON.stringify(snapshot.parameters),
      snapshot.fresh ? 1 : 0,
    ),
  );
  return existingSnapshot(database, snapshot.snapshotId);
}

function commit(
  database: KeptDatabase,
  snapshotId: string,
  creationTimeNs: bigint,
  sizeBytes: bigint,
): void {
  database.run(
    "UPDATE snapshots SET state = 'ready', creation_time_ns = ?, size_bytes = ? WHERE snapshot_id = ?",
    creationTimeNs,
    sizeBytes,
    snapshotId,
  );
}

/** Inside a transaction. */
function removeSnapshot(
  database: KeptDatabase,
  snapshot: SnapshotRecord,
  remains: Remains | null,
): void {
  if (remains !== null) insertRetainedBase(database, snapshot, remains);
  database.run('DELETE FROM snapshots WHERE snapshot_id = ?', snapshot.snapshotId);
  dropOrphanedLineage(database, snapshot.volumeId);
}
