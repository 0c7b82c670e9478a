/** The runtime directory of a command, by its environment. */
import { RuntimeDirectory, runtimePath } from '../base/runtime-directory.js';
import { tryLock } from '../base/system/file-lock.js';
import { removeLeftSockets } from '../tools/nbd/socket-directory.js';
import { complain } from './output.js';

/**
 * Without the sockets of commands that were killed; their volumes go when their driver is there. FAILED_PRECONDITION,
 * with what to do, if no directory is this user's alone.
 */
export async function openRuntimeDirectory(
  report: (message: string) => void = complain,
): Promise<RuntimeDirectory> {
  const runtime = await RuntimeDirectory.open(runtimePath(process.env), { tryLock, report });
  await removeLeftSockets(runtime);
  return runtime;
}
