/**
 * The catalogue's calls about snapshots and group snapshots. Each one is a transaction; a group and its
 * members always have the same state. Knows no rules of CSI.
 */

import { CsiError } from '../../base/errors.js';
import { freesSpace, reads, takesSpace, writes } from '../database/calls.js';
import { insertUnique, type SqliteConnection } from '../database/connection.js';
import { endCopies, insertCopy } from './copy-calls.js';
import type {
  CopyRecord,
  GroupSnapshotRecord,
  ListPage,
  MemberSize,
  NewRetainedBase,
  NewSnapshot,
  SnapshotFilter,
  SnapshotRecord,
  SnapshotState,
} from './records.js';
import { insertRetainedBase } from './retained-base-calls.js';
import * as rows from './rows.js';
import { dropOrphanedLineage, WHOLE_LIST } from './volume-calls.js';

export function snapshotCalls(database: SqliteConnection) {
  return {
    snapshotById: reads((snapshotId: string): SnapshotRecord | null => snapshotById(database, snapshotId)),
    snapshotByName: reads((name: string): SnapshotRecord | null =>
      database.find(rows.snapshotRow, 'SELECT * FROM snapshots WHERE name = ?', name),
    ),
    /** The newest ready snapshot of the volume that was taken before this sequence; null if there is none. */
    snapshotBefore: reads((volumeId: string, sequence: bigint): SnapshotRecord | null =>
      neighbour(database, '< ? ORDER BY sequence DESC', volumeId, sequence),
    ),
    /** The oldest ready snapshot of the volume that was taken after this sequence; null if there is none. */
    snapshotAfter: reads((volumeId: string, sequence: bigint): SnapshotRecord | null =>
      neighbour(database, '> ? ORDER BY sequence', volumeId, sequence),
    ),
    /**
     * Snapshots that are ready or being deleted, in the order of their ids; without a page, all of
     * them.
     */
    snapshotsForClones: reads((): SnapshotRecord[] =>
      database
        .all("SELECT * FROM snapshots WHERE state = 'ready' AND parameters ->> 'cloneName' IS NOT NULL")
        .map(rows.snapshotRow),
    ),
    listSnapshots: reads((page?: ListPage, filter?: SnapshotFilter): SnapshotRecord[] =>
      listSnapshots(database, page, filter),
    ),
    /** Inserts the snapshot and assigns its sequence. The same transaction records the copy that it awaits, unless that is null. */
    insertSnapshot: takesSpace((snapshot: NewSnapshot, copy: CopyRecord | null = null): SnapshotRecord => {
      const inserted = insertSnapshot(database, snapshot);
      if (copy !== null) insertCopy(database, copy);
      return inserted;
    }),
    commitSnapshot: writes((snapshotId: string, creationTimeNs: bigint, sizeBytes: bigint): SnapshotRecord => {
      commit(database, snapshotId, creationTimeNs, sizeBytes);
      return existingSnapshot(database, snapshotId);
    }),
    setSnapshotState: freesSpace((snapshotId: string, state: SnapshotState): void =>
      database.run('UPDATE snapshots SET state = ? WHERE snapshot_id = ?', state, snapshotId),
    ),
    /**
     * Removes the snapshot. With the last snapshot of a deleted volume, also removes the volume's `deleted` row. The same
     * transaction records the retained base, unless `base` is null, and that its copies on other nodes are to be removed.
     */
    removeSnapshot: freesSpace((snapshotId: string, base: NewRetainedBase | null): void => {
      const snapshot = snapshotById(database, snapshotId);
      if (snapshot !== null) removeSnapshot(database, snapshot, base);
    }),
  };
}

