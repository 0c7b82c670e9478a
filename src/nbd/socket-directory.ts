/**
 * A directory for the sockets of NBD servers that only this user can enter: whoever can connect to such a
 * socket reads the snapshot, or writes the image, that is behind it.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isRunning, ownIdentity } from '../base/process-identity.js';

const PREFIX = 'blockdelta-nbd-';

export interface SocketDirectory {
  readonly path: string;
  close(): Promise<void>;
}

/** Made in TMPDIR. Directories of processes that were killed are removed first. */
export async function makeSocketDirectory(parent = tmpdir()): Promise<SocketDirectory> {
  await removeLeftovers(parent);
  const { pid, started } = ownIdentity();
  const path = await mkdtemp(join(parent, `${PREFIX}${short(pid)}-${short(started)}-`));
  return { path, close: () => rm(path, { recursive: true, force: true }) };
}

async function removeLeftovers(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const [, pid, started] = /^blockdelta-nbd-([0-9a-z]+)-([0-9a-z]+)-/.exec(name) ?? [];
    if (pid === undefined || started === undefined) continue;
    if (isRunning({ pid: fromShort(pid), started: `${fromShort(started)}` })) continue;
    // Another user's directory stays.
    await rm(join(parent, name), { recursive: true, force: true }).catch(() => undefined);
  }
}

/** The kernel accepts 107 bytes for the path of a socket, and TMPDIR may take most of them. */
const BASE = 36;
const short = (number: number | string): string => Number(number).toString(BASE);
const fromShort = (text: string): number => Number.parseInt(text, BASE);
