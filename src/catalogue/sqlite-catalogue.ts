/**
 * The catalogue in SQLite: one method, one transaction, durable when it returns.
 *
 * Synchronous, and every commit waits for the disk: it lives on a thread of its own (see
 * catalogue-worker.ts) and is called through catalogue-client.ts. It holds the database exclusively,
 * so a second plugin on the same state directory is refused. It knows rows, no rules of CSI.
 */

import { CsiError } from '../base/errors.js';
import { openDirectly } from '../database/database-service.js';
import type { DatabaseUse } from '../database/database-use.js';
import type { KeptDatabase } from '../database/kept-database.js';
import { backUp } from './copy.js';
import type { Catalogue } from './records.js';
import { retainedBaseCalls } from './retained-bases.js';
import * as rows from './rows.js';
import { CATALOGUE_STEPS } from './schema.js';
import { groupCalls, snapshotCalls } from './snapshots.js';
import { useCalls } from './uses.js';
import { volumeCalls } from './volumes.js';

export interface SqliteCatalogue extends Catalogue {
  close(): void;
}

/** A predecessor that was killed a moment ago may not be gone yet. */
const LOCK_TIMEOUT_MS = 2000;

/** The database in that file. */
export function catalogueUse(file: string): DatabaseUse {
  return {
    label: 'the catalogue',
    file,
    remedy:
      'stop the plugin and put back a backup of it, as docs/backends.md says under "Restoring the catalogue"',
    steps: CATALOGUE_STEPS,
    exclusive: true,
    lockTimeoutMs: LOCK_TIMEOUT_MS,
  };
}

/** Opens or makes the database. Throws CsiError FAILED_PRECONDITION if another process holds it. */
export function openSqliteCatalogue(file: string): SqliteCatalogue {
  return openDirectly(catalogueUse(file), catalogueCalls);
}

/** The calls in an open database. */
export function catalogueCalls(database: KeptDatabase): Catalogue {
  return {
    ...poolCalls(database),
    ...volumeCalls(database),
    ...snapshotCalls(database),
    ...groupCalls(database),
    ...retainedBaseCalls(database),
    ...useCalls(database),
    unfinished: () => unfinished(database),
    unknownAmong: (ids) => unknownAmong(database, ids),
    backUp: (file) => backUp(database, file),
  };
}

function poolCalls(database: KeptDatabase): Pick<Catalogue, 'uuid' | 'poolUuid' | 'registerPool'> {
  const poolUuid = (name: string): string | null =>
    (database.get('SELECT uuid FROM pools WHERE name = ?', name)?.['uuid'] ?? null) as
      | string
      | null;
  return {
    uuid: () => String(database.get('SELECT uuid FROM catalogue')?.['uuid']),
    poolUuid,
    registerPool: (name, uuid) => {
      const other = database.get('SELECT name FROM pools WHERE uuid = ? AND name <> ?', uuid, name);
      if (other !== undefined) {
        throw CsiError.failedPrecondition(
          `pool '${name}' is the one the catalogue knows as '${String(other['name'])}': pools keep ` +
            'their names; give it that name in BLOCKDELTA_POOLS',
        );
      }
      database.run(
        'INSERT INTO pools (name, uuid) VALUES (?, ?) ON CONFLICT (name) DO NOTHING',
        name,
        uuid,
      );
      return poolUuid(name) ?? uuid;
    },
  };
}

function unfinished(database: KeptDatabase): ReturnType<Catalogue['unfinished']> {
  const where = "WHERE state IN ('creating', 'deleting')";
  return {
    volumes: database.all(`SELECT * FROM volumes ${where}`).map(rows.volumeRow),
    snapshots: database
      .all(`SELECT * FROM snapshots ${where} AND group_snapshot_id IS NULL`)
      .map(rows.snapshotRow),
    groups: database.all(`SELECT * FROM group_snapshots ${where}`).map(rows.groupRow),
  };
}

function unknownAmong(database: KeptDatabase, ids: readonly string[]): string[] {
  const rows = database.all(
    `SELECT value FROM json_each(?)
       WHERE value NOT IN (SELECT volume_id FROM volumes)
         AND value NOT IN (SELECT snapshot_id FROM snapshots)`,
    JSON.stringify(ids),
  );
  return rows.map((row) => String(row['value']));
}
