/** The catalogue's calls about volumes. Each one is a transaction. Knows no rules of CSI. */

import type { StringMap } from '../../base/csi/string-map.js';
import { freesSpace, reads, takesSpace, writes } from '../database/calls.js';
import { insertUnique, type SqliteConnection } from '../database/connection.js';
import type { ListPage, RestoreMark, VolumeRecord, VolumeState } from './records.js';
import * as rows from './rows.js';

/** For SQLite, a negative limit means no limit. */
export const WHOLE_LIST: ListPage = { after: '', limit: -1 };

export function volumeCalls(database: SqliteConnection) {
  return {
    volumeById: reads((volumeId: string): VolumeRecord | null =>
      database.find(rows.volumeRow, 'SELECT * FROM volumes WHERE volume_id = ?', volumeId),
    ),
    /** Finds only volumes that are not deleted. */
    volumeByName: reads((name: string): VolumeRecord | null =>
      database.find(rows.volumeRow, "SELECT * FROM volumes WHERE name = ? AND state <> 'deleted'", name),
    ),
    /** Ready volumes in the order of their ids; without a page, all of them. */
    listVolumes: reads(({ after, limit }: ListPage = WHOLE_LIST): VolumeRecord[] =>
      database
        .all(
          `SELECT * FROM volumes WHERE state = 'ready' AND volume_id > ?
             ORDER BY volume_id LIMIT ?`,
          after,
          limit,
        )
        .map(rows.volumeRow),
    ),
    insertVolume: takesSpace((volume: VolumeRecord): void =>
      insertUnique(`volume name '${volume.name}'`, () =>
        database.run(
          `INSERT INTO volumes (volume_id, name, pool, size_bytes, state, parameters,
             created_mutable_parameters, mutable_parameters, capabilities, source_snapshot_id,
             source_volume_id, pristine, awaits_growth, created_ns)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
          volume.volumeId,
          volume.name,
          volume.pool,
          volume.sizeBytes,
          volume.state,
          JSON.stringify(volume.parameters),
          JSON.stringify(volume.createdMutableParameters),
          JSON.stringify(volume.mutableParameters),
          JSON.stringify(volume.capabilities),
          volume.sourceSnapshotId,
          volume.sourceVolumeId,
          volume.pristine ? 1 : 0,
          volume.awaitsGrowth ? 1 : 0,
          volume.createdNs,
        ),
      ),
    ),
    setVolumeState: freesSpace((volumeId: string, state: VolumeState): void =>
      setVolumeState(database, volumeId, state),
    ),
    /** Called before the volume is first handed out. After this call, the volume is never formatted. */
    markVolumeInitialized: writes((volumeId: string): void =>
      database.run('UPDATE volumes SET pristine = 0 WHERE volume_id = ?', volumeId),
    ),
    /** Ends `awaitsGrowth`: the volume's file system has the promised size. */
    markVolumeGrown: writes((volumeId: string): void =>
      database.run('UPDATE volumes SET awaits_growth = 0 WHERE volume_id = ?', volumeId),
    ),
    setVolumeSize: writes((volumeId: string, sizeBytes: bigint): void =>
      database.run('UPDATE volumes SET size_bytes = ? WHERE volume_id = ?', sizeBytes, volumeId),
    ),
    /** Marks the volume as half restored, or changes its mark. */
    putRestoreMark: takesSpace(({ volumeId, token, command, snapshotName }: RestoreMark): void =>
      database.run(
        'INSERT OR REPLACE INTO restore_marks (volume_id, token, command, snapshot_name) VALUES (?, ?, ?, ?)',
        volumeId,
        token,
        command,
        snapshotName,
      ),
    ),
    removeRestoreMark: freesSpace((volumeId: string): void =>
      database.run('DELETE FROM restore_marks WHERE volume_id = ?', volumeId),
    ),
    /** Replaces the mutable parameters in force. */
    setMutableParameters: takesSpace((volumeId: string, parameters: StringMap): void =>
      database.run(
        'UPDATE volumes SET mutable_parameters = ? WHERE volume_id = ?',
        JSON.stringify(parameters),
        volumeId,
      ),
    ),
    /**
     * Removes the volume with its stagings and its publications of both kinds. Keeps a `deleted` row
     * while snapshots refer to it.
     */
    removeVolume: freesSpace((volumeId: string): void => {
      for (const table of ['stagings', 'publications', 'controller_publications', 'copied_volumes', 'restore_marks']) {
        database.run(`DELETE FROM ${table} WHERE volume_id = ?`, volumeId);
      }
      setVolumeState(database, volumeId, 'deleted');
      dropOrphanedLineage(database, volumeId);
    }),
  };
}

function setVolumeState(database: SqliteConnection, volumeId: string, state: VolumeState): void {
  database.run('UPDATE volumes SET state = ? WHERE volume_id = ?', state, volumeId);
}

/** Removes the row of a deleted volume that no snapshot refers to. Runs inside the caller's transaction. */
export function dropOrphanedLineage(database: SqliteConnection, volumeId: string): void {
  database.run(
    `DELETE FROM volumes WHERE volume_id = ? AND state = 'deleted'
       AND NOT EXISTS (SELECT 1 FROM snapshots WHERE volume_id = volumes.volume_id)`,
    volumeId,
  );
}
