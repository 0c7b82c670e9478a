/**
 * The lock of the catalogue's owner: the plugin, or a command that changes what a plugin relies on. The lock is an flock on a
 * file of its own, which holds the owner's process id, so that no other file is opened or closed for the lock. Node.js opens
 * files close-on-exec, so no program that the owner starts keeps the lock.
 */
import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode, insteadOf } from '../../base/errors.js';
import { tryLock } from '../../base/system/file-lock.js';
import { assertOwnDatabase, openOwn } from '../../base/system/own-files.js';
import { inUse } from '../database/definition.js';

export interface CatalogueLock {
  release(): Promise<void>;
}

/** A predecessor that was killed a moment ago may still hold the lock. */
const WAIT_MS = 2000;
const PAUSE_MS = 50;
/** A process id and the end of its line. */
const MAX_BYTES = 16;
const { O_RDWR, O_CREAT } = constants;

const fileOf = (file: string): string => `${file}-lock`;

/**
 * Takes the lock. Waits for an owner that is ending. FAILED_PRECONDITION if another process stays the owner, or if others can
 * write to the directory.
 */
export async function lockCatalogue(file: string): Promise<CatalogueLock> {
  await assertOwnDatabase(file);
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const lock = await take(file);
    if (lock !== null) return lock;
    if (Date.now() > deadline) throw inUse({ label: 'the catalogue', file });
    await delay(PAUSE_MS);
  }
}

/** The owner's process id in the owner's PID namespace, 0 if the id is not known; null if there is no owner. */
export async function catalogueOwner(file: string): Promise<number | null> {
  const lock = openOwn(fileOf(file), O_RDWR, MAX_BYTES);
  const opened = await lock.catch(insteadOf(['ENOENT'], null));
  if (opened === null) return null;
  try {
    if (tryLock(opened.fd)) return null;
    return Number.parseInt(await opened.readFile('latin1'), 10) || 0;
  } finally {
    await opened.close();
  }
}

/** Takes the lock; null if another process has it. */
async function take(file: string): Promise<CatalogueLock | null> {
  const opened = await openOwn(fileOf(file), O_RDWR | O_CREAT);
  const lock = { release: () => opened.close() };
  try {
    if (tryLock(opened.fd)) {
      await opened.truncate();
      await opened.write(`${process.pid}\n`, 0);
      return lock;
    }
  } catch (thrown) {
    // A full disk cannot store the process id, but the lock holds without the id.
    if (errorCode(thrown) === 'ENOSPC') return lock;
    await lock.release();
    throw thrown;
  }
  await lock.release();
  return null;
}
