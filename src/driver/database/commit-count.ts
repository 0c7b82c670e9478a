/**
 * How many changes a database has committed, in a small file beside the database that the owner writes after each commit and
 * before the answer.
 *
 * SQLite reads a write-ahead log up to the first frame with a wrong checksum and silently ignores the rest. That is right only
 * for the last transaction, which a power failure may tear. A database that counts less than this file has lost changes that
 * were acknowledged. A database that counts more is sound: a kill came between the commit and the record.
 */
import { closeSync, constants, fdatasyncSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { readOwnSync } from '../../base/system/own-files.js';
import type { SqliteConnection } from './connection.js';
import { type DatabaseDefinition, damaged } from './definition.js';

/** The length of the record. The owner overwrites the record in place, which needs no new space. */
const DIGITS = 20;
/** The longest file that is read. The record is shorter, so any other text in the file means that the file is damaged. */
const MAX_BYTES = 4096;
const { O_RDWR, O_CREAT } = constants;

const fileOf = (file: string): string => `${file}-commits`;

/** The recorded count; 0 if nothing is recorded. FAILED_PRECONDITION if the file is not readable as a number. */
export function recordedCommits(definition: DatabaseDefinition): bigint {
  const file = fileOf(definition.file);
  const text = readOwnSync(file, MAX_BYTES);
  // The file is empty if a kill, or a power failure before the first flush, came between its creation and its first record.
  if (text === null || text === '') return 0n;
  if (new RegExp(`^\\d{${DIGITS}}$`).test(text)) return BigInt(text);
  throw damaged(definition, `has a damaged record of its commits, ${file}`);
}

/** The count in the database; 0 if the database has not begun to count. */
export function countedCommits(database: SqliteConnection): bigint {
  const has = "SELECT 1 FROM sqlite_schema WHERE name = 'commits'";
  if (database.get(has) === undefined) return 0n;
  return database.get('SELECT count FROM commits')?.['count'] as bigint;
}

/** FAILED_PRECONDITION if the database has lost commits that are recorded. */
export function assertAllCommits(definition: DatabaseDefinition, database: SqliteConnection, recorded: bigint): void {
  const lost = recorded - countedCommits(database);
  if (lost <= 0n) return;
  throw damaged(
    definition,
    `has lost the last ${lost} changes that were acknowledged: its write-ahead log is damaged, or an older file has ` +
      'taken its place',
  );
}

/** Records the count of the database as the expected count. */
export function acceptCommits({ file }: DatabaseDefinition, counted: bigint): void {
  writeFileSync(fileOf(file), textOf(counted));
}

const textOf = (count: bigint): string => `${String(count).padStart(DIGITS, '0')}\n`;

/** The owner's side: raises the count within the transaction of a change, and records the count after the commit. */
export class CommitCount {
  readonly #descriptor: number;

  /** Records the current count of the database. */
  constructor(
    private readonly database: SqliteConnection,
    file: string,
  ) {
    database.transaction(() => {
      database.exec('CREATE TABLE IF NOT EXISTS commits (count INTEGER NOT NULL) STRICT');
      database.exec('INSERT INTO commits SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM commits)');
    });
    this.#descriptor = openSync(fileOf(file), O_RDWR | O_CREAT, 0o600);
    this.record(countedCommits(database));
  }

  /** Raises the count. Returns the number of the open transaction. */
  raise(): bigint {
    const row = this.database.get('UPDATE commits SET count = count + 1 RETURNING count');
    return row?.['count'] as bigint;
  }

  record(count: bigint): void {
    writeSync(this.#descriptor, textOf(count), 0);
  }

  /** Makes the record durable. Before the flush, a power failure may set the record back, never forward. */
  flush(): void {
    fdatasyncSync(this.#descriptor);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
