/**
 * Opens a database that is whole: every page is looked at before the first row is believed.
 *
 * A full integrity check costs 0.2 s for 70,000 objects, a quick one a quarter of that; only the full
 * one compares each index with its table, and a wrong index hides objects.
 *
 * What is committed goes from the write-ahead log into the file at the start, at the stop and whenever
 * the log holds CHECKPOINT_PAGES: a log that is damaged takes everything in it along, silently.
 */
import { readFileSync, statSync } from 'node:fs';
import { type DatabaseUse, damaged, explainFailure } from './database-use.js';
import { KeptDatabase } from './kept-database.js';
import { migrate } from './migrate.js';
import { walDamage } from './wal-check.js';

/** Half a MiB: a checkpoint is one more wait for the disk in about twenty commits. */
const CHECKPOINT_PAGES = 128;

/** FAILED_PRECONDITION, naming the file and what to do, for anything that is not this database, whole. */
export function openSound(use: DatabaseUse): KeptDatabase {
  let database: KeptDatabase;
  try {
    // Before SQLite reads it, and forgets what it leaves out.
    const damage = walDamage(use.file);
    // A log that is being written looks torn; who writes it is told of below.
    if (damage !== null && !isLocked(use.file)) throw damaged(use, `is damaged: ${damage}`);
    database = new KeptDatabase(use.file, use.lockTimeoutMs);
  } catch (thrown) {
    throw explainFailure(use, thrown);
  }
  try {
    if (use.exclusive) database.exec('PRAGMA locking_mode = EXCLUSIVE');
    database.exec('PRAGMA journal_mode = WAL');
    database.exec('PRAGMA synchronous = FULL');
    database.exec('PRAGMA foreign_keys = ON');
    // The directory may be full while space in it is being freed.
    database.exec('PRAGMA temp_store = MEMORY');
    database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    assertWhole(database, use);
    migrate(database, use);
    checkpoint(database);
    return database;
  } catch (thrown) {
    database.close();
    throw explainFailure(use, thrown);
  }
}

/** Empties the log into the file. What cannot be done now, a full disk say, is left to the next one. */
export function checkpoint(database: KeptDatabase): void {
  try {
    database.get('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    // The log stays, and stays valid.
  }
}

/** Brings what is committed into the file, so that the log is written over. False: it could not. */
export function restartLog(database: KeptDatabase): boolean {
  try {
    return database.get('PRAGMA wal_checkpoint(RESTART)')?.['busy'] === 0n;
  } catch {
    return false;
  }
}

/** Whether a process holds a lock on the file, by device and inode as the kernel lists them. */
function isLocked(file: string): boolean {
  const { dev, ino } = statSync(file, { bigint: true });
  const hex = (value: bigint): string => value.toString(16).padStart(2, '0');
  const name = `${hex((dev >> 8n) & 0xfffn)}:${hex((dev & 0xffn) | ((dev >> 12n) & 0xfff00n))}:${ino}`;
  return readFileSync('/proc/locks', 'utf8').includes(` ${name} `);
}

function assertWhole(database: KeptDatabase, use: DatabaseUse): void {
  const found = database.get('PRAGMA integrity_check(1)')?.['integrity_check'];
  if (found !== 'ok') throw damaged(use, `is damaged (${String(found).split('\n').join(' ')})`);
  const orphan = database.get('PRAGMA foreign_key_check');
  if (orphan !== undefined) {
    throw damaged(
      use,
      `is damaged (a row of '${orphan['table']}' has lost its '${orphan['parent']}')`,
    );
  }
}
