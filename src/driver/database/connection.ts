/**
 * A SQLite connection whose native objects are never garbage collected.
 *
 * Built against Node.js 24.19 or later, better-sqlite3 12 aborts the process when a database or a
 * statement is collected while no JavaScript runs (node::ObjectWrap removes a clean-up hook of an
 * environment that V8 cannot name at that moment). Every object therefore stays referenced for the life
 * of the process. A thread opens one database and prepares each SQL text once, which bounds their
 * number. For the same reason nothing here calls `pragma()`, which creates a statement for each call
 * and drops it.
 */
import { chmodSync, closeSync, existsSync, openSync } from 'node:fs';
import Database from 'better-sqlite3';
import { CsiError, errorCode } from '../../base/errors.js';

/** Integers are bigint. */
export type Row = Readonly<Record<string, string | bigint | null>>;

const referenced: object[] = [];

const MODE = 0o600;
/** SQLite's name for a database without a file. */
const IN_MEMORY = ':memory:';
/** The offset of the write version and the read version of the file format. */
const FORMAT_OFFSET = 18;
const ROLLBACK_FORMAT = 1;

export class SqliteConnection {
  readonly #database: Database.Database;
  readonly #statements = new Map<string, Database.Statement>();

  /**
   * A database without a file: empty, such as the model that a file's schema is compared with, or with the content of a
   * database file. Changes the format in `bytes` to the rollback format; SQLite copies the bytes.
   */
  static inMemory(bytes: Buffer = Buffer.alloc(0)): SqliteConnection {
    if (bytes.length === 0) return new SqliteConnection(IN_MEMORY, 0);
    // SQLite opens no database in memory whose header says that the database has a write-ahead log.
    bytes.fill(ROLLBACK_FORMAT, FORMAT_OFFSET, FORMAT_OFFSET + 2);
    return new SqliteConnection(bytes, 0);
  }

  /** Opens a file that exists. Checkpoints nothing, so the file and its log stay as they are. */
  static readOnly(file: string, timeoutMs: number): SqliteConnection {
    return new SqliteConnection(file, timeoutMs, true);
  }

  /** @param timeoutMs how long to wait for another process's lock */
  constructor(file: string | Buffer, timeoutMs: number, readonly = false) {
    if (typeof file === 'string' && file !== IN_MEMORY) {
      // Opens the file here only if it is new: closing a file gives up all locks of the process on that file (fcntl(2)).
      if (!existsSync(file)) closeSync(openSync(file, 'a', MODE));
      // SQLite gives its journal files the mode of this one. Recorded mount flags may be sensitive.
      if (!readonly) chmodSync(file, MODE);
    }
    this.#database = new Database(file, { timeout: timeoutMs, readonly });
    this.#database.defaultSafeIntegers(true);
    referenced.push(this.#database, this.#statements);
  }

  close(): void {
    this.#database.close();
  }

  /** Runs SQL that has no parameters and whose rows, if any, are ignored. */
  exec(sql: string): void {
    this.#database.exec(sql);
  }

  run(sql: string, ...values: unknown[]): void {
    this.#prepare(sql).run(...values);
  }

  /** As `run`; returns the number of rows changed. */
  runCounting(sql: string, ...values: unknown[]): number {
    return this.#prepare(sql).run(...values).changes;
  }

  get(sql: string, ...values: unknown[]): Row | undefined {
    return this.#prepare(sql).get(...values) as Row | undefined;
  }

  /** The row as a record; null if there is none. */
  find<T>(record: (row: Row) => T, sql: string, ...values: unknown[]): T | null {
    const row = this.get(sql, ...values);
    return row === undefined ? null : record(row);
  }

  all(sql: string, ...values: unknown[]): Row[] {
    return this.#prepare(sql).all(...values) as Row[];
  }

  /** The bytes of the whole database at one moment, including the commits in its log. */
  bytes(): Buffer {
    this.exec('BEGIN');
    try {
      return this.#database.serialize();
    } finally {
      this.exec('COMMIT');
    }
  }

  transaction<T>(work: () => T): T {
    return this.#database.transaction(work).immediate();
  }

  #prepare(sql: string): Database.Statement {
    const prepared = this.#statements.get(sql);
    if (prepared !== undefined) return prepared;
    const statement = this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** Any other violated constraint is a bug in the plugin, not a name or an id in use. */
const UNIQUENESS = ['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_CONSTRAINT_PRIMARYKEY'];

/** Runs `insert`. A violated uniqueness becomes ALREADY_EXISTS "<label> is taken". */
export function insertUnique<T>(label: string, insert: () => T): T {
  try {
    return insert();
  } catch (thrown) {
    if (UNIQUENESS.includes(errorCode(thrown) ?? '')) {
      throw CsiError.alreadyExists(`${label} is taken`, { cause: thrown });
    }
    throw thrown;
  }
}
