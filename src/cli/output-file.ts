/** Writes files for the caller of a command: in any directory, and never through a link that somebody else has made. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorCode, messageOf } from '../base/errors.js';
import { at, withFile } from '../base/system/checked-files.js';
import { openDirectoryOf } from '../base/system/own-way.js';

const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/** Replaces the content of a file, as a shell's `>` does. */
export async function writeOutput(path: string, text: string): Promise<void> {
  const how = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
  try {
    await withFile(openDirectoryOf(path), ({ fd }) =>
      withFile(open(at(fd, basename(path)), how), (file) => file.writeFile(text)),
    );
  } catch (thrown) {
    const found = errorCode(thrown) === 'ELOOP' ? 'it is a link' : messageOf(thrown);
    throw new Error(`cannot write ${path} (${found}): name a file in a directory that exists and has room`);
  }
}
