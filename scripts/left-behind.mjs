/**
 * Finds what tests have left behind: loop devices with what device-mapper has on them, mounts in all namespaces, and
 * processes of one run, by the directory that all its files lie under, and device-mapper devices on a machine that one
 * run has for itself. Removes them:
 *
 *   node scripts/left-behind.mjs [--list] DIRECTORY    removes, or lists, what has files, mount points,
 *                                                     variables or arguments there, or works there
 */
import { spawnSync } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { readlinkSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const QUIETLY = { stdio: 'ignore', timeout: 20_000 };
const ENDING_MS = 20_000;
/** The end of a name that mkdtemp has made. */
const RANDOM = /-[A-Za-z0-9]{6}$/;

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function link(path) {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function isBelow(path, directory) {
  return path === directory || path.startsWith(`${directory}/`);
}

/** Kernel names and backing files of loop devices on files of the directory, as the kernel names them, also deleted ones. */
function loops(directory) {
  const names = namesOf(directory);
  return readdirSync('/sys/block')
    .map((name) => ({ name, file: read(`/sys/block/${name}/loop/backing_file`).trim() }))
    .filter(({ file }) => names.some((name) => isBelow(file, name)));
}

/**
 * The directory, and what remains of its path where the mounts above it have gone with their namespace, as long as a
 * random name is still in it.
 */
function namesOf(directory) {
  const parts = directory.split('/').slice(1);
  const last = parts.findLastIndex((part) => RANDOM.test(part));
  return parts.slice(0, Math.max(last, 0) + 1).map((_, index) => `/${parts.slice(index).join('/')}`);
}

/**
 * Kernel names of loop devices on files of the directory and on each other, the uppermost first. Beside those that the
 * kernel names so, by identity: where a mount namespace has ended, paths are those of mounts that are gone. Files of
 * btrfs have another number than its device.
 */
function allLoops(directory) {
  const named = loops(directory).map(({ name }) => name);
  const files = filesIn(directory);
  if (files.size === 0 && named.length === 0) return [];
  const options = ['--list', '--json', '--output', 'NAME,BACK-INO,BACK-MAJ:MIN'];
  const { stdout } = spawnSync('losetup', options, { encoding: 'utf8', timeout: 20_000 });
  // It prints nothing where there are none.
  const all = JSON.parse(stdout || '{"loopdevices":[]}').loopdevices.map((each) => ({
    name: basename(each.name),
    inode: each['back-ino'],
    // Null for who may not open the device.
    dev: each['back-maj:min']?.trim(),
  }));
  const found = all.filter(({ name, dev, inode }) => named.includes(name) || files.has(`${dev} ${inode}`));
  // Grows meanwhile.
  for (const lower of found) {
    const number = read(`/sys/block/${lower.name}/dev`).trim();
    found.push(...all.filter((each) => each.dev === number && !found.includes(each)));
  }
  return found.reverse().map(({ name }) => name);
}

/** Its regular files: device, as losetup prints it, and inode. */
function filesIn(directory) {
  if (!existsSync(directory)) return new Set();
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Set(
    files.map(({ parentPath, name }) => {
      const { dev, ino } = statSync(join(parentPath, name));
      return `${(dev >>> 8) & 0xfff}:${(dev & 0xff) | ((dev >>> 12) & 0xfff00)} ${ino}`;
    }),
  );
}

/** Mount points below the directory, in the order they were mounted, each with what a command begins with that sees it. */
function mounts(directory) {
  const own = mountsOf('self', directory).map((mountPoint) => ({ mountPoint, enter: [] }));
  return [...otherNamespaces().flatMap((pid) => {
    const enter = ['nsenter', `--mount=/proc/${pid}/ns/mnt`];
    return mountsOf(pid, directory).map((mountPoint) => ({ mountPoint, enter }));
  }), ...own];
}

function mountInWords({ mountPoint, enter }) {
  return `mount at ${mountPoint}${enter.length > 0 ? ' in another namespace' : ''}`;
}

function mountsOf(pid, directory) {
  return read(`/proc/${pid}/mountinfo`)
    .split('\n')
    .map((line) => (line.split(' ')[4] ?? '').replaceAll('\\040', ' '))
    .filter((mountPoint) => isBelow(mountPoint, directory));
}

/** One process in each other mount namespace that may be looked at. */
function otherNamespaces() {
  const found = new Map(processes().map((pid) => [link(`/proc/${pid}/ns/mnt`), pid]));
  for (const namespace of ['', link('/proc/self/ns/mnt')]) found.delete(namespace);
  return [...found.values()];
}

function processes() {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
}

/** A process in words. */
export function processInWords(pid) {
  return `process ${pid}: ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()}`;
}

/** Of this machine, in words: for one that a run has for itself. Pools, volumes and tests' disks are named so. */
export function mappedDevices() {
  return mapped().map(({ name, mappedName }) => `device-mapper device /dev/${name}, ${mappedName}`);
}

/** Each as far as nothing uses it, so that what stands on others goes first. */
export function removeMapped() {
  for (let left = mapped(), before = Infinity; left.length > 0 && left.length < before; ) {
    before = left.length;
    for (const { mappedName } of left) {
      spawnSync('dmsetup', ['resume', '--noflush', mappedName], QUIETLY);
      spawnSync('dmsetup', ['remove', mappedName], QUIETLY);
    }
    left = mapped();
  }
  for (const path of strayNodes()) rmSync(path);
}

/**
 * Of devices that are gone: the kernel leaves nodes that it has not made, such as those that the addon makes
 * where the kernel's comes late.
 */
function strayNodes() {
  return readdirSync('/dev')
    .filter((name) => /^dm-\d+$/.test(name) && !existsSync(`/sys/block/${name}`))
    .map((name) => `/dev/${name}`);
}

function mapped() {
  return readdirSync('/sys/block')
    .map((name) => ({ name, mappedName: read(`/sys/block/${name}/dm/name`).trim() }))
    .filter(({ mappedName }) => mappedName.startsWith('blockdelta-'));
}

/** Numbers of processes that name the directory. */
export function processesNaming(directory) {
  return processes().filter((pid) => namesDirectory(pid, directory));
}

/** Whether a process has that directory in its variables or arguments, works below it, or runs a program there. */
export function namesDirectory(pid, directory) {
  const end = '(?![A-Za-z0-9_.-])';
  const named = new RegExp(`${directory.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}${end}`);
  return (
    ['environ', 'cmdline'].some((name) => named.test(read(`/proc/${pid}/${name}`))) ||
    ['cwd', 'exe', 'root'].some((name) => isBelow(link(`/proc/${pid}/${name}`), directory))
  );
}

/** What has files, mount points, variables or arguments below a directory, or works there; each in words. */
export function leftUnder(directory) {
  const devices = loops(directory);
  return [
    ...devices.map(({ name, file }) => `loop device /dev/${name} on ${file}`),
    ...devices.flatMap(({ name }) => mappedOn(name)).map((name) => `device-mapper device ${name}`),
    ...mounts(directory).map(mountInWords),
    ...processesNaming(directory).map(processInWords),
  ];
}

/** Names of the devices of device-mapper on that one, the uppermost first. */
function mappedOn(kernelName) {
  const holders = `/sys/block/${kernelName}/holders`;
  return (existsSync(holders) ? readdirSync(holders) : []).flatMap((holder) => {
    const name = read(`/sys/block/${holder}/dm/name`).trim();
    return [...mappedOn(holder), ...(name === '' ? [] : [name])];
  });
}

/**
 * Ends, unmounts, detaches and deletes all of it, as far as that is possible. Returns in words what a look at the names of
 * this mount namespace does not find.
 */
export function removeUnder(directory) {
  endProcesses(directory);
  // The latest mount first. A device is detached before its file's file system is unmounted: it would keep
  // that busy, and once the mount is gone its file is not below the directory any more.
  const mounted = mounts(directory).reverse();
  for (const { mountPoint, enter } of mounted) {
    detachBelow(mountPoint);
    run(...enter, 'fsfreeze', '-u', mountPoint);
    if (run(...enter, 'umount', mountPoint).status !== 0) run(...enter, 'umount', '-l', mountPoint);
  }
  detachBelow(directory);
  const hidden = allLoops(directory);
  for (const name of hidden) detach(name, () => allLoops(directory).includes(name));
  if (process.getuid() === 0) spawnSync('chattr', ['-R', '-i', '-f', directory], QUIETLY);
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch (thrown) {
    console.log(`cannot remove ${directory}: ${thrown.message}`);
  }
  const elsewhere = mounted.filter(({ enter }) => enter.length > 0);
  return [...elsewhere.map(mountInWords), ...hidden.map((name) => `loop device /dev/${name} on a file of it`)];
}

function run(program, ...words) {
  return spawnSync(program, words, QUIETLY);
}

/** Kills them, and waits until they have closed their files, which takes longer on a busy machine. */
function endProcesses(directory) {
  const deadline = Date.now() + ENDING_MS;
  for (let left = processesNaming(directory); left.length > 0; left = processesNaming(directory)) {
    killAll(left);
    if (Date.now() > deadline) return;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  }
}

export function killAll(pids) {
  for (const pid of pids) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

function detachBelow(path) {
  for (const { name, file } of loops(path)) {
    for (const mappedName of mappedOn(name)) run('dmsetup', 'remove', '--force', mappedName);
    // A device that went with its mount may be another test's by now.
    detach(name, () => read(`/sys/block/${name}/loop/backing_file`).trim() === file);
  }
}

/** A file system that is frozen outlives its last mount and holds its device; the next mount shows the same one. */
function thawHeld(path) {
  try {
    closeSync(openSync(path, constants.O_RDONLY | constants.O_EXCL));
  } catch {
    run('unshare', '--mount', 'bash', '-c', 'mount "$0" /mnt && fsfreeze -u /mnt && umount /mnt', path);
  }
}

/** Asks whether it is ours while it is open, from when on nobody else gets its number. */
function detach(name, isOurs) {
  let device;
  try {
    device = openSync(`/dev/${name}`, 'r');
  } catch {
    // It has gone, or is not ours to open.
    return;
  }
  if (isOurs()) {
    thawHeld(`/dev/${name}`);
    // The number keeps BLKROSET for its next user.
    run('blockdev', '--setrw', `/dev/${name}`);
    run('losetup', '-d', `/dev/${name}`);
  }
  closeSync(device);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const directory = process.argv.at(-1);
  if (process.argv[2] === '--list') {
    console.log(leftUnder(directory).join('\n'));
  } else if (directory.split('/').some((part) => RANDOM.test(part))) {
    removeUnder(directory);
  } else {
    console.error(`${directory} is no work directory of a test: the names of these end in a hyphen and six random characters`);
    process.exitCode = 2;
  }
}
