/** The catalogue's calls about volumes, in SQL. Each one is a transaction. No rule of CSI lives here. */

import { insertUnique, type KeptDatabase } from '../database/kept-database.js';
import type { Catalogue, ListStretch } from './records.js';
import * as rows from './rows.js';

export type VolumeCalls = Pick<
  Catalogue,
  | 'volumeById'
  | 'volumeByName'
  | 'listVolumes'
  | 'insertVolume'
  | 'setVolumeState'
  | 'markVolumeInitialized'
  | 'markVolumeGrown'
  | 'setVolumeSize'
  | 'setMutableParameters'
  | 'removeVolume'
>;

/** SQLite takes a negative limit for none. */
export const WHOLE_LIST: ListStretch = { after: '', limit: -1 };

export function volumeCalls(database: KeptDatabase): VolumeCalls {
  const setVolumeState: Catalogue['setVolumeState'] = (volumeId, state) =>
    database.run('UPDATE volumes SET state = ? WHERE volume_id = ?', state, volumeId);
  return {
    volumeById: (volumeId) =>
      rows.volume(database.get('SELECT * FROM volumes WHERE volume_id = ?', volumeId)),
    volumeByName: (name) =>
      rows.volume(
        database.get("SELECT * FROM volumes WHERE name = ? AND state <> 'deleted'", name),
      ),
    listVolumes: ({ after, limit } = WHOLE_LIST) =>
      database
        .all(
          `SELECT * FROM volumes WHERE state = 'ready' AND volume_id > ?
             ORDER BY volume_id LIMIT ?`,
          after,
          limit,
        )
        .map(rows.volumeRow),
    insertVolume: (volume) =>
      insertUnique(`volume name '${volume.name}'`, () =>
        database.run(
          `INSERT INTO volumes (volume_id, name, pool, size_bytes, state, parameters,
             created_mutable_parameters, mutable_parameters, capabilities, source_snapshot_id,
             source_volume_id, fresh, awaits_growth, created_ns)
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
          volume.fresh ? 1 : 0,
          volume.awaitsGrowth ? 1 : 0,
          volume.createdNs,
        ),
      ),
    setVolumeState,
    markVolumeInitialized: (volumeId) =>
      database.run('UPDATE volumes SET fresh = 0 WHERE volume_id = ?', volumeId),
    markVolumeGrown: (volumeId) =>
      database.run('UPDATE volumes SET awaits_growth = 0 WHERE volume_id = ?', volumeId),
    setVolumeSize: (volumeId, sizeBytes) =>
      database.run('UPDATE volumes SET size_bytes = ? WHERE volume_id = ?', sizeBytes, volumeId),
    setMutableParameters: (volumeId, parameters) =>
      database.run(
        'UPDATE volumes SET mutable_parameters = ? WHERE volume_id = ?',
        JSON.stringify(parameters),
        volumeId,
      ),
    removeVolume: (volumeId) =>
      database.transaction(() => {
        for (const table of ['stagings', 'publications', 'controller_publications']) {
          database.run(`DELETE FROM ${table} WHERE volume_id = ?`, volumeId);
        }
        setVolumeState(volumeId, 'deleted');
        dropOrphanedLineage(database, volumeId);
      }),
  };
}

/** Forgets a deleted volume that no snapshot refers to any more. Inside a transaction. */
export function dropOrphanedLineage(database: KeptDatabase, volumeId: string): void {
  database.run(
    `DELETE FROM volumes WHERE volume_id = ? AND state = 'deleted'
       AND NOT EXISTS (SELECT 1 FROM snapshots WHERE volume_id = volumes.volume_id)`,
    volumeId,
  );
}
