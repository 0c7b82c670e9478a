/**
 * Waiting until nothing else holds a device that is being released.
 *
 * A process may hold a device after it was unmounted here: a copied mount namespace keeps every mount
 * of the original until it ends or drops them (containers and sandboxes begin with such a copy), and a
 * process that has the device open keeps it until it closes it. Knows nothing of volumes and pools.
 */
import { stat } from 'node:fs/promises';
import { errorCode, SystemError } from '../base/errors.js';
import { pollUntil } from '../base/poll.js';
import { describeHolders } from './device-holders.js';
import { mountsOfDevice, readMountInfo } from './mountinfo.js';

/** How long to wait for a device that others hold. */
export interface ReleaseWait {
  timeoutMs: number;
  /** Ends the wait at once, with its reason. */
  signal?: AbortSignal;
}

/** For a caller that says nothing else: programs that only read a device close it within this time. */
const DEFAULT_WAIT: ReleaseWait = { timeoutMs: 3000 };
const INTERVAL_MS = 50;

/**
 * Repeats `release` while it fails with EBUSY. Rejects with EBUSY and the holders' names, at once if the
 * device is mounted in our own mount namespace, otherwise at the end of the wait.
 *
 * @param findPath where the device is now; null: it is gone
 */
export async function releaseDevice(
  release: () => Promise<unknown>,
  findPath: () => Promise<string | null>,
  wait: ReleaseWait = DEFAULT_WAIT,
): Promise<void> {
  const attempt = (): Promise<boolean> => isReleasedBy(release);
  if (await attempt()) return;
  if (!(await isMountedHere(await findPath()))) {
    if (await pollUntil(attempt, { intervalMs: INTERVAL_MS, ...wait })) return;
  }
  const path = await findPath();
  const holders = path === null ? 'its device is being released' : await describeHolders(path);
  throw new SystemError('EBUSY', 'release', path ?? '', holders);
}

async function isReleasedBy(release: () => Promise<unknown>): Promise<boolean> {
  try {
    await release();
    return true;
  } catch (thrown) {
    if (errorCode(thrown) === 'EBUSY') return false;
    throw thrown;
  }
}

async function isMountedHere(devicePath: string | null): Promise<boolean> {
  if (devicePath === null) return false;
  const { rdev } = await stat(devicePath);
  return mountsOfDevice(await readMountInfo(), rdev).length > 0;
}
