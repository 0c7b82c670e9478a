/**
 * Opens the block device that a restore overwrites, once. Checks that nobody else decides where the path leads, and
 * that nobody uses the device. All that follows uses the open device.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { CsiError, errorCode, insteadOf, printable } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import { readMountInfo } from '../../base/system/mountinfo.js';
import { othersIn } from '../../base/system/own-files.js';
import { followWay } from '../../base/system/own-way.js';

const { O_EXCL, O_NOFOLLOW, O_RDWR } = constants;
/** udev opens a device for a moment when the device appears, and after somebody has written to it. */
const USERS_TIMEOUT_MS = 3000;
const USERS_POLL_MS = 100;

export interface DeviceTarget {
  readonly file: FileHandle;
  /** The path, with all links resolved. */
  readonly path: string;
}

/**
 * Opens the device for writing. Returns null if the path leads to no block device.
 *
 * @throws CsiError FAILED_PRECONDITION if others can make the path lead to another device, or somebody uses the device
 */
export async function openDevice(given: string): Promise<DeviceTarget | null> {
  const way = await followWay(given).catch(insteadOf(['ENOENT'], null));
  if (way === null || !(await lstat(way.path)).isBlockDevice()) return null;
  const { path } = way;
  const others = way.others ?? (await othersIn(dirname(path)));
  if (others !== null) {
    throw CsiError.failedPrecondition(
      `${given} leads to the device ${path}, and ${others}, so they decide what it leads to: give the path of a device in ` +
        '/dev, or a path at which there is nothing',
    );
  }
  const file = await open(path, O_RDWR | O_EXCL | O_NOFOLLOW).catch((thrown: unknown) => {
    // The device is mounted, or belongs to another device.
    if (errorCode(thrown) === 'EBUSY') throw inUse(path, 'a file system or another device', thrown);
    throw thrown;
  });
  const { rdev } = await file.stat();
  let users: string[] = [];
  const isUnused = async (): Promise<boolean> => {
    users = [...(await publicationsOf(rdev)), ...(await processesWith(path, rdev))];
    return users.length === 0;
  };
  await pollUntil(isUnused, { intervalMs: USERS_POLL_MS, timeoutMs: USERS_TIMEOUT_MS });
  if (users.length === 0) return { file, path };
  await file.close();
  throw inUse(path, users.join(' and '));
}

function inUse(path: string, user: string, cause?: unknown): CsiError {
  const message = `${path} is in use by ${user}: end that, or use another device`;
  return CsiError.failedPrecondition(message, { cause });
}

/** Finds the mount points of the device's node. A raw volume is mounted in this way for a pod. */
async function publicationsOf(rdev: number): Promise<string[]> {
  const found: string[] = [];
  for (const { root, fsType, mountPoint } of await readMountInfo()) {
    // Device nodes are on these file systems. A stat on any other one may wait for a server that does not answer.
    if (root === '/' || !['devtmpfs', 'tmpfs'].includes(fsType)) continue;
    if (await isDevice(mountPoint, rdev)) found.push(`the volume published at ${mountPoint}`);
  }
  return found;
}

async function processesWith(path: string, rdev: number): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const directory = `/proc/${pid}/fd`;
    for (const name of pid === `${process.pid}` ? [] : await readdir(directory).catch(() => [])) {
      const target = await readlink(`${directory}/${name}`).catch(() => '');
      if (!target.startsWith('/dev/') && basename(target) !== basename(path)) continue;
      if (!(await isDevice(`${directory}/${name}`, rdev))) continue;
      const program = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '');
      found.push(`process ${pid} (${printable(program.trim())})`);
      break;
    }
  }
  return found;
}

async function isDevice(path: string, rdev: number): Promise<boolean> {
  const state = await stat(path).catch(() => null);
  return state?.isBlockDevice() === true && state.rdev === rdev;
}
