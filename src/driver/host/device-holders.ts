/**
 * Finds who holds a block device, and names the holder for an error message: a tool that outlives its plugin, an exclusive
 * opener such as a mount, a device stacked on it, such as the kubelet's own loop device, or any process.
 *
 * The names come from /proc and /sys, which show the plugin only the processes of its own PID namespace: a holder outside that
 * namespace stays unnamed. Processes choose their own names and paths, so these are cleaned before they are shown. Knows
 * nothing of volumes and pools.
 */
import { constants } from 'node:fs';
import { open, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { insteadOf, printable } from '../../base/errors.js';
import { LOCKED_EXIT_CODE, run } from '../../base/process/exec.js';
import { type MountEntry, majorOf, minorOf, mountInfoOfProcess, mountsOfDevice } from '../../base/system/mountinfo.js';
import { loopBackingDevice } from '../native/block-device.js';

/** An open(2) of a block device with these flags fails while the device is mounted or opened exclusively. */
const OPEN_EXCLUSIVELY = constants.O_RDONLY | constants.O_EXCL;
/** How many holders a message names. */
const MAX_NAMED = 3;
const MAX_PATH_LENGTH = 256;
const BLOCK_DEVICES = '/sys/block';
/** Part of every path where the kubelet keeps the device nodes of raw volumes. */
const KUBELET_DEVICES = '/volumeDevices/';
/** The path that the kernel shows for a device node whose bind mount is gone, such as that of a removed pod. */
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

/** The mount points of the device in the mount namespaces of all visible processes, this process included. */
export async function mountPointsAnywhere(devicePath: string): Promise<string[]> {
  const { rdev } = await stat(devicePath);
  const mounts = (await mountsOfNamespaces()).flatMap((namespace) => namespace.mounts);
  return mountsOfDevice(mounts, rdev).map(({ mountPoint }) => mountPoint);
}

/**
 * Says who holds the device, as in "/dev/loop7 is mounted at /x in the mount namespace of process 12 (sh)". Leaves out
 * processes that end meanwhile. Never rejects.
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
  // All at once, because a call waits for the answer: one after the other took over a second on a busy machine.
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
  /** The path of the backing file, in the mount namespace in which the file was opened. */
  backing: string;
}

/**
 * The loop devices that are attached to the block device, such as the one that the kubelet attaches to the device node of every
 * raw volume. No process has the kubelet's device open, and the kernel lists the device nowhere as a holder: only its backing
 * file shows the attachment. The device stays behind when the kubelet is killed or a pod is removed by force.
 */
export async function loopsAbove(rdev: number): Promise<LoopAbove[]> {
  const found: LoopAbove[] = [];
  for (const name of await readdir(BLOCK_DEVICES)) {
    if (!/^loop\d+$/.test(name)) continue;
    const [path, file] = [`/dev/${name}`, `${BLOCK_DEVICES}/${name}/loop/backing_file`];
    // The file does not exist if nothing is attached. The kernel ends the path with a line break.
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
 * Asks the loop device itself, because the path may be one of another mount namespace or of a mount that is gone. Does not ask
 * if the path cannot be that of a device node, because the backing file may be on a server that does not answer.
 */
async function isBackedBy(loopPath: string, backing: string, rdev: number): Promise<boolean> {
  const isPossible = UNMOUNTED.includes(backing) || backing.includes(KUBELET_DEVICES) || backing.startsWith('/dev/');
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
  /** What a message appends to a path in this namespace; empty for the plugin's own mount namespace. */
  suffix: string;
  mounts: readonly MountEntry[];
}

/** The mounts of each mount namespace of a visible process, our own namespace first. */
export async function mountsOfNamespaces(): Promise<NamespaceMounts[]> {
  const own = await namespaceOf('self');
  // 'self' comes first: another process of our namespace may have a root of its own and see only a part of the mounts.
  const processesOf = new Map([[own, ['self']]]);
  await ofEachProcess(async (pid) => {
    // Without CAP_SYS_PTRACE, the namespace of a process with more capabilities is unknown and may be its own.
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

/** The mounts as seen by the first process that still runs in the namespace; none if the namespace has ended. */
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

/** Whether the link leads to the device. Stats only what looks like a device node, because stat may hang on a dead server. */
async function leadsTo(link: string, devicePath: string, rdev: number): Promise<boolean> {
  const target = await readlink(link).catch(() => '');
  if (!target.startsWith('/dev/') && basename(target) !== basename(devicePath)) return false;
  const state = await stat(link).catch(() => null);
  return state?.isBlockDevice() === true && state.rdev === rdev;
}

/** Calls `look` for each visible process. Ignores processes that end meanwhile. */
async function ofEachProcess(look: (pid: string) => Promise<void>): Promise<void> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  await Promise.all(pids.map((pid) => look(pid).catch(() => undefined)));
}

async function nameOf(pid: string): Promise<string> {
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
  return `process ${pid} (${printable(name.trim())})`;
}
