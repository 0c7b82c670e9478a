/**
 * Makes a path free for a server's socket, without ever taking it from a process that serves on it.
 *
 * Nothing is created here or beside the path: the directory belongs to whoever runs the plugin. Two starts
 * that look at one stale socket at once would each remove it, the later one that of the other: so the
 * directory itself is locked from the look until the new socket is bound.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, stat, unlink } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from './errors.js';
import { loadAddon } from './native/addon.js';

/** A start holds the lock for milliseconds. */
const LOCK_PATIENCE_MS = 10_000;
const LOCK_PAUSE_MS = 20;

/** Why the plugin cannot serve, in words for who started it. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

/**
 * Frees the path and has the socket bound, while no other start does.
 *
 * @throws StartError if the directory is missing, or the path is in use or is not a socket
 */
export async function bindSocketPath(path: string, bind: () => Promise<void>): Promise<void> {
  await assertDirectory(dirname(path));
  const directory = await lockDirectory(dirname(path));
  try {
    await claimSocketPath(path);
    await bind();
  } finally {
    await directory.close();
  }
}

/** The lock goes with the handle, and with the process. */
async function lockDirectory(path: string): Promise<FileHandle> {
  const { O_RDONLY, O_DIRECTORY } = constants;
  const directory = await open(path, O_RDONLY | O_DIRECTORY).catch((error: unknown) => {
    throw new StartError(
      `cannot open the directory ${path} of the socket: ${(error as Error).message}`,
    );
  });
  const { tryLock } = loadAddon();
  const deadline = Date.now() + LOCK_PATIENCE_MS;
  for (;;) {
    const answer = tryLock({ descriptor: directory.fd });
    if (answer.ok && answer.locked) return directory;
    if (!answer.ok || Date.now() > deadline) {
      await directory.close();
      const reason = answer.ok
        ? 'another process holds its lock, as a plugin does that is starting. End that one first'
        : answer.message;
      throw new StartError(`cannot lock the directory ${path} of the socket: ${reason}`);
    }
    await delay(LOCK_PAUSE_MS);
  }
}

async function claimSocketPath(path: string): Promise<void> {
  const found = await lstat(path).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null;
    throw new StartError(`cannot look at the socket path ${path}: ${(error as Error).message}`);
  });
  if (found === null) return;
  if (!found.isSocket()) {
    throw new StartError(`${path} exists and is not a socket; it is left alone. Remove it first`);
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
        : `cannot look at the directory ${directory} of the socket: ${(error as Error).message}`,
    );
  });
  if (!found.isDirectory()) throw new StartError(`${directory} is not a directory`);
}

/** A socket file outlives its process. Only a refused connection proves that nobody listens. */
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
    throw new StartError(
      `another process serves on ${path}. Stop it first, or use another CSI_ENDPOINT`,
    );
  }
  throw new StartError(`cannot tell whether a process serves on ${path}: ${failure}`);
}
