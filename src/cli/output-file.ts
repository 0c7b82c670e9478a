/** Writes files for the caller of a command: in any directory, and never through a link that somebody else has made. */
import { constants } from 'node:fs';
import { access, lstat, open, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorCode, insteadOf, messageOf } from '../base/errors.js';
import { at, createNew, withFile } from '../base/system/checked-files.js';
import { openDirectoryOf } from '../base/system/own-way.js';

const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY, W_OK } = constants;

/** Replaces the content of a file, as a shell's `>` does. */
export function writeOutput(path: string, text: string): Promise<void> {
  const how = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
  return inItsDirectory(path, (file) => withFile(open(file, how), (opened) => opened.writeFile(text)));
}

/** Replaces a file by another one that everybody may read. A reader sees the old content or the new, and never a part. */
export function replaceOutput(path: string, text: string): Promise<void> {
  return inItsDirectory(path, async (file) => {
    const partial = `${file}.partial`;
    await rm(partial, { force: true });
    await withFile(createNew(partial), async (opened) => {
      await opened.writeFile(text);
      await opened.chmod(0o644);
      await opened.sync();
    });
    await rename(partial, file);
  });
}

/** Rejects as writeOutput would, before a long run, and changes nothing. Space may still run out. */
export async function checkOutputs(paths: readonly (string | undefined)[]): Promise<void> {
  for (const path of paths) {
    if (path === undefined || path === '-') continue;
    await inItsDirectory(path, async (file, directory) => {
      const state = await lstat(file).catch(insteadOf(['ENOENT'], null));
      // Nothing else is opened: a pipe would wait for its reader, or end it.
      const fails = state?.isSymbolicLink() || state?.isDirectory();
      if (fails) await withFile(open(file, O_WRONLY | O_NOFOLLOW), () => Promise.resolve());
      await access(state === null ? directory : file, W_OK);
    });
  }
}

async function inItsDirectory(path: string, use: (file: string, directory: string) => Promise<void>): Promise<void> {
  try {
    await withFile(openDirectoryOf(path), ({ fd }) => use(at(fd, basename(path)), at(fd)));
  } catch (thrown) {
    const code = errorCode(thrown) ?? '';
    const found = FOUND[code] ?? messageOf(thrown);
    throw new Error(`cannot write ${path} (${found}): name a file in a directory that exists and has room`);
  }
}

const FOUND: Readonly<Record<string, string>> = {
  ELOOP: 'it is a link',
  EISDIR: 'it is a directory',
  EACCES: 'permission denied',
  EROFS: 'its file system is read-only',
};
