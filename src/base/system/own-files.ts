/**
 * Checks that only this user and root can change a directory and its files: the runtime directory, the state directory, the
 * records of a pool, a directory of backups. Only then does a name still lead to the checked file when the file is opened.
 */
import { closeSync, constants, readFileSync, type Stats } from 'node:fs';
import { type FileHandle, lstat, readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CsiError, insteadOf } from '../errors.js';
import { flush, openChecked, openCheckedSync, withFile } from './checked-files.js';

const { O_CREAT, O_RDONLY, O_WRONLY } = constants;
const WRITABLE_BY_OTHERS = 0o022;
/** In a sticky directory, users who may write there may not rename or remove files that others own. */
const STICKY = 0o1000;

export const effectiveUser = (): number => process.geteuid?.() ?? 0;
/** A file of root counts as our own, because root could change any file anyway. */
export const isOwn = ({ uid }: Stats): boolean => uid === 0 || uid === effectiveUser();

/**
 * The path without links. Throws FAILED_PRECONDITION if anybody except this user and root can exchange what is there.
 *
 * @param otherwise an alternative to taking the right to write from others; the default suits a state directory
 */
export async function ownDirectory(
  path: string,
  otherwise = 'run this as the user to whom it belongs; a copy can be read in a directory of your own',
): Promise<string> {
  const resolved = await realpath(path);
  const others = await othersIn(resolved);
  if (others === null) return resolved;
  throw CsiError.failedPrecondition(
    `${others}, so they can exchange what is in ${resolved} while this program uses it: take the right to write there ` +
      `from others, or ${otherwise}`,
  );
}

/** How anybody except this user and root can exchange what is in a directory (a path without links); null if nobody can. */
export async function othersIn(directory: string): Promise<string | null> {
  for (let current = directory; ; current = dirname(current)) {
    const found = await stat(current);
    const mayOnlyAdd = current !== directory && (found.mode & STICKY) !== 0;
    if ((found.mode & WRITABLE_BY_OTHERS) !== 0 && !mayOnlyAdd) {
      return `others can write to ${current}`;
    }
    if (!isOwn(found)) return `user ${found.uid} owns ${current}`;
    if (current === dirname(current)) return null;
  }
}

/**
 * Checks a database in our own directory: the database and every file whose name begins with its name must be a regular file of
 * this user or root with a single link. Throws FAILED_PRECONDITION otherwise.
 */
export async function assertOwnDatabase(file: string): Promise<void> {
  const directory = await ownDirectory(dirname(file));
  for (const name of await readdir(directory)) {
    if (!name.startsWith(basename(file))) continue;
    const found = await lstat(join(directory, name)).catch(nullIfAbsent);
    if (found !== null) assertPlain(join(directory, name), found);
  }
}

/**
 * Opens a regular file (openChecked). Rejects with FAILED_PRECONDITION for any other kind of file, for a file of another user,
 * and for a file of more than `maxBytes`.
 *
 * @param maxBytes given for a file that is only read; absent for a file that is written, which must have a single link
 */
export function openOwn(path: string, flags: number, maxBytes?: number): Promise<FileHandle> {
  return openChecked(path, flags, (found, cause) => assertPlain(path, found, maxBytes, cause));
}

/** The trimmed text of a file that is opened as openOwn does; null if there is no file. */
export async function readOwn(path: string, maxBytes: number): Promise<string | null> {
  const opened = await openOwn(path, O_RDONLY, maxBytes).catch(nullIfAbsent);
  try {
    return (await opened?.readFile('utf8'))?.trim() ?? null;
  } finally {
    await opened?.close();
  }
}

/** Replaces the text of a file that is opened as openOwn does, or makes the file. Durable when it resolves. */
export async function writeOwn(path: string, text: string): Promise<void> {
  await withFile(openOwn(path, O_WRONLY | O_CREAT), async (file) => {
    await file.truncate();
    await file.writeFile(text);
    await file.sync();
  });
  await flush(dirname(path));
}

/**
 * Like readOwn, for threads and commands that may wait for a disk.
 *
 * @param label names the file in messages
 */
export function readOwnSync(path: string, maxBytes: number, label = path): string | null {
  let descriptor: number | null = null;
  try {
    descriptor = openCheckedSync(path, O_RDONLY, (found, cause) => assertPlain(label, found, maxBytes, cause));
    return readFileSync(descriptor, 'utf8').trim();
  } catch (thrown) {
    return nullIfAbsent(thrown);
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}

const nullIfAbsent = insteadOf(['ENOENT'], null);

/** @param found null for anything that is not opened, such as a link */
function assertPlain(label: string, found: Stats | null, maxBytes?: number, cause?: unknown): void {
  if (found?.isFile() !== true) throw notUsed(label, 'it is not a regular file', cause);
  const { uid, nlink, size } = found;
  if (!isOwn(found)) throw notUsed(label, `it belongs to user ${uid}`);
  if (maxBytes === undefined && nlink > 1) throw notUsed(label, `it has ${nlink} links`);
  if (size > (maxBytes ?? size)) {
    throw notUsed(label, `it has ${size} bytes, and at most ${maxBytes} are read of such a file`);
  }
}

function notUsed(label: string, found: string, cause?: unknown): CsiError {
  const message = `${label} is not used: ${found}; look at what is there and move it away`;
  return CsiError.failedPrecondition(message, { cause });
}
