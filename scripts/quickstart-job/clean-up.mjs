/**
 * Removes the quickstart's directory, but never through a mount: a pool that is in use stays mounted when the
 * plugin stops, and a recursive removal would delete its volumes.
 */
import { execFile } from 'node:child_process';
import { readFile, realpath } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Throws, and removes nothing, if something is mounted below the directory. */
export async function removePlace(place) {
  const path = await realpath(place);
  const mounted = (await readFile('/proc/self/mountinfo', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((mountPoint) => mountPoint === path || mountPoint.startsWith(`${path}/`));
  if (mounted.length > 0) {
    throw new Error(
      `${mounted.join(' and ')} ${mounted.length === 1 ? 'is' : 'are'} still mounted; nothing was removed below ${place}. ` +
        `\`grep -l ${place} /proc/[0-9]*/mountinfo\` names the processes whose mount namespaces hold it: end them, umount it, and remove the directory`,
    );
  }
  // One that was mounted since is passed over.
  await run('rm', ['-r', '--one-file-system', '--', path]);
}

/** The same as a command for a shell. */
export function removalCommand(place) {
  return `grep -q ' ${place}/' /proc/self/mountinfo && echo 'still mounted, nothing removed: see grep -l ${place} /proc/[0-9]*/mountinfo' || rm -r --one-file-system ${place}`;
}
