/**
 * The state directory before anything is opened in it: who may use it, whether it can be written, and whether
 * what it holds outlives the machine. Knows nothing of what is kept there.
 */
import { constants } from 'node:fs';
import { access, mkdir, rm, statfs } from 'node:fs/promises';
import { CsiError, errorCode } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { hasCapability } from '../host/process-capabilities.js';
import { VOLATILE_FILE_SYSTEMS } from '../host/volatile-file-systems.js';

/** Makes the directory, and warns if it is volatile. FAILED_PRECONDITION, with a complete message, if it is not writable. */
export async function prepareStateDirectory(directory: string, logger: Pick<Logger, 'warn'>): Promise<void> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await access(directory, constants.W_OK);
  } catch (thrown) {
    const reason = REASONS[errorCode(thrown) ?? ''];
    if (reason === undefined) throw thrown;
    throw CsiError.failedPrecondition(
      `the state directory ${directory} cannot be written: ${reason}, or use another BLOCKDELTA_STATE_DIR`,
      { cause: thrown },
    );
  }
  const { type } = await statfs(directory, { bigint: true });
  const found = VOLATILE_FILE_SYSTEMS.get(type);
  if (found === undefined) return;
  logger.warn(
    { directory },
    `the state directory is on ${found}: all volumes are lost with it; set BLOCKDELTA_STATE_DIR to a directory on a disk`,
  );
}

/** A directory that only this user can enter, without what an earlier run has left there. Returns its path. */
export async function emptyDirectory(path: string): Promise<string> {
  await rm(path, { recursive: true, force: true });
  await mkdir(path, { mode: 0o700 });
  return path;
}

const REASONS: Readonly<Record<string, string>> = {
  EROFS: 'its file system is mounted read-only; mount it writable',
  EACCES: 'permission is denied; start the plugin as root, and let root write there',
  EPERM: 'permission is denied; start the plugin as root, and take the immutable flag off it',
  ENOTDIR: 'a part of the path is not a directory; remove it',
  EEXIST: 'a file has that name; remove it',
};

/** FAILED_PRECONDITION without the rights of root. Call this before anything is created. */
export async function assertRoot(): Promise<void> {
  const user = process.geteuid?.() ?? 0;
  if (user === 0 || (await hasCapability('CAP_SYS_ADMIN'))) return;
  throw CsiError.failedPrecondition(
    `the plugin runs as user ${user} and needs root, to attach and mount volumes: start it as root`,
  );
}
