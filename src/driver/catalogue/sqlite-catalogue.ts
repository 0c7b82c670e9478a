/**
 * The catalogue in SQLite: each change runs as one transaction (SoundDatabase) and is durable when the call returns. A violated
 * uniqueness becomes a CsiError ALREADY_EXISTS.
 *
 * The calls are synchronous and every commit waits for the disk, so this module runs on a thread of its own. The event loop
 * calls it through catalogue-client.ts, which holds the lock of the catalogue's owner. Knows rows, but no rules of CSI.
 */

import { CsiError } from '../../base/errors.js';
import { reads, writes } from '../database/calls.js';
import { type Row, SqliteConnection } from '../database/connection.js';
import { serveDatabase } from '../database/database-service.js';
import type { DatabaseDefinition } from '../database/definition.js';
import { copyCalls } from './copy-calls.js';
import type { RecordedObjects, UnfinishedWork } from './records.js';
import { replicaCalls } from './replica-calls.js';
import { retainedBaseCalls } from './retained-base-calls.js';
import * as rows from './rows.js';
import { CATALOGUE_STEPS } from './schema.js';
import { groupCalls, snapshotCalls } from './snapshot-calls.js';
import { statisticsCalls } from './statistics.js';
import { successionCalls } from './succession-calls.js';
import { controllerPublicationCalls, publicationCalls, stagingCalls } from './uses.js';
import { volumeCalls } from './volume-calls.js';

export type Catalogue = ReturnType<typeof catalogueCalls>;

/** The time to wait for a reader that recovers the log after a kill. */
const LOCK_TIMEOUT_MS = 2000;

export default serveDatabase(catalogueDefinition, catalogueCalls);

export function catalogueDefinition(file: string): DatabaseDefinition {
  return {
    label: 'the catalogue',
    file,
    remedy: 'stop the plugin and restore a backup of it, as docs/backends.md describes under "Restoring the catalogue"',
    steps: CATALOGUE_STEPS,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
  };
}

export function catalogueCalls(database: SqliteConnection) {
  return {
    ...poolCalls(database),
    ...volumeCalls(database),
    ...snapshotCalls(database),
    ...groupCalls(database),
    ...retainedBaseCalls(database),
    ...replicaCalls(database),
    ...copyCalls(database),
    ...successionCalls(database),
    ...stagingCalls(database),
    ...publicationCalls(database),
    ...controllerPublicationCalls(database),
    ...statisticsCalls(database),
    /** Everything that a start has to finish or to roll back. */
    unfinished: reads((): UnfinishedWork => unfinished(database)),
    /** What a pool has to hold: its ready volumes, and its snapshots that are ready or being deleted. */
    objectsIn: reads((pool: string) => ({
      volumes: objectsIn(database, "volume_id AS id, size_bytes FROM volumes WHERE state = 'ready' AND pool = ?", pool),
      snapshots: objectsIn(
        database,
        "snapshot_id AS id, size_bytes FROM snapshots WHERE state IN ('ready', 'deleting') AND pool = ?",
        pool,
      ),
    })),
    /** Which of the ids belong to ready volumes of the pool that are initialized. */
    initializedAmong: reads((pool: string, ids: readonly string[]): string[] =>
      idsOf(
        database.all(
          `SELECT value FROM json_each(?) CROSS JOIN volumes ON volume_id = value
             WHERE pool = ? AND state = 'ready' AND pristine = 0`,
          JSON.stringify(ids),
          pool,
        ),
      ),
    ),
    ...nodeCalls(database),
    /** Which of the ids belong to no volume and no snapshot in any state. */
    unknownAmong: reads((ids: readonly string[]): string[] => unknownAmong(database, ids)),
    /** Copies the catalogue, while it is in use, to a new file that can replace it. The copy is not flushed to the disk. */
    backUp: reads((file: string): void => backUp(database, file)),
  };
}

