/**
 * A database that is opened only after a check of every page, and the only way to change that database.
 *
 * A full integrity check takes 0.2 s for 70,000 objects and a quick check a quarter of that. Only the full check compares each
 * index with its table, and a wrong index hides objects.
 *
 * Committed pages move from the write-ahead log into the file at the start, at the stop and whenever the log holds
 * CHECKPOINT_PAGES, because the pages in a damaged log are lost.
 */
import { existsSync } from 'node:fs';
import { acceptCommits, assertAllCommits, CommitCount, countedCommits, recordedCommits } from './commit-count.js';
import { SqliteConnection } from './connection.js';
import { type DatabaseDefinition, damaged, explainFailure } from './definition.js';
import { migrate } from './migrate.js';

/** Half a MiB of pages: about one commit in twenty also waits for a checkpoint. */
const CHECKPOINT_PAGES = 128;

export class SoundDatabase {
  private constructor(
    readonly connection: SqliteConnection,
    private readonly commits: CommitCount,
  ) {}

  /**
   * Opens or creates the database. The caller is the owner of the database and has checked its files (assertOwnDatabase): only
   * one process may open a database in this way. FAILED_PRECONDITION, with the file and the remedy, if the file is damaged, has
   * lost commits, or is not this database; the call changes nothing in that case.
   */
  static open(definition: DatabaseDefinition): SoundDatabase {
    let connection: SqliteConnection;
    try {
      // On a read-only connection: when another connection closes, SQLite drops the part of the log that it cannot read.
      reading(definition, (database, recorded) => assertAllCommits(definition, database, recorded));
      connection = new SqliteConnection(definition.file, definition.lockTimeoutMs);
    } catch (thrown) {
      throw explainFailure(definition, thrown);
    }
    try {
      connection.exec('PRAGMA journal_mode = WAL');
      connection.exec('PRAGMA synchronous = FULL');
      connection.exec('PRAGMA foreign_keys = ON');
      // Space may have to be freed while the directory is full.
      connection.exec('PRAGMA temp_store = MEMORY');
      connection.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
      assertWhole(connection, definition);
      migrate(connection, definition);
      const database = new SoundDatabase(connection, new CommitCount(connection, definition.file));
      database.checkpoint();
      return database;
    } catch (thrown) {
      connection.close();
      throw explainFailure(definition, thrown);
    }
  }

  /**
   * Runs `work` as one transaction, and records the commit.
   *
   * @param notRecorded called if the record fails, after a commit that is durable all the same
   */
  change<T>(work: () => T, notRecorded: (thrown: unknown) => void): T {
    const { result, count } = this.connection.transaction(() => ({
      result: work(),
      count: this.commits.raise(),
    }));
    try {
      this.commits.record(count);
    } catch (thrown) {
      notRecorded(thrown);
    }
    return result;
  }

  /** Empties the log into the file. A failure, of a full disk for example, leaves the work to the next checkpoint. */
  checkpoint(): void {
    try {
      this.commits.flush();
      this.connection.get('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // The log remains valid.
    }
  }

  /** Moves all committed pages into the file, so that the log is rewritten from its beginning. Returns false on failure. */
  restartLog(): boolean {
    try {
      return this.connection.get('PRAGMA wal_checkpoint(RESTART)')?.['busy'] === 0n;
    } catch {
      return false;
    }
  }

  close(): void {
    this.checkpoint();
    this.commits.close();
    this.connection.close();
  }
}

/** Accepts the loss of commits, so that the database can be opened. Returns how many are lost; 0 if none are. */
export function acceptLoss(definition: DatabaseDefinition): bigint {
  let lost = 0n;
  reading(definition, (database, recorded) => {
    const counted = countedCommits(database);
    if (counted >= recorded) return;
    lost = recorded - counted;
    acceptCommits(definition, counted);
  });
  return lost;
}

/** Calls `compare` on a read-only connection. Does nothing without a record, because there is nothing to compare. */
function reading(
  definition: DatabaseDefinition,
  compare: (database: SqliteConnection, recorded: bigint) => void,
): void {
  // Read before the database, whose count only grows.
  const recorded = recordedCommits(definition);
  if (recorded === 0n) return;
  const { file, lockTimeoutMs } = definition;
  if (!existsSync(file)) throw damaged(definition, `is gone, with ${recorded} recorded changes`);
  const database = SqliteConnection.readOnly(file, lockTimeoutMs);
  try {
    compare(database, recorded);
  } finally {
    database.close();
  }
}

/**
 * A database in memory, made from the bytes of a whole database and migrated to this version's schema. Failures name the file.
 *
 * @param recorded the result of recordedCommits before the bytes were read
 */
export function openCopy(definition: DatabaseDefinition, bytes: Buffer, recorded: bigint): SqliteConnection {
  const database = SqliteConnection.inMemory(bytes);
  try {
    database.exec('PRAGMA foreign_keys = ON');
    assertAllCommits(definition, database, recorded);
    assertWhole(database, definition);
    migrate(database, definition);
    return database;
  } catch (thrown) {
    database.close();
    throw explainFailure(definition, thrown);
  }
}

function assertWhole(database: SqliteConnection, definition: DatabaseDefinition): void {
  const found = database.get('PRAGMA integrity_check(1)')?.['integrity_check'];
  if (found !== 'ok') throw damaged(definition, `is damaged (${String(found).split('\n').join(' ')})`);
  const orphan = database.get('PRAGMA foreign_key_check');
  if (orphan !== undefined) {
    throw damaged(definition, `is damaged (a row of '${orphan['table']}' has lost its '${orphan['parent']}')`);
  }
}
