/**
 * Follows the path to a place where a command writes: which links lead there, and who could exchange such a link. Knows nothing
 * of what is written.
 */
import { type FileHandle, lstat, readlink } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { CsiError, errorCode } from '../errors.js';
import { at, openDirectory } from './checked-files.js';
import { othersIn } from './own-files.js';

/** The kernel follows at most this number of links. */
const MAX_LINKS = 40;

/**
 * Opens the directory in which a file or socket is to be made. Others may be able to write there, so use the descriptor.
 *
 * @throws CsiError NOT_FOUND if there is no such directory, FAILED_PRECONDITION if others decide where the path leads
 */
export async function openDirectoryOf(path: string): Promise<FileHandle> {
  const refuse = (thrown: unknown): never => {
    if (!['ENOENT', 'ENOTDIR'].includes(errorCode(thrown) ?? '')) throw thrown;
    throw CsiError.notFound(`there is no directory ${dirname(path)} for ${path}`);
  };
  const way = await followWay(dirname(path)).catch(refuse);
  const directory = await openDirectory(way.path).catch(refuse);
  // A directory on the way may have become a link meanwhile.
  const opened = await readlink(at(directory.fd));
  if (way.others === null && opened === way.path) return directory;
  await directory.close();
  throw CsiError.failedPrecondition(
    `${path} leads to ${opened} by a link, and ${way.others ?? 'others can write beside it'}, so they decide where it ` +
      'leads: give a path without links',
  );
}

/**
 * Follows the links of an absolute path, and checks the directories of the links. Rejects with ENOENT if it leads nowhere.
 *
 * @returns `path` without links, and in `others` how others can exchange a link on the way; null if they cannot
 */
export async function followWay(start: string): Promise<{ path: string; others: string | null }> {
  const rest = start.split('/');
  let [path, others, links] = ['/', null as string | null, 0];
  while (rest.length > 0) {
    const next = join(path, rest.shift() ?? '');
    if (!(await lstat(next)).isSymbolicLink()) {
      path = next;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) throw CsiError.failedPrecondition(`${start} leads through links without end`);
    others ??= await othersIn(path);
    const target = await readlink(next);
    rest.unshift(...target.split('/'));
    if (isAbsolute(target)) path = '/';
  }
  return { path, others };
}
