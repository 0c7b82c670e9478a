/**
 * Frees the path of the server's socket, but never takes it from a process that serves on it.
 *
 * No file is created beside the socket, because the directory belongs to the operator. If two processes found the same stale
 * socket at once, the second would remove the new socket of the first. So the directory itself is locked from the check until
 * the new socket is bound. Any process that can read the directory can hold the lock, so the lock only delays a start and
 * cannot prevent it.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, stat, unlink } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import { errorCode } from '../errors.js';
import { pollUntil } from '../poll.js';
import { tryLock } from '../system/file-lock.js';

/** A process that starts holds the lock for milliseconds. A process that holds it longer is doing something else. */
const LOCK_TIMEOUT_MS = 10_000;
const LOCK_INTERVAL_MS = 20;

/** Tells the operator why the process cannot serve. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

export interface SocketPathOptions {
  logger: Pick<Logger, 'warn'>;
  lockTimeoutMs?: number;
}

/**
 * Frees the path and calls `bind` under the lock, or without it if another process keeps it for too long.
 *
 * @throws StartError if the directory is missing, or the path is in use or is not a socket
 */
export async function bindSocketPath(
  path: string,
  bind: () => Promise<void>,
  { logger, lockTimeoutMs = LOCK_TIMEOUT_MS }: SocketPathOptions,
): Promise<void> {
  const directory = dirname(path);
  await assertDirectory(directory);
  const { O_RDONLY, O_DIRECTORY } = constants;
  const handle = await open(directory, O_RDONLY | O_DIRECTORY).catch((error: unknown) => {
    throw new StartError(`cannot open the directory ${directory} of the socket: ${(error as Error).message}`);
  });
  try {
    if (!(await lock(handle, directory, lockTimeoutMs))) {
      logger.warn(
        { directory, waitedMs: lockTimeoutMs },
        'another process keeps the directory of the socket locked; starting without the lock. ' +
          'Find it with lslocks, and let only trusted users read the directory',
      );
    }
    await claimSocketPath(path);
    await bind();
  } finally {
    await handle.close();
  }
}

/** Locks the directory until the handle is closed. False if another process still holds the lock. */
async function lock({ fd: descriptor }: FileHandle, path: string, timeoutMs: number): Promise<boolean> {
  const attempt = (): boolean => {
    try {
      return tryLock(descriptor);
    } catch (error) {
      throw new StartError(`cannot lock the directory ${path} of the socket: ${(error as Error).message}`);
    }
  };
  return (await pollUntil(attempt, { intervalMs: LOCK_INTERVAL_MS, timeoutMs })) !== null;
}

async function claimSocketPath(path: string): Promise<void> {
  const found = await lstat(path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null;
    throw new StartError(`cannot examine the socket path ${path}: ${(error as Error).message}`);
  });
  if (found === null) return;
  if (!found.isSocket()) {
    throw new StartError(`${path} exists and is not a socket. Remove it first, or use another CSI_ENDPOINT`);
  }
  await assertDead(path);
  await unlink(path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return;
    throw new StartError(`cannot remove the stale socket ${path}: ${(error as Error).message}`);
  });
}

async function assertDirectory(directory: string): Promise<void> {
  const found = await stat(directory).catch((error: unknown) => {
    throw new StartError(
      errorCode(error) === 'ENOENT'
        ? `the directory ${directory} of the socket does not exist. Create it first`
        : `cannot examine the directory ${directory} of the socket: ${(error as Error).message}`,
    );
  });
  if (!found.isDirectory()) throw new StartError(`${directory} is not a directory`);
}

/** A socket file outlives its process. Only a refused connection proves that no process listens. */
async function assertDead(path: string): Promise<void> {
  const failure = await new Promise<string | null>((resolve) => {
    const probe = createConnection(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(null);
    });
    probe.once('error', (error) => resolve(errorCode(error) ?? error.message));
  });
  if (failure === 'ECONNREFUSED' || failure === 'ENOENT') return;
  if (failure === null || failure === 'EAGAIN') {
    throw new StartError(`another process serves on ${path}. Stop it first, or use another CSI_ENDPOINT`);
  }
  throw new StartError(`cannot determine whether a process serves on ${path}: ${failure}`);
}
