/**
 * A copy in memory of a database that another process may be writing to, made by SQLite itself in one short transaction that
 * only reads.
 *
 * The transaction delays no writer, but the write-ahead log cannot begin anew while the transaction lasts, and so grows. So the
 * transaction only copies the bytes, and a process that is stopped during the transaction is killed.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { CsiError, errorCode } from '../../base/errors.js';
import { assertOwnDatabase } from '../../base/system/own-files.js';
import { recordedCommits } from './commit-count.js';
import { SqliteConnection } from './connection.js';
import { type DatabaseDefinition, explainFailure } from './definition.js';
import { killUnlessDone } from './kill-timer.js';
import { openCopy } from './sound-database.js';

/**
 * How long the reading transaction may take: some ten times what a copy needs, which is 1 ms for each MiB. A busy plugin writes
 * up to 10 MiB a second to its log meanwhile.
 */
const READ_MS = 300;
const READ_MS_PER_MIB = 20;
/** The time for SQLite to recover a log after a kill. */
const LOCK_TIMEOUT_MS = 2000;
const ATTEMPTS = 250;
const PAUSE_MS = 20;

/**
 * Runs `read` on a copy of the database in memory, so no file is left, however the process ends. The copy is migrated to this
 * version's schema, so an older database can be read as well; the original stays as it is. NOT_FOUND if there is no database,
 * FAILED_PRECONDITION if other users can exchange it.
 */
export async function readCopy<T>(
  define: (file: string) => DatabaseDefinition,
  file: string,
  read: (database: SqliteConnection) => T,
): Promise<T> {
  const definition = define(file);
  await assertReadable(definition);
  const recorded = recordedCommits(definition);
  const database = openCopy(definition, await bytesOf(definition), recorded);
  try {
    return read(database);
  } finally {
    database.close();
  }
}

/** Throws as readCopy does if there is no database, or another user could have written it. Reads nothing of it. */
export async function assertReadable(definition: DatabaseDefinition): Promise<void> {
  try {
    await assertOwnDatabase(definition.file);
  } catch (thrown) {
    throw unreadable(definition, thrown);
  }
}

async function bytesOf(definition: DatabaseDefinition): Promise<Buffer> {
  const { label, file } = definition;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    try {
      if (existsSync(`${file}-wal`)) return bytesWithLog(file);
      const found = bytesAlone(file);
      if (found !== null) return found;
    } catch (thrown) {
      throw unreadable(definition, thrown);
    }
    await delay(PAUSE_MS);
  }
  throw CsiError.aborted(`${label} ${file} changes too fast to be copied; try again`);
}

function bytesWithLog(file: string): Buffer {
  // Reads the part of the file that is not in the page cache from the disk now, before the transaction.
  const mib = readFileSync(file).length / 2 ** 20;
  const database = SqliteConnection.readOnly(file, LOCK_TIMEOUT_MS);
  try {
    return killUnlessDone(READ_MS + Math.ceil(READ_MS_PER_MIB * mib), () => database.bytes());
  } finally {
    database.close();
  }
}

/**
 * The bytes of a database that nobody has open, read as a plain file, because SQLite would make a log for a reader. Null if
 * somebody has opened the database meanwhile.
 */
function bytesAlone(file: string): Buffer | null {
  const { mtimeNs } = statSync(file, { bigint: true });
  const bytes = readFileSync(file);
  const isSame = statSync(file, { bigint: true }).mtimeNs === mtimeNs;
  return isSame && !existsSync(`${file}-wal`) ? bytes : null;
}

function unreadable(definition: DatabaseDefinition, thrown: unknown): CsiError {
  if (thrown instanceof CsiError) return thrown;
  const { label, file } = definition;
  const code = errorCode(thrown) ?? 'unknown error';
  const options = { cause: thrown };
  if (code === 'ENOENT') {
    return CsiError.notFound(
      `there is no ${label.replace(/^the /, '')} ${file}: name the plugin's state directory with --state-dir or BLOCKDELTA_STATE_DIR`,
      options,
    );
  }
  if (code.startsWith('SQLITE')) return explainFailure(definition, thrown);
  const remedy = code === 'EACCES' ? 'run the command as root' : 'check the disk and its mount';
  return CsiError.failedPrecondition(`${label} ${file} cannot be read (${code}): ${remedy}`, options);
}
