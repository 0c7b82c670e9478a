/**
 * The catalogue in SQLite: one method, one transaction, durable when it returns.
 *
 * Synchronous, and every commit waits for the disk: it lives on a thread of its own (see
 * catalogue-worker.ts) and is called through catalogue-client.ts. It holds the database exclusively,
 * so a second plugin on the same state directory is refused. It knows rows, no rules of CSI.
 */

import { KeptDatabase } from '../database/kept-database.js';
import { CsiError, errorCode } from '../errors.js';
import { keptBaseCalls } from './catalogue-kept-bases.js';
import * as rows from './catalogue-rows.js';
import { migrate } from './catalogue-schema.js';
import { groupCalls, snapshotCalls } from './catalogue-snapshots.js';
import { useCalls } from './catalogue-uses.js';
import { volumeCalls } from './catalogue-volumes.js';
import type { Catalogue } from './records.js';

export interface SqliteCatalogue extends Catalogue {
  close(): void;
}

/** A predecessor that was killed a moment ago may not be gone yet. */
const LOCK_TIMEOUT_MS = 2000;

/** Opens or makes the database. Throws CsiError FAILED_PRECONDITION if another process holds it. */
export function openSqliteCatalogue(file: string): SqliteCatalogue {
  const database = new KeptDatabase(file, LOCK_TIMEOUT_MS);
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE');
    database.exec('PRAGMA journal_mode = WAL');
    database.exec('PRAGMA synchronous = FULL');
    database.exec('PRAGMA foreign_keys = ON');
    migrate(database);
  } catch (thrown) {
    database.close();
    if (errorCode(thrown)?.startsWith('SQLITE_BUSY')) {
      throw CsiError.failedPrecondition(
        `the catalogue ${file} is in use by another process: one plugin serves a state directory`,
        { cause: thrown },
      );
    }
    throw thrown;
  }
  return {
    ...poolCalls(database),
    ...volumeCalls(database),
    ...snapshotCalls(database),
    ...groupCalls(database),
    ...keptBaseCalls(database),
    ...useCalls(database),
    unfinished: () => unfinished(database),
    close: () => database.close(),
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
