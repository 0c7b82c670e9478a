/**
 * Whether others can exchange what is in a directory of backups, or the directory itself, while a command uses it. What
 * was looked at must stay what it is until a program has read it: qemu's programs are given names of files, run with
 * the rights of the command, and follow what images say of each other.
 */
import { realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CsiError } from '../../base/errors.js';
import { canOthersWrite, effectiveUser } from '../../base/runtime-directory.js';

/** Who may write there may not rename or remove what others own. */
const STICKY = 0o1000;

/** The path without links. FAILED_PRECONDITION if anybody but this user and root can exchange what is there. */
export async function ownDirectory(path: string): Promise<string> {
  const resolved = await realpath(path);
  await assertOwn(resolved, resolved);
  for (let above = dirname(resolved); ; above = dirname(above)) {
    await assertOwn(above, resolved);
    if (above === dirname(above)) return resolved;
  }
}

async function assertOwn(directory: string, repository: string): Promise<void> {
  const found = await stat(directory);
  const { uid, mode } = found;
  if (uid !== 0 && uid !== effectiveUser()) {
    throw shared(directory, repository, `${directory} belongs to user ${uid}`);
  }
  const mayOnlyAdd = directory !== repository && (mode & STICKY) !== 0;
  if (canOthersWrite(found) && !mayOnlyAdd) {
    throw shared(directory, repository, `others can write to ${directory}`);
  }
}

function shared(directory: string, repository: string, found: string): CsiError {
  return CsiError.failedPrecondition(
    `${found}, so they can exchange the backups in ${repository} while this command reads or writes them: run the ` +
      `command as the user to whom ${directory} belongs, take the right to write to it from others, or trust them with ` +
      '--allow-shared',
  );
}
