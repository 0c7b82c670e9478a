/**
 * The catalogue's calls about what is kept of deleted snapshots, in SQL. Each one is a transaction.
 * How many are kept and for how long is decided in volumes/retained-bases.ts.
 */
import type { KeptDatabase } from '../database/kept-database.js';
import type { Catalogue, Remains, SnapshotRecord } from './records.js';
import * as rows from './rows.js';

export type RetainedBaseCalls = Pick<
  Catalogue,
  'retainedBaseById' | 'listRetainedBases' | 'invalidateRetainedBase' | 'removeRetainedBase'
>;

const SELECT = `
  SELECT *,
    EXISTS (SELECT 1 FROM volumes
      WHERE volumes.volume_id = kept_bases.volume_id AND volumes.state <> 'deleted')
    OR EXISTS (SELECT 1 FROM snapshots
      WHERE snapshots.volume_id = kept_bases.volume_id
        AND snapshots.sequence > kept_bases.sequence) AS awaited
  FROM kept_bases`;

export function retainedBaseCalls(database: KeptDatabase): RetainedBaseCalls {
  return {
    retainedBaseById: (snapshotId) => {
      const row = database.get(`${SELECT} WHERE snapshot_id = ?`, snapshotId);
      return row === undefined ? null : rows.retainedBaseRow(row);
    },
    listRetainedBases: (pool) =>
      database.all(`${SELECT} WHERE pool = ? ORDER BY sequence`, pool).map(rows.retainedBaseRow),
    invalidateRetainedBase: (snapshotId, reason, timeNs) =>
      database.run(
        'UPDATE kept_bases SET lost_reason = ?, lost_ns = ? WHERE snapshot_id = ?',
        reason,
        timeNs,
        snapshotId,
      ),
    removeRetainedBase: (snapshotId) =>
      database.run('DELETE FROM kept_bases WHERE snapshot_id = ?', snapshotId),
  };
}

/** Inside the transaction that removes the snapshot's row. */
export function insertRetainedBase(
  database: KeptDatabase,
  snapshot: SnapshotRecord,
  { deletedNs, storedBytes, lostReason }: Remains,
): void {
  database.run(
    `INSERT INTO kept_bases (snapshot_id, volume_id, pool, sequence, size_bytes, creation_time_ns,
       deleted_ns, stored_bytes, lost_reason, lost_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    snapshot.snapshotId,
    snapshot.volumeId,
    snapshot.pool,
    snapshot.sequence,
    snapshot.sizeBytes,
    snapshot.creationTimeNs,
    deletedNs,
    storedBytes,
    lostReason,
    lostReason === null ? null : deletedNs,
  );
}
