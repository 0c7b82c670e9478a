/**
 * The catalogue's calls about retained bases. Each call is a transaction. volumes/retained-bases.ts decides how many bases are
 * retained, and for how long.
 */

import { freesSpace, reads } from '../database/calls.js';
import type { SqliteConnection } from '../database/connection.js';
import type { NewRetainedBase, RetainedBaseRecord, SnapshotRecord } from './records.js';
import * as rows from './rows.js';

const SELECT = `
  SELECT *,
    EXISTS (SELECT 1 FROM volumes
      WHERE volumes.volume_id = retained_bases.volume_id AND volumes.state <> 'deleted')
    OR EXISTS (SELECT 1 FROM snapshots
      WHERE snapshots.volume_id = retained_bases.volume_id
        AND snapshots.sequence > retained_bases.sequence) AS useful
  FROM retained_bases`;

export function retainedBaseCalls(database: SqliteConnection) {
  return {
    retainedBaseById: reads((snapshotId: string): RetainedBaseRecord | null =>
      database.find(rows.retainedBaseRow, `${SELECT} WHERE snapshot_id = ?`, snapshotId),
    ),
    /** The valid and the invalidated bases of a pool, in the order in which the snapshots were taken. */
    listRetainedBases: reads((pool: string): RetainedBaseRecord[] =>
      database.all(`${SELECT} WHERE pool = ? ORDER BY sequence`, pool).map(rows.retainedBaseRow),
    ),
    retainedBasesOf: reads((pool: string, volumeId: string): RetainedBaseRecord[] =>
      database
        .all(`${SELECT} WHERE pool = ? AND volume_id = ? ORDER BY sequence`, pool, volumeId)
        .map(rows.retainedBaseRow),
    ),
    invalidateRetainedBase: freesSpace((snapshotId: string, reason: string, timeNs: bigint): void =>
      database.run(
        'UPDATE retained_bases SET invalid_reason = ?, invalid_ns = ? WHERE snapshot_id = ?',
        reason,
        timeNs,
        snapshotId,
      ),
    ),
    removeRetainedBase: freesSpace((snapshotId: string): void =>
      database.run('DELETE FROM retained_bases WHERE snapshot_id = ?', snapshotId),
    ),
  };
}

/** Runs inside the transaction that removes the snapshot's row. */
export function insertRetainedBase(
  database: SqliteConnection,
  snapshot: SnapshotRecord,
  { deletedNs, storedBytes, invalidReason }: NewRetainedBase,
): void {
  database.run(
    `INSERT INTO retained_bases (snapshot_id, volume_id, pool, sequence, size_bytes, creation_time_ns,
       deleted_ns, stored_bytes, invalid_reason, invalid_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    snapshot.snapshotId,
    snapshot.volumeId,
    snapshot.pool,
    snapshot.sequence,
    snapshot.sizeBytes,
    snapshot.creationTimeNs,
    deletedNs,
    storedBytes,
    invalidReason,
    invalidReason === null ? null : deletedNs,
  );
}
