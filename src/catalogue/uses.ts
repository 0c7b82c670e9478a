/**
 * The catalogue's calls about where volumes are used: staged, published, and published by the
 * controller. What is really there, mountinfo says. No rule of CSI lives here.
 */

import type { KeptDatabase } from '../database/kept-database.js';
import type { Catalogue } from './records.js';
import * as rows from './rows.js';

export type UseCalls = Pick<
  Catalogue,
  | 'stagings'
  | 'putStaging'
  | 'removeStaging'
  | 'publications'
  | 'publicationAt'
  | 'putPublication'
  | 'removePublication'
  | 'controllerPublications'
  | 'listControllerPublications'
  | 'putControllerPublication'
  | 'removeControllerPublication'
>;

export function useCalls(database: KeptDatabase): UseCalls {
  return {
    ...stagingCalls(database),
    ...publicationCalls(database),
    ...controllerPublicationCalls(database),
  };
}

function stagingCalls(
  database: KeptDatabase,
): Pick<UseCalls, 'stagings' | 'putStaging' | 'removeStaging'> {
  return {
    stagings: (volumeId) =>
      database.all('SELECT * FROM stagings WHERE volume_id = ?', volumeId).map(rows.staging),
    putStaging: (staging) =>
      database.run(
        `INSERT OR REPLACE INTO stagings (volume_id, staging_path, resolved_path, capability)
         VALUES (?, ?, ?, ?)`,
        staging.volumeId,
        staging.stagingPath,
        staging.resolvedPath,
        JSON.stringify(staging.capability),
      ),
    removeStaging: (volumeId, stagingPath) =>
      database.run(
        'DELETE FROM stagings WHERE volume_id = ? AND staging_path = ?',
        volumeId,
        stagingPath,
      ),
  };
}

function publicationCalls(
  database: KeptDatabase,
): Pick<UseCalls, 'publications' | 'publicationAt' | 'putPublication' | 'removePublication'> {
  return {
    publications: (volumeId) =>
      database
        .all('SELECT * FROM publications WHERE volume_id = ?', volumeId)
        .map(rows.publicationRow),
    publicationAt: (targetPath) => {
      const row = database.get('SELECT * FROM publications WHERE target_path = ?', targetPath);
      return row === undefined ? null : rows.publicationRow(row);
    },
    putPublication: (publication) =>
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
    removePublication: (targetPath) =>
      database.run('DELETE FROM publications WHERE target_path = ?', targetPath),
  };
}

function controllerPublicationCalls(
  database: KeptDatabase,
): Pick<
  UseCalls,
  | 'controllerPublications'
  | 'listControllerPublications'
  | 'putControllerPublication'
  | 'removeControllerPublication'
> {
  return {
    controllerPublications: (volumeId) =>
      database
        .all('SELECT * FROM controller_publications WHERE volume_id = ?', volumeId)
        .map(rows.controllerPublicationRow),
    listControllerPublications: (volumeIds) => {
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
    },
    putControllerPublication: (publication) =>
      database.run(
        `INSERT OR REPLACE INTO controller_publications (volume_id, node_id, capability, read_only)
           VALUES (?, ?, ?, ?)`,
        publication.volumeId,
        publication.nodeId,
        JSON.stringify(publication.capability),
        publication.readOnly ? 1 : 0,
      ),
    removeControllerPublication: (volumeId, nodeId) =>
      database.run(
        'DELETE FROM controller_publications WHERE volume_id = ? AND node_id = ?',
        volumeId,
        nodeId,
      ),
  };
}
