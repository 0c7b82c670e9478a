/**
 * The catalogue's calls about where volumes are used: stagings, publications on the node, and
 * publications by the controller. They record what was requested; mountinfo says what is mounted. Knows
 * no rules of CSI.
 */

import { freesSpace, reads, takesSpace } from '../database/calls.js';
import type { SqliteConnection } from '../database/connection.js';
import type { ControllerPublicationRecord, PublicationRecord, StagingRecord, VolumeUses } from './records.js';
import * as rows from './rows.js';

export function stagingCalls(database: SqliteConnection) {
  const stagings = (volumeId: string): StagingRecord[] =>
    database.all('SELECT * FROM stagings WHERE volume_id = ?', volumeId).map(rows.staging);
  return {
    stagings: reads(stagings),
    /** What the calls of the Node service begin with, in one call. */
    volumeUses: reads(
      (volumeId: string, targetPath = ''): VolumeUses => ({
        volume: database.find(rows.volumeRow, 'SELECT * FROM volumes WHERE volume_id = ?', volumeId),
        stagings: stagings(volumeId),
        publications: publicationsOf(database, volumeId),
        there: database.find(rows.publicationRow, 'SELECT * FROM publications WHERE target_path = ?', targetPath),
        copied: database.find(rows.copiedVolumeRow, 'SELECT * FROM copied_volumes WHERE volume_id = ?', volumeId),
        restore: database.find(rows.restoreMarkRow, 'SELECT * FROM restore_marks WHERE volume_id = ?', volumeId),
      }),
    ),
    /** The stagings of the pool's ready volumes without a publication. */
    unpublishedStagings: reads((pool: string): StagingRecord[] =>
      database
        .all(
          `SELECT stagings.* FROM stagings JOIN volumes USING (volume_id) WHERE pool = ? AND state = 'ready'
             AND volume_id NOT IN (SELECT volume_id FROM publications)`,
          pool,
        )
        .map(rows.staging),
    ),
    putStaging: takesSpace((staging: StagingRecord): void =>
      database.run(
        `INSERT OR REPLACE INTO stagings (volume_id, staging_path, resolved_path, capability)
         VALUES (?, ?, ?, ?)`,
        staging.volumeId,
        staging.stagingPath,
        staging.resolvedPath,
        JSON.stringify(staging.capability),
      ),
    ),
    removeStaging: freesSpace((volumeId: string, stagingPath: string): void =>
      database.run('DELETE FROM stagings WHERE volume_id = ? AND staging_path = ?', volumeId, stagingPath),
    ),
  };
}

export function publicationCalls(database: SqliteConnection) {
  return {
    publications: reads((volumeId: string): PublicationRecord[] => publicationsOf(database, volumeId)),
    putPublication: takesSpace((publication: PublicationRecord): void =>
      database.run(
        `INSERT OR REPLACE INTO publications
           (target_path, resolved_path, volume_id, staging_path, capability, read_only, pod_uid)
           VALUES (?, ?, ?, ?, ?, ?, ?)`,
        publication.targetPath,
        publication.resolvedPath,
        publication.volumeId,
        publication.stagingPath,
        JSON.stringify(publication.capability),
        publication.readOnly ? 1 : 0,
        publication.podUid,
      ),
    ),
    removePublication: freesSpace((targetPath: string): void =>
      database.run('DELETE FROM publications WHERE target_path = ?', targetPath),
    ),
  };
}

function publicationsOf(database: SqliteConnection, volumeId: string): PublicationRecord[] {
  return database.all('SELECT * FROM publications WHERE volume_id = ?', volumeId).map(rows.publicationRow);
}

export function controllerPublicationCalls(database: SqliteConnection) {
  return {
    controllerPublications: reads((volumeId: string): ControllerPublicationRecord[] =>
      database
        .all('SELECT * FROM controller_publications WHERE volume_id = ?', volumeId)
        .map(rows.controllerPublicationRow),
    ),
    /** The publications of these volumes; without an argument, of all volumes. */
    listControllerPublications: reads((volumeIds?: readonly string[]): ControllerPublicationRecord[] => {
      const order = 'ORDER BY volume_id, node_id';
      const all = 'SELECT * FROM controller_publications';
      const found =
        volumeIds === undefined
          ? database.all(`${all} ${order}`)
          : database.all(
              `${all} WHERE volume_id IN (SELECT value FROM json_each(?)) ${order}`,
              JSON.stringify(volumeIds),
            );
      return found.map(rows.controllerPublicationRow);
    }),
    putControllerPublication: takesSpace((publication: ControllerPublicationRecord): void =>
      database.run(
        `INSERT OR REPLACE INTO controller_publications (volume_id, node_id, capability, read_only)
           VALUES (?, ?, ?, ?)`,
        publication.volumeId,
        publication.nodeId,
        JSON.stringify(publication.capability),
        publication.readOnly ? 1 : 0,
      ),
    ),
    removeControllerPublication: freesSpace((volumeId: string, nodeId: string): void =>
      database.run('DELETE FROM controller_publications WHERE volume_id = ? AND node_id = ?', volumeId, nodeId),
    ),
  };
}
