/**
 * Makes a path free for a server's socket, without ever taking it from a process that serves on it.
 *
 * Nothing is created here or beside the path: the directory belongs to whoever runs the plugin.
 */
import { lstat, stat, unlink } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { dirname } from 'node:path';
import { errorCode } from './errors.js';

/** Why the plugin cannot serve, in words for who started it. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

/** @throws StartError if the directory is missing, or the path is in use or is not a socket */
export async function claimSocketPath(path: string): Promise<void> {
  await assertDirectory(dirname(path));
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
