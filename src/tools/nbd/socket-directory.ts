/**
 * Makes directories for the sockets of NBD servers. Only this user can enter them, because whoever can connect to such
 * a socket reads the snapshot, or writes the image, behind the socket.
 */
import type { RuntimeDirectory, RuntimeEntry } from '../../base/system/runtime-directory.js';

const KIND = 'nbd';

/** Makes a new directory, which the caller discards. */
export function makeSocketDirectory(runtime: RuntimeDirectory): RuntimeEntry {
  return runtime.make(KIND);
}

/** Removes the directories of commands that were killed. */
export async function removeLeftSockets(runtime: RuntimeDirectory): Promise<void> {
  await runtime.sweep(KIND, (left) => left.discard());
}
