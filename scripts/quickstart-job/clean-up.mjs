/**
 * Removes the quickstart's directory, but never through a mount: a pool that is in use stays mounted when the
 * plugin stops, and a recursive removal would delete its volumes. Also says how to do that, and what comes before, by hand.
 */
import { execFile } from 'node:child_process';
import { readFile, realpath } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Throws, and removes nothing, if something is mounted below the directory. */
export async function removePlace(place) {
  const path = await realpath(place);
  const mounted = await mountsBelow(path);
  if (mounted.length > 0) {
    throw new Error(
      `${mounted.join(' and ')} ${mounted.length === 1 ? 'is' : 'are'} still mounted; nothing was removed below ${place}. ` +
        `\`grep -l ${place} /proc/[0-9]*/mountinfo\` names the processes whose mount namespaces hold it: end them, umount it, and remove the directory`,
    );
  }
  // One that was mounted since is passed over.
  await run('rm', ['-r', '--one-file-system', '--', path]);
}

/** The mount points at a path and below it, in the order of their mounts. */
export async function mountsBelow(path) {
  return (await readFile('/proc/self/mountinfo', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((mountPoint) => mountPoint === path || mountPoint.startsWith(`${path}/`));
}

/** What ends a session that was kept, as commands for a shell. */
export function endCommands(session) {
  const { place, published, services } = session;
  const kills = services.map(({ child: { pid } }) => `kill ${pid} && tail --pid=${pid} -f /dev/null`).reverse();
  const commands = [
    `umount ${published.map(({ target }) => target).join(' ')}`,
    `umount ${published.map(({ staged }) => staged).join(' ')}`,
    detachCommand(session),
    `${kills.join(' && ')}   # unmounts and detaches the pool`,
    removalCommand(place),
  ];
  return ['To end it:', ...commands.map((command) => `  ${command}`)].join('\n');
}

/** Detaches all volumes. */
function detachCommand({ backend, place }) {
  if (backend === 'thin') return 'cat /sys/block/dm-*/dm/name | grep ^blockdelta-vol- | xargs -r -n 1 dmsetup remove';
  return `losetup -n -O NAME,BACK-FILE | awk '$2 ~ "^${place}/.*/volumes/" {print $1}' | xargs -r losetup -d`;
}

/** The same as removePlace. */
function removalCommand(place) {
  return `grep -q ' ${place}/' /proc/self/mountinfo && echo 'still mounted, nothing removed: see grep -l ${place} /proc/[0-9]*/mountinfo' || rm -r --one-file-system ${place}`;
}
