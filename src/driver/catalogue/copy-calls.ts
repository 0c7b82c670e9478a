/** The catalogue's calls about copies on other nodes of snapshots of this node. Each call is a transaction. */

import { freesSpace, reads, takesSpace, writes } from '../database/calls.js';
import type { SqliteConnection } from '../database/connection.js';
import type { CopyRecord, ListedCopy } from './records.js';
import { copyRow } from './rows.js';

export function copyCalls(database: SqliteConnection) {
  return {
    /**
     * The copies that other nodes are to make of snapshots that are ready, and those that they are to remove. A copy that was
     * given up for another node stays until that one keeps it: it may be complete, and the only one.
     */
    unsettledCopies: reads((): ListedCopy[] =>
      copiesWhere(
        database,
        `copies.state <> 'kept' AND IIF(copies.state = 'ending', COALESCE(awaits_copy, 0) = 0, snapshots.state = 'ready')`,
      ),
    ),
    keptCopies: reads((): ListedCopy[] => copiesWhere(database, "copies.state = 'kept'")),
    /** Replaces the node that is to make a copy: its promise, if it makes one yet, is to be ended. Nothing unless it is pending. */
    chooseCopy: takesSpace((instead: string, copy: CopyRecord): void => {
      const pending = pendingCopy(database, instead);
      if (pending === null) return;
      database.run("UPDATE copies SET state = 'ending' WHERE promise_id = ?", instead);
      insertCopy(database, { ...copy, snapshotId: pending.snapshotId });
    }),
    /** Records that the node keeps the copy: its snapshot is ready. Nothing unless it is pending. */
    copyKept: writes((promiseId: string): void => {
      const pending = pendingCopy(database, promiseId);
      if (pending === null) return;
      database.run("UPDATE copies SET state = 'kept' WHERE promise_id = ?", promiseId);
      database.run('UPDATE snapshots SET awaits_copy = 0 WHERE snapshot_id = ?', pending.snapshotId);
    }),
    /** Records that the node has removed the copy. Nothing unless it was to. */
    copyEnded: freesSpace((promiseId: string): void =>
      database.run("DELETE FROM copies WHERE promise_id = ? AND state = 'ending'", promiseId),
    ),
  };
}

const copiesWhere = (database: SqliteConnection, condition: string): ListedCopy[] =>
  database
    .all(
      `SELECT copies.*, COALESCE(volume_id, '') AS volume_id, COALESCE(volumes.parameters ->> 'pool', '') AS pool FROM copies
         LEFT JOIN snapshots USING (snapshot_id) LEFT JOIN volumes USING (volume_id) WHERE ${condition}`,
    )
    .map((row) => ({ ...copyRow(row), volumeId: String(row['volume_id']), pool: String(row['pool']) }));

function pendingCopy(database: SqliteConnection, promiseId: string): CopyRecord | null {
  return database.find(copyRow, "SELECT * FROM copies WHERE promise_id = ? AND state = 'pending'", promiseId);
}

/** Runs inside the caller's transaction, as the next one does. */
export function insertCopy(database: SqliteConnection, { promiseId, snapshotId, nodeId, state }: CopyRecord): void {
  database.run(
    'INSERT INTO copies (promise_id, snapshot_id, node_id, state) VALUES (?, ?, ?, ?)',
    promiseId,
    snapshotId,
    nodeId,
    state,
  );
  database.run(
    'INSERT OR IGNORE INTO copied_volumes (volume_id) SELECT volume_id FROM snapshots WHERE snapshot_id = ?',
    snapshotId,
  );
}

export function endCopies(database: SqliteConnection, snapshotId: string): void {
  database.run("UPDATE copies SET state = 'ending' WHERE snapshot_id = ?", snapshotId);
}
