/**
 * Opens and makes files where others may have put something else: a link, a pipe, a file of another user, or a file
 * without end. Knows nothing of the content of the files.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { CsiError, errorCode } from '../../base/errors.js';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;

/** Closes the file when `use` has ended. */
export async function withFile<T>(opening: Promise<FileHandle>, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await opening;
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/**
 * Opens a regular file, never through a link in the last component, and without waiting for the other end of a pipe.
 * Throws NOT_FOUND if there is no file, FAILED_PRECONDITION for anything else or a file longer than `maxBytes`.
 */
export async function openPlain(
  path: string,
  { maxBytes, writes = false }: { maxBytes?: number; writes?: boolean } = {},
): Promise<FileHandle> {
  let file: FileHandle;
  try {
    file = await open(path, (writes ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK);
  } catch (thrown) {
    const code = errorCode(thrown);
    if (code === 'ENOENT') throw CsiError.notFound(`there is no file ${path}`, { cause: thrown });
    // The kernel's codes for a link, and for a socket.
    if (code === 'ELOOP' || code === 'ENXIO') throw notPlain(path, thrown);
    throw thrown;
  }
  try {
    const found = await file.stat();
    if (!found.isFile()) throw notPlain(path);
    if (maxBytes === undefined || found.size <= maxBytes) return file;
    throw CsiError.failedPrecondition(
      `${path} has ${found.size} bytes, and at most ${maxBytes} are read of such a file: it was not written by this ` +
        'program; move it away',
    );
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
}

/** Returns the text of a file that is opened as in openPlain. */
export function readPlain(path: string, maxBytes: number): Promise<string> {
  return withFile(openPlain(path, { maxBytes }), (file) => file.readFile('utf8'));
}

/** Makes a file for this user alone. Rejects with EEXIST if anything of that name exists, a link included. */
export function createPlain(path: string): Promise<FileHandle> {
  return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
}

/** Flushes a file or a directory to disk. */
export function flush(path: string): Promise<void> {
  return withFile(open(path, O_RDONLY), (file) => file.sync());
}

function notPlain(path: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(
    `${path} is no regular file, and this program puts nothing else there; move it away`,
    { cause },
  );
}
