/** Opens files of backups, lists of ranges and devices. Knows nothing of the content of the files. */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { CsiError, errorCode, insteadOf } from '../../base/errors.js';
import { openChecked, withFile } from '../../base/system/checked-files.js';

/**
 * Opens a regular file (openChecked), whoever owns it. Throws NOT_FOUND if there is no file, FAILED_PRECONDITION for anything
 * else or a file longer than `maxBytes`.
 */
export async function openPlain(path: string, flags = constants.O_RDONLY, maxBytes = Infinity): Promise<FileHandle> {
  try {
    return await openChecked(path, flags, (found, cause) => {
      if (found?.isFile() !== true) {
        throw CsiError.failedPrecondition(
          `${path} is no regular file, and this program puts nothing else there; move it away`,
          { cause },
        );
      }
      if (found.size <= maxBytes) return;
      throw CsiError.failedPrecondition(
        `${path} has ${found.size} bytes, and at most ${maxBytes} are read of such a file: it was not written by this ` +
          'program; move it away',
      );
    });
  } catch (thrown) {
    if (errorCode(thrown) !== 'ENOENT') throw thrown;
    throw CsiError.notFound(`there is no file ${path}`, { cause: thrown });
  }
}

/** Returns the text of a file that is opened as in openPlain. */
export function readPlain(path: string, maxBytes: number): Promise<string> {
  return withFile(openPlain(path, constants.O_RDONLY, maxBytes), (file) => file.readFile('utf8'));
}

/** Whether the file supports O_DIRECT. tmpfs and some network file systems do not. */
export async function opensDirectly(path: string): Promise<boolean> {
  const { O_DIRECT, O_NONBLOCK, O_RDONLY } = constants;
  const opened = await open(path, O_RDONLY | O_DIRECT | O_NONBLOCK).catch(insteadOf(['EINVAL'], null));
  await opened?.close();
  return opened !== null;
}
