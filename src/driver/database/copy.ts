/**
 * A consistent copy of a database that another process may be writing to.
 *
 * A plugin holds its catalogue exclusively, so SQLite lets nobody else open it. Reading the bytes of the file
 * and of its write-ahead log needs no lock and disturbs nobody. Copied separately, the two can still be
 * combined: a checkpoint changes only pages of the file that are in the log, so the log, copied after the
 * file, replaces every page that changed meanwhile, unless the log was begun anew in between. Its header has
 * new salts then, and the copy is made again. With an empty log, the time of the file's last change tells.
 * A log that is read while it is written can have a torn frame in its middle, like a damaged one; that of a
 * damaged log stays where it is.
 */
import { execFileSync, type StdioOptions } from 'node:child_process';
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
} from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { CsiError, errorCode } from '../../base/errors.js';
import type { SqliteConnection } from './connection.js';
import { type DatabaseDefinition, damaged } from './definition.js';
import { lockHolder, openCopy } from './sound-database.js';
import { logDamage, withLog } from './wal-check.js';

const WAL_HEADER_BYTES = 32;
/** Ten seconds or so: a plugin that commits without a pause begins its log anew every 20 ms. */
const ATTEMPTS = 250;
const PAUSE_MS = 20;

/**
 * Runs `read` on a copy of the database in memory: no file is left, however the process ends. The copy is brought to
 * this version's schema, so an older database can be read as well; the original stays as it is. NOT_FOUND if there is
 * none.
 */
export async function readCopy<T>(
  define: (file: string) => DatabaseDefinition,
  file: string,
  read: (database: SqliteConnection) => T,
): Promise<T> {
  const definition = define(file);
  const { main, log, damage } = await copyOf(definition);
  if (damage !== null) throw damaged(definition, `is damaged: ${damage}`);
  const database = openCopy(definition, withLog(main, log));
  try {
    return read(database);
  } finally {
    database.close();
  }
}

interface CopiedBytes {
  main: Buffer;
  log: Buffer;
  /** Of the log; null: none. */
  damage: string | null;
}

async function copyOf({ label, file }: DatabaseDefinition): Promise<CopiedBytes> {
  const space = new ReusedSpace();
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const found = consistentBytes(label, file, space);
    if (found !== null) return found;
    await delay(PAUSE_MS);
  }
  throw CsiError.aborted(`${label} ${file} changes too fast to be copied; try again`);
}

/** Null: the database changed meanwhile in a way that makes the two not fit. */
function consistentBytes(label: string, file: string, space: ReusedSpace): CopiedBytes | null {
  try {
    const before = headerOf(`${file}-wal`);
    const { mtimeNs } = statSync(file, { bigint: true });
    const main = lockHolder(file) === process.pid ? readElsewhere(file) : space.read(file);
    const log = readOrEmpty(`${file}-wal`);
    const after = headerOf(`${file}-wal`);
    if (!log.subarray(0, WAL_HEADER_BYTES).equals(before) || !after.equals(before)) return null;
    const damage = logDamage(log);
    if (damage !== null && !readOrEmpty(`${file}-wal`).equals(log)) return null;
    const isUnchanged = statSync(file, { bigint: true }).mtimeNs === mtimeNs;
    return before.length > 0 || isUnchanged ? { main, log, damage } : null;
  } catch (thrown) {
    if (errorCode(thrown) !== 'ENOENT') throw unreadable(label, file, thrown);
    throw CsiError.notFound(
      `there is no ${label.replace(/^the /, '')} ${file}: name the plugin's state directory with --state-dir or BLOCKDELTA_STATE_DIR`,
      { cause: thrown },
    );
  }
}

function unreadable(label: string, file: string, thrown: unknown): CsiError {
  const code = errorCode(thrown) ?? 'unknown error';
  const remedy = code === 'EACCES' ? 'run the command as root' : 'check the disk and its mount';
  return CsiError.failedPrecondition(`${label} ${file} cannot be read (${code}): ${remedy}`, {
    cause: thrown,
  });
}

/**
 * Reads one file again and again into the same memory, a multiple faster than into new memory: the shorter the
 * read, the fewer logs begin in it.
 */
class ReusedSpace {
  #bytes = Buffer.alloc(0);

  /** Valid until the next call. Of a file that grows meanwhile, the part that is missing is in the log. */
  read(file: string): Buffer {
    const descriptor = openSync(file, 'r');
    try {
      const { size } = fstatSync(descriptor);
      if (this.#bytes.length < size) this.#bytes = Buffer.alloc(Math.ceil(size * 1.25));
      let length = 0;
      for (;;) {
        const read = readSync(descriptor, this.#bytes, length, this.#bytes.length - length, length);
        if (read === 0) return this.#bytes.subarray(0, length);
        length += read;
      }
    } finally {
      closeSync(descriptor);
    }
  }
}

/**
 * Read by another process: a process that closes a file loses all locks that it holds on it (fcntl(2)). That
 * takes milliseconds, in which a busy writer begins its log anew, but there is no writer beside the lock.
 */
function readElsewhere(file: string): Buffer {
  accessSync(file, constants.R_OK);
  const stdio: StdioOptions = ['ignore', 'pipe', 'inherit'];
  return execFileSync('cat', ['--', file], { stdio, maxBuffer: Number.POSITIVE_INFINITY });
}

function headerOf(log: string): Buffer {
  return readOrEmpty(log).subarray(0, WAL_HEADER_BYTES);
}

function readOrEmpty(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return Buffer.alloc(0);
    throw thrown;
  }
}
