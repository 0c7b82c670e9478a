/**
 * Finds what tests have left behind: loop devices, mounts and processes of one run, by the directory that all
 * its files lie under, and device-mapper devices on a machine that one run has for itself. Removes them:
 *
 *   node scripts/left-behind.mjs [--list] DIRECTORY    removes, or lists, what has files, mount points,
 *                                                     variables or arguments there
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const QUIETLY = { stdio: 'ignore', timeout: 20_000 };
const ENDING_MS = 3000;

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Kernel names and backing files of loop devices. */
function loops(isOurs) {
  return readdirSync('/sys/block')
    .map((name) => ({ name, file: read(`/sys/block/${name}/loop/backing_file`).trim() }))
    .filter(({ file }) => isOurs(file));
}

/**
 * Kernel names of loop devices on files of the directory and on each other, the uppermost first, by identity: where a
 * mount namespace has ended, their paths are those of mounts that are gone. Files of btrfs have another number than its
 * device.
 */
function nameless(directory) {
  const files = filesIn(directory);
  if (files.size === 0) return [];
  const options = ['--list', '--json', '--output', 'NAME,BACK-INO,BACK-MAJ:MIN'];
  const { stdout } = spawnSync('losetup', options, { encoding: 'utf8', timeout: 20_000 });
  // It prints nothing where there are none.
  const all = JSON.parse(stdout || '{"loopdevices":[]}').loopdevices.map((each) => ({
    name: basename(each.name),
    inode: each['back-ino'],
    // Null for who may not open the device.
    dev: each['back-maj:min']?.trim(),
  }));
  const found = all.filter(({ dev, inode }) => files.has(`${dev} ${inode}`));
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

function mounts(isOurs) {
  return read('/proc/self/mountinfo')
    .split('\n')
    .map((line) => (line.split(' ')[4] ?? '').replaceAll('\\040', ' '))
    .filter(isOurs);
}

function command(pid) {
  return read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
}

function describe(foundLoops, foundMounts, foundProcesses) {
  return [
    ...foundLoops.map(({ name, file }) => `loop device /dev/${name} on ${file}`),
    ...foundMounts.map((mountPoint) => `mount at ${mountPoint}`),
    ...foundProcesses.map((pid) => `process ${pid}: ${command(pid)}`),
  ];
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

/** Numbers of processes with that directory in their variables or arguments. */
export function processesNaming(directory) {
  return readdirSync('/proc').filter(
    (name) => /^\d+$/.test(name) && Number(name) !== process.pid && namesDirectory(name, directory),
  );
}

/** Whether a process has that directory in its variables or arguments. */
export function namesDirectory(pid, directory) {
  const end = '(?![A-Za-z0-9_.-])';
  const named = new RegExp(`${directory.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}${end}`);
  return named.test(read(`/proc/${pid}/environ`)) || named.test(read(`/proc/${pid}/cmdline`));
}

function ofDirectory(directory) {
  const isBelow = (path) => path === directory || path.startsWith(`${directory}/`);
  return {
    loops: loops(isBelow),
    mounts: mounts(isBelow),
    processes: processesNaming(directory),
  };
}

/** What has files, mount points, variables or arguments below a directory; each in words. */
export function leftUnder(directory) {
  const found = ofDirectory(directory);
  return describe(found.loops, found.mounts, found.processes);
}

/**
 * Ends, unmounts, detaches and deletes all of it, as far as that is possible. Returns in words what had no name below
 * the directory.
 */
export function removeUnder(directory) {
  endProcesses(directory);
  // The latest mount first. A device is detached before its file's file system is unmounted: it would keep
  // that busy, and once the mount is gone its file is not below the directory any more.
  for (const mountPoint of ofDirectory(directory).mounts.reverse()) {
    detachBelow(mountPoint);
    spawnSync('fsfreeze', ['-u', mountPoint], QUIETLY);
    if (spawnSync('umount', [mountPoint], QUIETLY).status !== 0) {
      spawnSync('umount', ['-l', mountPoint], QUIETLY);
    }
  }
  detachBelow(directory);
  const hidden = nameless(directory);
  for (const name of hidden) detach(name);
  if (process.getuid() === 0) spawnSync('chattr', ['-R', '-i', '-f', directory], QUIETLY);
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch (thrown) {
    console.log(`cannot remove ${directory}: ${thrown.message}`);
  }
  return hidden.map((name) => `loop device /dev/${name} on a file of it`);
}

/** Kills them, and waits until they have closed their files, which takes longer on a busy machine. */
function endProcesses(directory) {
  const deadline = Date.now() + ENDING_MS;
  for (let left = ofDirectory(directory).processes; left.length > 0; ) {
    for (const pid of left) {
      try {
        process.kill(Number(pid), 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
    if (Date.now() > deadline) return;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    left = ofDirectory(directory).processes;
  }
}

function detachBelow(path) {
  for (const { name, file } of ofDirectory(path).loops) {
    removeMappedOn(name);
    // A device that went with its mount may be another test's by now.
    if (read(`/sys/block/${name}/loop/backing_file`).trim() === file) detach(name);
  }
}

function detach(name) {
  // The number keeps BLKROSET for its next user.
  spawnSync('blockdev', ['--setrw', `/dev/${name}`], QUIETLY);
  spawnSync('losetup', ['-d', `/dev/${name}`], QUIETLY);
}

function removeMappedOn(kernelName) {
  const holders = `/sys/block/${kernelName}/holders`;
  for (const holder of existsSync(holders) ? readdirSync(holders) : []) {
    removeMappedOn(holder);
    const name = read(`/sys/block/${holder}/dm/name`).trim();
    if (name === '') continue;
    try {
      execFileSync('dmsetup', ['remove', '--force', name], { stdio: 'ignore', timeout: 20_000 });
    } catch {
      // In use, or gone.
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const directory = process.argv.at(-1);
  if (process.argv[2] === '--list') console.log(leftUnder(directory).join('\n'));
  else removeUnder(directory);
}
