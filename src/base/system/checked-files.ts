/**
 * Opens files and directories in places where others may have put something else: never through a link in the last part of the
 * path, and without waiting for the other end of a pipe. Callers check what was opened and then use its descriptor, also for
 * the names in a directory (`at`), so that whatever is renamed or linked later changes nothing. The addon does the same for the
 * system calls that Node.js lacks (native/device/anchored_path.h). Knows nothing of owners and contents.
 */
import { closeSync, constants, fstatSync, openSync, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { errorCode } from '../errors.js';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
const PLAINLY = O_NOFOLLOW | O_NONBLOCK;
const DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
const NEW_FILE = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
/** Only this user can use a new file. */
const NEW_MODE = 0o600;

/**
 * Throws if a file is not what the caller expects. Called with null, and with the error of the kernel, for a link, and for a
 * socket or a pipe that nobody reads.
 */
export type FileCheck = (found: Stats | null, cause?: unknown) => void;

/** Opens a file and checks it. Rejects with the errors of open(2) and with what `check` throws. */
export async function openChecked(path: string, flags: number, check: FileCheck): Promise<FileHandle> {
  let opened: FileHandle | null = null;
  try {
    opened = await open(path, flags | PLAINLY, NEW_MODE);
    check(await opened.stat());
    return opened;
  } catch (thrown) {
    await opened?.close();
    if (isOther(thrown)) check(null, thrown);
    throw thrown;
  }
}

/** Like openChecked, for threads and commands that may wait for a disk. */
export function openCheckedSync(path: string, flags: number, check: FileCheck): number {
  let descriptor: number | null = null;
  try {
    descriptor = openSync(path, flags | PLAINLY, NEW_MODE);
    check(fstatSync(descriptor));
    return descriptor;
  } catch (thrown) {
    if (descriptor !== null) closeSync(descriptor);
    if (isOther(thrown)) check(null, thrown);
    throw thrown;
  }
}

/** Whether open(2) met a link, or a socket or a pipe that nobody reads. */
const isOther = (thrown: unknown): boolean => ['ELOOP', 'ENXIO'].includes(errorCode(thrown) ?? '');

/** Makes a file for this user alone. Rejects with EEXIST if anything of that name exists, a link included. */
export const createNew = (path: string): Promise<FileHandle> => open(path, NEW_FILE, NEW_MODE);
export const createNewSync = (path: string): number => openSync(path, NEW_FILE, NEW_MODE);

/** Opens a directory. Rejects with ENOTDIR or ELOOP for anything else, a link to a directory included. */
export const openDirectory = (path: string): Promise<FileHandle> => open(path, DIRECTORY);
export const openDirectorySync = (path: string): number => openSync(path, DIRECTORY);

/** The path of an open file, or of a name in an open directory. Valid in the process that has the descriptor. */
export function at(descriptor: number, name?: string): string {
  const opened = `/proc/self/fd/${descriptor}`;
  return name === undefined ? opened : `${opened}/${name}`;
}

/** Closes the file when `use` has ended. */
export async function withFile<T>(opening: Promise<FileHandle>, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await opening;
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/** Flushes a file or a directory to disk. */
export function flush(path: string): Promise<void> {
  return withFile(open(path, O_RDONLY | O_NONBLOCK), (file) => file.sync());
}
