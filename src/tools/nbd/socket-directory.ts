/**
 * A directory for the sockets of NBD servers that only this user can enter: whoever can connect to such a
 * socket reads the snapshot, or writes the image, that is behind it.
 */
import type { RuntimeDirectory, RuntimeEntry } from '../../base/runtime-directory.js';

const KIND = 'nbd';

/** A new one, to be discarded by the caller. */
export function makeSocketDirectory(runtime: RuntimeDirectory): RuntimeEntry {
  return runtime.make(KIND);
}

/** Removes those of commands that were killed. */
export async function removeLeftSockets(runtime: RuntimeDirectory): Promise<void> {
  await runtime.sweep(KIND, (left) => left.discard());
}
