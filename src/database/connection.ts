/**
 * A SQLite connection whose native objects are never garbage collected.
 *
 * Built against Node.js 24.19 or later, better-sqlite3 12 aborts the process when a database or
 * statement of its own is collected while no JavaScript runs (node::ObjectWrap removes a clean-up
 * hook of an environment that V8 cannot name then). So every one ever made stays referenced: a
 * thread opens one database and prepares each text once, which bounds them. For the same reason
 * nothing here uses `pragma()`, which makes a statement a call and drops it.
 */
import { chmodSync, closeSync, openSync } from 'node:fs';
import Database from 'better-sqlite3';
import { CsiError, errorCode } from '../base/errors.js';

/** Integers are bigint. */
export type Row = Readonly<Record<string, string | bigint | null>>;

const kept: object[] = [];

const MODE = 0o600;
/** What SQLite calls a database without a file. */
const IN_MEMORY = ':memory:';

export class KeptDatabase {
  readonly #database: Database.Database;
  readonly #statements = new Map<string, Database.Statement>();

  /** A model of a schema, which no file is. */
  static inMemory(): KeptDatabase {
    return new KeptDatabase(IN_MEMORY, 0);
  }

  /** Integers are bigint. `timeoutMs` is how long a lock of another process is waited for. */
  constructor(file: string, timeoutMs: number) {
    if (file !== IN_MEMORY) {
      // SQLite gives its other files the mode of this one; mount flags in it may be sensitive.
      closeSync(openSync(file, 'a', MODE));
      chmodSync(file, MODE);
    }
    this.#database = new Database(file, { timeout: timeoutMs });
    this.#database.defaultSafeIntegers(true);
    kept.push(this.#database, this.#statements);
  }

  close(): void {
    this.#database.close();
  }

  /** Statements without parameters and without rows that matter. */
  exec(sql: string): void {
    this.#database.exec(sql);
  }

  /** How many rows it has changed. */
  run(sql: string, ...values: unknown[]): number {
    return this.#prepare(sql).run(...values).changes;
  }

  get(sql: string, ...values: unknown[]): Row | undefined {
    return this.#prepare(sql).get(...values) as Row | undefined;
  }

  all(sql: string, ...values: unknown[]): Row[] {
    return this.#prepare(sql).all(...values) as Row[];
  }

  transaction<T>(work: () => T): T {
    return this.#database.transaction(work)();
  }

  #prepare(sql: string): Database.Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** Other broken constraints are mistakes of ours, never a name or id that somebody else has. */
const TAKEN = ['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_CONSTRAINT_PRIMARYKEY'];

/** Throws CsiError ALREADY_EXISTS, calling it by the label, for what is there already. */
export function insertUnique<T>(label: string, insert: () => T): T {
  try {
    return insert();
  } catch (thrown) {
    if (TAKEN.includes(errorCode(thrown) ?? '')) {
      throw CsiError.alreadyExists(`${label} is taken`, { cause: thrown });
    }
    throw thrown;
  }
}