export function groupCalls(database: SqliteConnection) {
  return {
    groupById: reads((groupSnapshotId: string): GroupSnapshotRecord | null =>
      database.find(rows.groupRow, 'SELECT * FROM group_snapshots WHERE group_snapshot_id = ?', groupSnapshotId),
    ),
    groupByName: reads((name: string): GroupSnapshotRecord | null =>
      database.find(rows.groupRow, 'SELECT * FROM group_snapshots WHERE name = ?', name),
    ),
    /** The members of the group, in the order in which they were taken. */
    snapshotsOfGroup: reads((groupSnapshotId: string): SnapshotRecord[] => snapshotsOfGroup(database, groupSnapshotId)),
    /** Inserts the group and all its members; assigns the sequences. */
    insertGroup: takesSpace((group: GroupSnapshotRecord, members: readonly NewSnapshot[]): SnapshotRecord[] =>
      insertUnique(`group snapshot name '${group.name}'`, () => {
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
    commitGroup: writes((groupSnapshotId: string, creationTimeNs: bigint, sizes: readonly MemberSize[]): void => {
      for (const { snapshotId, sizeBytes } of sizes) {
        commit(database, snapshotId, creationTimeNs, sizeBytes);
      }
      database.run(
        "UPDATE group_snapshots SET state = 'ready', creation_time_ns = ? WHERE group_snapshot_id = ?",
        creationTimeNs,
        groupSnapshotId,
      );
    }),
    setGroupState: freesSpace((groupSnapshotId: string, state: SnapshotState): void => {
      const where = 'WHERE group_snapshot_id = ?';
      database.run(`UPDATE group_snapshots SET state = ? ${where}`, state, groupSnapshotId);
      database.run(`UPDATE snapshots SET state = ? ${where}`, state, groupSnapshotId);
    }),
    /** Removes the group, and its members as removeSnapshot does. A member may have no retained base. */
    removeGroup: freesSpace((groupSnapshotId: string, bases: readonly NewRetainedBase[]): void => {
      const byId = new Map(bases.map((each) => [each.snapshotId, each]));
      for (const member of snapshotsOfGroup(database, groupSnapshotId)) {
        removeSnapshot(database, member, byId.get(member.snapshotId) ?? null);
      }
      database.run('DELETE FROM group_snapshots WHERE group_snapshot_id = ?', groupSnapshotId);
    }),
  };
}

function snapshotById(database: SqliteConnection, snapshotId: string): SnapshotRecord | null {
  return database.find(rows.snapshotRow, 'SELECT * FROM snapshots WHERE snapshot_id = ?', snapshotId);
}

/** @param which the SQL that compares the sequence and gives the order */
function neighbour(
  database: SqliteConnection,
  which: string,
  volumeId: string,
  sequence: bigint,
): SnapshotRecord | null {
  return database.find(
    rows.snapshotRow,
    `SELECT * FROM snapshots WHERE state = 'ready' AND volume_id = ? AND sequence ${which} LIMIT 1`,
    volumeId,
    sequence,
  );
}

function existingSnapshot(database: SqliteConnection, snapshotId: string): SnapshotRecord {
  const snapshot = snapshotById(database, snapshotId);
  if (snapshot === null) throw CsiError.internal(`snapshot ${snapshotId} is not in the catalogue`);
  return snapshot;
}

/** The conditions let SQLite use the most selective index, by id or by volume. */
function listSnapshots(
  database: SqliteConnection,
  { after, limit }: ListPage = WHOLE_LIST,
  { snapshotId, volumeId }: SnapshotFilter = { snapshotId: '', volumeId: '' },
): SnapshotRecord[] {
  const given = [snapshotId, volumeId].filter((id) => id !== '');
  const conditions = [
    ...(snapshotId === '' ? [] : ['snapshot_id = ?']),
    ...(volumeId === '' ? [] : ['volume_id = ?']),
    // Those taken for a clone on another node are nobody's.
    "snapshot_id > ? AND state IN ('ready', 'deleting') AND parameters ->> 'cloneName' IS NULL",
  ];
  const found = database.all(
    `SELECT * FROM snapshots WHERE ${conditions.join(' AND ')} ORDER BY snapshot_id LIMIT ?`,
    ...given,
    after,
    limit,
  );
  return found.map(rows.snapshotRow);
}

function snapshotsOfGroup(database: SqliteConnection, groupSnapshotId: string): SnapshotRecord[] {
  return database
    .all('SELECT * FROM snapshots WHERE group_snapshot_id = ? ORDER BY sequence', groupSnapshotId)
    .map(rows.snapshotRow);
}

function insertSnapshot(database: SqliteConnection, snapshot: NewSnapshot): SnapshotRecord {
  insertUnique(`snapshot name '${snapshot.name}'`, () =>
    database.run(
      `INSERT INTO snapshots (snapshot_id, name, group_snapshot_id, volume_id, pool, size_bytes,
         state, creation_time_ns, parameters, pristine, awaits_copy) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      snapshot.snapshotId,
      snapshot.name,
      snapshot.groupSnapshotId,
      snapshot.volumeId,
      snapshot.pool,
      snapshot.sizeBytes,
      snapshot.state,
      snapshot.creationTimeNs,
      JSON.stringify(snapshot.parameters),
      snapshot.pristine ? 1 : 0,
      snapshot.awaitsCopy ? 1 : 0,
    ),
  );
  return existingSnapshot(database, snapshot.snapshotId);
}

function commit(database: SqliteConnection, snapshotId: string, creationTimeNs: bigint, sizeBytes: bigint): void {
  database.run(
    "UPDATE snapshots SET state = 'ready', creation_time_ns = ?, size_bytes = ? WHERE snapshot_id = ?",
    creationTimeNs,
    sizeBytes,
    snapshotId,
  );
}

/** Runs inside the caller's transaction. */
function removeSnapshot(database: SqliteConnection, snapshot: SnapshotRecord, base: NewRetainedBase | null): void {
  if (base !== null) insertRetainedBase(database, snapshot, base);
  endCopies(database, snapshot.snapshotId);
  database.run('DELETE FROM snapshots WHERE snapshot_id = ?', snapshot.snapshotId);
  dropOrphanedLineage(database, snapshot.volumeId);
}