function poolCalls(database: SqliteConnection) {
  const poolUuid = (name: string): string | null =>
    (database.get('SELECT uuid FROM pools WHERE name = ?', name)?.['uuid'] ?? null) as string | null;
  return {
    /** Identifies this catalogue as the owner of its pools. The id is generated with the catalogue. */
    uuid: reads((): string => String(database.get('SELECT uuid FROM catalogue')?.['uuid'])),
    /** The recorded identity of a pool; null if none is recorded. */
    poolUuid: reads(poolUuid),
    /**
     * Returns the pool's recorded identity, after recording `uuid` if the name is new.
     * FAILED_PRECONDITION if that identity is recorded under another name.
     */
    registerPool: writes((name: string, uuid: string): string => {
      const other = database.get('SELECT name FROM pools WHERE uuid = ? AND name <> ?', uuid, name);
      if (other !== undefined) {
        throw CsiError.failedPrecondition(
          `pool '${name}' is recorded in the catalogue as '${String(other['name'])}': a pool keeps its ` +
            'name; use that name in BLOCKDELTA_POOLS',
        );
      }
      database.run('INSERT INTO pools (name, uuid) VALUES (?, ?) ON CONFLICT (name) DO NOTHING', name, uuid);
      return poolUuid(name) ?? uuid;
    }),
  };
}

function unfinished(database: SqliteConnection): UnfinishedWork {
  const where = "WHERE state IN ('creating', 'deleting')";
  return {
    volumes: database.all(`SELECT * FROM volumes ${where}`).map(rows.volumeRow),
    snapshots: database.all(`SELECT * FROM snapshots ${where} AND group_snapshot_id IS NULL`).map(rows.snapshotRow),
    groups: database.all(`SELECT * FROM group_snapshots ${where}`).map(rows.groupRow),
  };
}

function unknownAmong(database: SqliteConnection, ids: readonly string[]): string[] {
  const unknown = database.all(
    `SELECT value FROM json_each(?)
       WHERE value NOT IN (SELECT volume_id FROM volumes)
         AND value NOT IN (SELECT snapshot_id FROM snapshots)`,
    JSON.stringify(ids),
  );
  return idsOf(unknown);
}

const idsOf = (found: readonly Row[]): string[] => found.map(({ value }) => String(value));

/** One row holds all objects: rows of their own take four times as long to read, and to hand to another thread. */
function objectsIn(database: SqliteConnection, selected: string, pool: string): RecordedObjects {
  const found = database.get(
    `SELECT json_group_array(id) AS ids, json_group_array(CAST(size_bytes AS TEXT)) AS sizes FROM (SELECT ${selected})`,
    pool,
  );
  const parsed = (column: string) => JSON.parse(String(found?.[column])) as string[];
  return { ids: parsed('ids'), sizesBytes: BigUint64Array.from(parsed('sizes'), BigInt) };
}

function nodeCalls(database: SqliteConnection) {
  return {
    /** The id of the node that this catalogue serves; null before the first start has recorded it. */
    nodeId: reads(
      (): string | null => (database.get('SELECT node_id FROM catalogue')?.['node_id'] ?? null) as string | null,
    ),
    /** Records the id of the node, unless an id is recorded already. */
    adoptNodeId: writes((nodeId: string): void =>
      database.run('UPDATE catalogue SET node_id = ? WHERE node_id IS NULL', nodeId),
    ),
  };
}

function backUp(database: SqliteConnection, file: string): void {
  database.exec(`VACUUM INTO '${file.replaceAll("'", "''")}'`);
  forgetPulls(file);
}

/** Before a catalogue is used that is older than its pools: of what is being pulled, they may hold another part than it says. */
export function forgetPulls(file: string): void {
  const catalogue = new SqliteConnection(file, 0);
  try {
    catalogue.exec('DELETE FROM replicas WHERE next_offset IS NOT NULL');
  } finally {
    catalogue.close();
  }
}
