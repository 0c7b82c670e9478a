/** Opens the runtime directory that the environment of a command names. */

import { tryLock } from '../base/system/file-lock.js';
import { RuntimeDirectory, runtimePath } from '../base/system/runtime-directory.js';
import { removeLeftSockets } from '../tools/nbd/socket-directory.js';
import { complain } from './output.js';

/**
 * Removes the sockets of killed commands. Their volumes stay until a command reaches the driver (removeLeftVolumes).
 * FAILED_PRECONDITION, with the remedy, if no directory belongs to this user alone.
 */
export async function openRuntimeDirectory(report: (message: string) => void = complain): Promise<RuntimeDirectory> {
  const runtime = await RuntimeDirectory.open(runtimePath(process.env), { tryLock, report });
  await removeLeftSockets(runtime);
  return runtime;
}
