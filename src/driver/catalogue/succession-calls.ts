/** The catalogue's calls about volumes that are to take the place of others, or have. Each call is a transaction. */

import { reads, takesSpace } from '../database/calls.js';
import type { SqliteConnection } from '../database/connection.js';
import type { SuccessionRecord } from './records.js';
import { successionRow } from './rows.js';

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
    /** Nothing if there is no such volume. */
    setCordon: takesSpace((volumeId: string, isCordoned: boolean): void =>
      database.run(
        `INSERT INTO copied_volumes (volume_id, cordoned) SELECT volume_id, ? FROM volumes WHERE volume_id = ?
           ON CONFLICT (volume_id) DO UPDATE SET cordoned = excluded.cordoned`,
        isCordoned ? 1n : 0n,
        volumeId,
      ),
    ),
    /** Of a volume of this node. Outlives the volume: what it has replaced stays replaced. */
    putSuccession: takesSpace(({ oldVolumeId, newVolumeId, isTold }: SuccessionRecord): void =>
      database.run(
        'INSERT OR REPLACE INTO successions (old_volume_id, new_volume_id, told) VALUES (?, ?, ?)',
        oldVolumeId,
        newVolumeId,
        isTold ? 1n : 0n,
      ),
    ),
    listSuccessions: reads((): SuccessionRecord[] =>
      database.all('SELECT * FROM successions ORDER BY old_volume_id').map(successionRow),
    ),
  };
}
