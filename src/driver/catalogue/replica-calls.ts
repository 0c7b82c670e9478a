/** The catalogue's calls about replicas of snapshots of other nodes. Each call is a transaction. */

import { freesSpace, reads, takesSpace, writes } from '../database/calls.js';
import type { SqliteConnection } from '../database/connection.js';
import type { ReplicaRecord } from './records.js';
import * as rows from './rows.js';

export function replicaCalls(database: SqliteConnection) {
  const find = (snapshotId: string): ReplicaRecord | null =>
    database.find(rows.replicaRow, 'SELECT * FROM replicas WHERE snapshot_id = ?', snapshotId);
  return {
    replicaById: reads(find),
    /** The newest snapshot first. */
    replicasOf: reads((volumeId: string): ReplicaRecord[] =>
      database.all('SELECT * FROM replicas WHERE volume_id = ? ORDER BY sequence DESC', volumeId).map(rows.replicaRow),
    ),
    /** The newest complete replica that was pulled for a clone of the volume with that name. */
    replicaForClone: reads((volumeId: string, name: string): ReplicaRecord | null =>
      database.find(
        rows.replicaRow,
        `SELECT * FROM replicas WHERE volume_id = ? AND clone_name = ? AND next_offset IS NULL
           ORDER BY sequence DESC LIMIT 1`,
        volumeId,
        name,
      ),
    ),
    listReplicas: reads((): ReplicaRecord[] =>
      database.all('SELECT * FROM replicas ORDER BY volume_id, sequence').map(rows.replicaRow),
    ),
    /** Replaces the row of an earlier pull of the snapshot. */
    putReplica: takesSpace((replica: ReplicaRecord): void => put(database, replica)),
    /** Records that everything before the offset is durable; null: the replica is complete. */
    advanceReplica: writes((snapshotId: string, nextOffset: bigint | null, nowNs: bigint): void =>
      database.run(
        'UPDATE replicas SET next_offset = ?, used_ns = ? WHERE snapshot_id = ?',
        nextOffset,
        nowNs,
        snapshotId,
      ),
    ),
    replicaAsked: writes((snapshotId: string, nowNs: bigint): void =>
      database.run('UPDATE replicas SET asked_ns = ? WHERE snapshot_id = ?', nowNs, snapshotId),
    ),
    replicaUsed: writes((snapshotId: string, nowNs: bigint): void =>
      database.run('UPDATE replicas SET used_ns = ? WHERE snapshot_id = ?', nowNs, snapshotId),
    ),
    replicaPromised: takesSpace((snapshotId: string, promiseId: string | null): void =>
      database.run('UPDATE replicas SET promise_id = ? WHERE snapshot_id = ?', promiseId, snapshotId),
    ),
    removeReplica: freesSpace((snapshotId: string): void =>
      database.run('DELETE FROM replicas WHERE snapshot_id = ?', snapshotId),
    ),
  };
}

function put(database: SqliteConnection, replica: ReplicaRecord): void {
  database.run(
    `INSERT OR REPLACE INTO replicas (snapshot_id, volume_id, pool, size_bytes, sequence, creation_time_ns, pristine,
       file_system, capabilities, catalogue_uuid, pool_uuid, base_id, clone_name, promise_id, next_offset, asked_ns, used_ns)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    replica.snapshotId,
    replica.volumeId,
    replica.pool,
    replica.sizeBytes,
    replica.sequence,
    replica.creationTimeNs,
    replica.pristine ? 1 : 0,
    replica.fileSystem,
    JSON.stringify(replica.capabilities),
    replica.catalogueUuid,
    replica.poolUuid,
    replica.baseId,
    replica.cloneName,
    replica.promiseId,
    replica.nextOffset,
    replica.askedNs,
    replica.usedNs,
  );
}
