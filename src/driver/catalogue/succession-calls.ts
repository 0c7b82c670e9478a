/** The catalogue's calls about volumes that have taken the place of others. Each call is a transaction. */

import { reads, takesSpace } from '../database/calls.js';
import type { SqliteConnection } from '../database/connection.js';
import type { SuccessionRecord } from './records.js';

export function successionCalls(database: SqliteConnection) {
  return {
    /** Nothing if there is no such volume. */
    supersedeVolume: takesSpace((volumeId: string, by: string): void =>
      database.run(
        `INSERT INTO copied_volumes (volume_id, superseded_by) SELECT volume_id, ? FROM volumes WHERE volume_id = ?
           ON CONFLICT (volume_id) DO UPDATE SET superseded_by = excluded.superseded_by`,
        by,
        volumeId,
      ),
    ),
    /** Of a volume of this node. Outlives the volume: what it has replaced stays replaced. */
    putSuccession: takesSpace(({ oldVolumeId, newVolumeId }: SuccessionRecord): void =>
      database.run(
        'INSERT OR REPLACE INTO successions (old_volume_id, new_volume_id) VALUES (?, ?)',
        oldVolumeId,
        newVolumeId,
      ),
    ),
    listSuccessions: reads((): SuccessionRecord[] =>
      database.all('SELECT * FROM successions ORDER BY old_volume_id').map((row) => ({
        oldVolumeId: String(row['old_volume_id']),
        newVolumeId: String(row['new_volume_id']),
      })),
    ),
  };
}
