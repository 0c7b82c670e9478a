/**
 * Who holds a block device: a tool that outlives its plugin, an exclusive opener such as a mount, a device
 * stacked on it, such as the kubelet's own, or any process, in words for an error message.
 *
 * The words come from /proc and /sys, which show the plugin only the processes of its own PID namespace: a
 * holder outside of it stays unnamed. Process names and paths are chosen by those processes and are cleaned
 * before they are shown. Knows nothing of volumes and pools.
 */
import { constants } from 'node:fs';
import { open, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { insteadOf, printable } from '../../base/errors.js';
import { LOCKED_EXIT_CODE, run } from '../../base/process/exec.js';
import {
  type MountEntry,
  majorOf,
  minorOf,
  mountInfoOfProcess,
  mountsOfDevice,
} from '../../base/system/mountinfo.js';
import { loopBackingDevice } from '../native/block-device.js';

/** On a block device: fails while it is mounted or opened in the same way. */
const OPEN_EXCLUSIVELY = constants.O_RDONLY | constants.O_EXCL;
/** How many holders a message names. */
const MAX_NAMED = 3;
const MAX_PATH_LENGTH = 256;
const BLOCK_DEVICES = '/sys/block';
/** Part of every path where the kubelet keeps the device nodes of raw volumes. */
const KUBELET_DEVICES = '/volumeDevices/';
/** What the kernel shows for a device node whose bind mount is gone, as that of a pod that was removed. */
const UNMOUNTED: readonly string[] = ['/', '/ (deleted)'];

/**
 * Whether a tool that outlives its plugin (exec.ts) works on the device. Such a tool holds an exclusive flock
 * on the device node, which udev respects as well; udev's own lock is shared and does not count.
 */
export async function isToolAtWork(devicePath: string): Promise<boolean> {
  const { exitCode } = await run(
    'flock',
    ['--no-fork', '-s', '-n', '-E', String(LOCKED_EXIT_CODE), { path: devicePath }, 'true'],
    { accept: [0, LOCKED_EXIT_CODE] },
  );
  return exitCode === LOCKED_EXIT_CODE;
}

/**
 * Whether the device is mounted, in any mount namespace, or opened exclusively by a tool or by
 * device-mapper. A process that merely has it open does not count.
 */
export async function isHeldExclusively(devicePath: string): Promise<boolean> {
  const opened = await open(devicePath, OPEN_EXCLUSIVELY).catch(insteadOf(['EBUSY'], null));
  await opened?.close();
  return opened === null;
}

/** Where the mount namespaces of all processes that can be seen here, this one included, have the device mounted. */
export async function mountPointsAnywhere(devicePath: string): Promise<string[]> {
  const { rdev } = await stat(devicePath);
  const mounts = (await mountsOfNamespaces()).flatMap((namespace) => namespace.mounts);
  return mountsOfDevice(mounts, rdev).map(({ mountPoint }) => mountPoint);
}

/**
 * The device and who holds it: "/dev/loop7 is mounted at /x in the mount namespace of process 12 (sh)".
 * Processes that end meanwhile are left out. Never rejects.
 */
export async function describeHolders(devicePath: string): Promise<string> {
  const holders = await findHolders(devicePath).catch(() => []);
  if (holders.length > 0) return `${devicePath} is ${holders.slice(0, MAX_NAMED).join(' and ')}`;
  if (await isHeldExclusively(devicePath).catch(() => false)) {
    return (
      `${devicePath} is held, and no mount of it is seen: its file system is frozen (mount it, thaw it with fsfreeze -u, ` +
      'unmount it), or used by a process that the plugin does not see (on the host, fuser -m names it)'
    );
  }
  return `${devicePath} is mounted or held open by a process that the plugin does not see (on the host, fuser -m names it)`;
}

async function findHolders(devicePath: string): Promise<string[]> {
  const { rdev } = await stat(devicePath);
  // At once, because a call waits for it: one after the other took over a second on a busy machine.
  const found = await Promise.all([
    devicesAbove(rdev),
    loopDevicesAbove(rdev),
    mountsElsewhere(rdev),
    openDescriptors(devicePath, rdev),
  ]);
  return found.flat();
}

/** Device-mapper and other stacked devices. */
async function devicesAbove(rdev: number): Promise<string[]> {
  const directory = `/sys/dev/block/${majorOf(rdev)}:${minorOf(rdev)}/holders`;
  const names = await readdir(directory).catch(() => []);
  return names.map((name) => `part of the device ${name}`);
}

export interface LoopAbove {
  path: string;
  /** The path of its backing file, in the mount namespace that this was opened in. */
  backing: string;
}

/**
 * The kubelet attaches a loop device of its own to the device node of every raw volume. No process has it
 * open, and the kernel lists it nowhere as a holder: its backing file tells. A kubelet that was killed or
 * a pod that was removed by force leaves it behind.
 */
export async function loopsAbove(rdev: number): Promise<LoopAbove[]> {
  const found: LoopAbove[] = [];
  for (const name of await readdir(BLOCK_DEVICES)) {
    if (!/^loop\d+$/.test(name)) continue;
    const [path, file] = [`/dev/${name}`, `${BLOCK_DEVICES}/${name}/loop/backing_file`];
    // Not there: nothing is attached. The kernel ends the path with a line break.
    const backing = (await readFile(file, 'utf8').catch(() => '')).replace(/\n$/, '');
    if (backing !== '' && (await isBackedBy(path, backing, rdev))) found.push({ path, backing });
  }
  return found;
}

async function loopDevicesAbove(rdev: number): Promise<string[]> {
  return (await loopsAbove(rdev)).map(({ path, backing }) => {
    const above = `the backing device of ${path}`;
    const shown = printable(backing, MAX_PATH_LENGTH);
    const isUnmounted = UNMOUNTED.includes(backing);
    if (!isUnmounted && !backing.includes(KUBELET_DEVICES)) return `${above} (${shown})`;
    const unmount = isUnmounted ? '' : `, then umount ${shown}`;
    return (
      `${above}, the kubelet's own for a raw volume (${shown}); if no pod uses the volume it was left behind: ` +
      `losetup -d ${path}${unmount}`
    );
  });
}

/**
 * A path may be another mount namespace's, or belong to a mount that is gone. Then the loop device itself
 * tells; it is not asked otherwise, because its file may be on a server that does not answer.
 */
async function isBackedBy(loopPath: string, backing: string, rdev: number): Promise<boolean> {
  const isPossible =
    UNMOUNTED.includes(backing) || backing.includes(KUBELET_DEVICES) || backing.startsWith('/dev/');
  if (!isPossible) return false;
  return (await loopBackingDevice(loopPath).catch(() => 0)) === rdev;
}

/** One mount for each mount namespace that has the device mounted. */
async function mountsElsewhere(rdev: number): Promise<string[]> {
  return (await mountsOfNamespaces()).flatMap(({ suffix, mounts }) => {
    const [entry] = mountsOfDevice(mounts, rdev);
    if (entry === undefined) return [];
    return [`mounted at ${printable(entry.mountPoint, MAX_PATH_LENGTH)}${suffix}`];
  });
}

export interface NamespaceMounts {
  /** Empty for this mount namespace, otherwise what follows a path of it in a message. */
  suffix: string;
  mounts: readonly MountEntry[];
}

/** The mounts of each mount namespace of a process that can be seen here, this one first. */
export async function mountsOfNamespaces(): Promise<NamespaceMounts[]> {
  const own = await namespaceOf('self');
  // Another process of this namespace may have a root of its own, and see a part of the mounts.
  const processesOf = new Map([[own, ['self']]]);
  await ofEachProcess(async (pid) => {
    // Without CAP_SYS_PTRACE that of a process with more capabilities is unknown, and may be one of its own.
    const namespace = await namespaceOf(pid);
    processesOf.set(namespace, [...(processesOf.get(namespace) ?? []), pid]);
  });
  const found = [...processesOf].map(async ([namespace, pids]) => {
    const { pid, mounts } = await mountsOfFirst(pids, namespace);
    const suffix = namespace === own ? '' : ` in the mount namespace of ${await nameOf(pid)}`;
    return { suffix, mounts };
  });
  return Promise.all(found);
}

const namespaceOf = (pid: string): Promise<string> =>
  readlink(`/proc/${pid}/ns/mnt`).catch(() => `that of process ${pid}`);

/** As the first of the processes that is still there, and in that namespace, sees them; none: the namespace has ended. */
async function mountsOfFirst(
  pids: readonly string[],
  namespace: string,
): Promise<{ pid: string; mounts: readonly MountEntry[] }> {
  for (const pid of pids) {
    const mounts = await mountInfoOfProcess(pid).catch(() => null);
    if (mounts !== null && (await namespaceOf(pid)) === namespace) return { pid, mounts };
  }
  return { pid: '', mounts: [] };
}

async function openDescriptors(devicePath: string, rdev: number): Promise<string[]> {
  const found: string[] = [];
  await ofEachProcess(async (pid) => {
    const directory = `/proc/${pid}/fd`;
    for (const descriptor of await readdir(directory)) {
      if (!(await leadsTo(`${directory}/${descriptor}`, devicePath, rdev))) continue;
      found.push(`open in ${await nameOf(pid)}`);
      return;
    }
  });
  return found;
}

/** Calls stat, which may hang on a file of a dead server, only for what looks like a device node. */
async function leadsTo(link: string, devicePath: string, rdev: number): Promise<boolean> {
  const target = await readlink(link).catch(() => '');
  if (!target.startsWith('/dev/') && basename(target) !== basename(devicePath)) return false;
  const state = await stat(link).catch(() => null);
  return state?.isBlockDevice() === true && state.rdev === rdev;
}

/** Those that end meanwhile are passed over. */
async function ofEachProcess(look: (pid: string) => Promise<void>): Promise<void> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  await Promise.all(pids.map((pid) => look(pid).catch(() => undefined)));
}

async function nameOf(pid: string): Promise<string> {
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
  return `process ${pid} (${printable(name.trim())})`;
}
