/**
 * What allows one reader one transfer: a key that both ends know. It reaches the programs in a file, and never stands in an
 * argument, a log or a message. The name of the export is no secret; it keeps a reader from a transfer that is not its own.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bestEffort, unreported } from '../../base/best-effort.js';

export interface Ticket {
  /** A pre-shared key of TLS, 64 hexadecimal digits. */
  readonly key: string;
  /** A uuid. */
  readonly exportName: string;
}

export const newTicket = (): Ticket => ({ key: randomBytes(32).toString('hex'), exportName: randomUUID() });

/** The one identity in a file of keys: each transfer has a file of its own. */
export const IDENTITY = 'transfer';

/**
 * Writes the key to a new file, as GnuTLS reads it, and returns its path.
 *
 * @param directory only this user can enter it. The program that reads the file runs as another user, so all may read it.
 */
export const writeKey = (directory: string, { key }: Ticket): Promise<string> =>
  writeReadable(join(directory, `${randomUUID()}.key`), `${IDENTITY}:${key}\n`);

/** A new file that all may read. Resolves to its path. A failure leaves no file. */
export async function writeReadable(path: string, text: string): Promise<string> {
  try {
    await writeFile(path, text, { mode: 0o600, flag: 'wx' });
    await chmod(path, 0o444);
    return path;
  } catch (thrown) {
    await bestEffort(() => rm(path, { force: true }), unreported);
    throw thrown;
  }
}
