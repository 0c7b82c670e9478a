/** The catalogue's calls for monitoring: how many objects there are. */

import { reads } from '../database/calls.js';
import type { Row, SqliteConnection } from '../database/connection.js';
import type { CopyState } from './records.js';

export interface CatalogueStatistics {
  pools: PoolCounts[];
  /** The oldest ready volumes, up to the limit, so that the selection does not change with every call. */
  volumes: VolumeCounts[];
  /** How many ready volumes are beyond the limit. */
  omittedVolumes: number;
  /** How many copies of snapshots other nodes keep, or are to make or to remove. */
  copies: Readonly<Record<CopyState, number>>;
}

/** How many ready volumes and snapshots a pool has, and its retained bases and replicas. */
export interface PoolCounts {
  pool: string;
  volumes: number;
  snapshots: number;
  usableBases: number;
  usableBaseBytes: bigint;
  invalidatedBases: number;
  /** Complete, and promised to the nodes of their snapshots. */
  promisedReplicas: number;
  /** Complete, and promised to nobody. */
  completeReplicas: number;
  unfinishedReplicas: number;
}

export interface VolumeCounts {
  volumeId: string;
  name: string;
  pool: string;
  sizeBytes: bigint;
  /** How many ready snapshots the volume has. */
  snapshots: number;
  /** When the newest snapshot was taken that another node keeps a copy of; null if there is none. */
  newestCopyNs: bigint | null;
}

export function statisticsCalls(database: SqliteConnection) {
  return {
    /** @param limit how many volumes are listed */
    statistics: reads((limit: number): CatalogueStatistics => {
      const volumes = database
        .all(
          `SELECT volume_id, name, pool, size_bytes,
             (SELECT COUNT(*) FROM snapshots
                WHERE volume_id = volumes.volume_id AND state = 'ready') AS snapshots,
             (SELECT MAX(creation_time_ns) FROM snapshots JOIN copies USING (snapshot_id)
                WHERE volume_id = volumes.volume_id AND copies.state = 'kept') AS newest_copy_ns
           FROM volumes WHERE state = 'ready' ORDER BY created_ns, volume_id LIMIT ?`,
          limit,
        )
        .map(volumeCounts);
      const pools = database
        .all(
          `SELECT name,
             (SELECT COUNT(*) FROM volumes
                WHERE pool = pools.name AND state = 'ready') AS volumes,
             (SELECT COUNT(*) FROM snapshots
                WHERE pool = pools.name AND state = 'ready') AS snapshots,
             (SELECT COUNT(*) FROM retained_bases
                WHERE pool = pools.name AND invalid_reason IS NULL) AS usable,
             (SELECT COALESCE(SUM(stored_bytes), 0) FROM retained_bases
                WHERE pool = pools.name AND invalid_reason IS NULL) AS usable_bytes,
             (SELECT COUNT(*) FROM retained_bases
                WHERE pool = pools.name AND invalid_reason IS NOT NULL) AS invalidated,
             (SELECT COUNT(*) FROM replicas
                WHERE pool = pools.name AND next_offset IS NULL AND promise_id IS NOT NULL) AS promised_replicas,
             (SELECT COUNT(*) FROM replicas
                WHERE pool = pools.name AND next_offset IS NULL AND promise_id IS NULL) AS complete_replicas,
             (SELECT COUNT(*) FROM replicas
                WHERE pool = pools.name AND next_offset IS NOT NULL) AS unfinished_replicas
           FROM pools ORDER BY name`,
        )
        .map(poolCounts);
      const all = pools.reduce((sum, pool) => sum + pool.volumes, 0);
      const copies = { pending: 0, kept: 0, ending: 0 };
      for (const row of database.all('SELECT state, COUNT(*) AS count FROM copies GROUP BY state'))
        copies[row['state'] as CopyState] = Number(row['count']);
      return { pools, volumes, omittedVolumes: all - volumes.length, copies };
    }),
  };
}

function volumeCounts(row: Row): VolumeCounts {
  return {
    volumeId: String(row['volume_id']),
    name: String(row['name']),
    pool: String(row['pool']),
    sizeBytes: row['size_bytes'] as bigint,
    snapshots: Number(row['snapshots']),
    newestCopyNs: row['newest_copy_ns'] as bigint | null,
  };
}

function poolCounts(row: Row): PoolCounts {
  return {
    pool: String(row['name']),
    volumes: Number(row['volumes']),
    snapshots: Number(row['snapshots']),
    usableBases: Number(row['usable']),
    usableBaseBytes: row['usable_bytes'] as bigint,
    invalidatedBases: Number(row['invalidated']),
    promisedReplicas: Number(row['promised_replicas']),
    completeReplicas: Number(row['complete_replicas']),
    unfinishedReplicas: Number(row['unfinished_replicas']),
  };
}
