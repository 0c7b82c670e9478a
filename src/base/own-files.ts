/**
 * Whether a directory and the files in it are this user's alone: the runtime directory, the state directory, a pool's
 * records, a directory of backups. Only then is what was looked at still what is opened by its name afterwards.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CsiError, errorCode, insteadOf } from './errors.js';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
const PLAINLY = O_NOFOLLOW | O_NONBLOCK;
const WRITABLE_BY_OTHERS = 0o022;
/** Who may write there may not rename or remove what others own. */
const STICKY = 0o1000;

export const effectiveUser = (): number => process.geteuid?.() ?? 0;
/** Root could change it anyway. */
export const isOwn = ({ uid }: Stats): boolean => uid === 0 || uid === effectiveUser();

/**
 * The path without links. FAILED_PRECONDITION if anybody but this user and root can exchange what is there.
 *
 * @param otherwise what to do instead of taking the right to write from others; default: for a state directory
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

/** How somebody beside this user and root can exchange what is in a directory without links; null: nobody can. */
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
 * A database in an own directory, with the files beside it whose names begin with its own: each is a regular file of this
 * user or root, with one name. FAILED_PRECONDITION otherwise.
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
 * Opens a regular file; never through a link, and without waiting for the other end of a pipe. FAILED_PRECONDITION for
 * anything else that is there, and for a file of another user.
 *
 * @param maxBytes for a file that is only read; without, it is written and must have one name
 */
export async function openOwn(path: string, flags: number, maxBytes?: number): Promise<FileHandle> {
  let opened: FileHandle | null = null;
  try {
    opened = await open(path, flags | PLAINLY, 0o600);
    assertPlain(path, await opened.stat(), maxBytes);
    return opened;
  } catch (thrown) {
    await opened?.close();
    throw explained(path, thrown);
  }
}

/** The trimmed text of a file as openOwn opens it; null: there is none. */
export async function readOwn(path: string, maxBytes: number): Promise<string | null> {
  const opened = await openOwn(path, O_RDONLY, maxBytes).catch(nullIfAbsent);
  try {
    return (await opened?.readFile('utf8'))?.trim() ?? null;
  } finally {
    await opened?.close();
  }
}

/**
 * As readOwn, for threads and commands that may wait for a disk.
 *
 * @param label names it in messages
 */
export function readOwnSync(path: string, maxBytes: number, label = path): string | null {
  let descriptor: number | null = null;
  try {
    descriptor = openSync(path, O_RDONLY | PLAINLY);
    assertPlain(label, fstatSync(descriptor), maxBytes);
    return readFileSync(descriptor, 'utf8').trim();
  } catch (thrown) {
    return nullIfAbsent(explained(label, thrown));
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}

const nullIfAbsent = insteadOf(['ENOENT'], null);

/** The kernel's codes for a link, and for a socket or a pipe that nobody reads, say that it is no regular file. */
function explained(label: string, thrown: unknown): unknown {
  const isOther = ['ELOOP', 'ENXIO'].includes(errorCode(thrown) ?? '');
  return isOther ? notUsed(label, NOT_REGULAR, thrown) : thrown;
}

function assertPlain(label: string, found: Stats, maxBytes?: number): void {
  const { uid, nlink, size } = found;
  if (!found.isFile()) throw notUsed(label, NOT_REGULAR);
  if (!isOwn(found)) throw notUsed(label, `it belongs to user ${uid}`);
  if (maxBytes === undefined && nlink > 1) throw notUsed(label, `it has ${nlink} links`);
  if (size > (maxBytes ?? size)) {
    throw notUsed(label, `it has ${size} bytes, and at most ${maxBytes} are read of such a file`);
  }
}

const NOT_REGULAR = 'it is not a regular file';

function notUsed(label: string, found: string, cause?: unknown): CsiError {
  const message = `${label} is not used: ${found}; look at what is there and move it away`;
  return CsiError.failedPrecondition(message, { cause });
}
