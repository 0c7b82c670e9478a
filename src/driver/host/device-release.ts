/**
 * Waits until nothing else holds a device that is being released.
 *
 * A process may hold a device after this process has unmounted it: a copied mount namespace keeps every mount of the original
 * until the namespace ends or drops the mounts (containers and sandboxes begin with such a copy), and a process that has the
 * device open holds it until the process closes it. Knows nothing of volumes and pools.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { insteadOf, SystemError } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import { mountsOfDevice, readMountInfo } from '../../base/system/mountinfo.js';
import { withTimeout } from '../../base/timeout.js';
import type { NativeRunner } from '../native/pool.js';
import { describeHolders } from './device-holders.js';
import { thawLeftFrozen } from './left-frozen.js';

/** How long to wait for a device that others hold. */
export interface ReleaseWait {
  timeoutMs: number;
  /** Ends the wait at once when it is aborted; the wait then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** The default: programs that only read a device close it within this time. */
const DEFAULT_WAIT: ReleaseWait = { timeoutMs: 3000 };
const INTERVAL_MS = 50;
/**
 * After the default wait, one attempt per second is enough: each attempt may occupy a device thread for 200 ms, and several
 * waiting calls must leave threads to others.
 */
const LONG_WAIT_INTERVAL_MS = 1000;
/** The search for the holders' names begins this long before the end of a wait, because the wait may use up the call's time. */
const NAMING_MS = 2000;
/** How long that search may continue after the end of the wait. */
const NAMING_LATE_MS = 500;

export interface Release {
  /** Fails with EBUSY as long as something holds the device. */
  release(): Promise<unknown>;
  /** The current path of the device; null if the device is gone. */
  findPath(): Promise<string | null>;
}

/**
 * Repeats `release` while it fails with EBUSY. Thaws a file system that is frozen and mounted nowhere any more: the caller has
 * made sure that nobody uses the device. Rejects with EBUSY and the holders' names, at once if the device is mounted in our own
 * mount namespace, otherwise at the end of the wait.
 */
export async function releaseDevice(
  native: NativeRunner,
  { release, findPath }: Release,
  wait: ReleaseWait = DEFAULT_WAIT,
): Promise<void> {
  const attempt = (): Promise<boolean> => isReleasedBy(release);
  if (await attempt()) return;
  const held = await findPath();
  if (held !== null && (await thawLeftFrozen(native, held)) && (await attempt())) return;
  const ended = new AbortController();
  try {
    const isMounted = await isMountedHere(await findPath());
    const timeoutMs = isMounted ? 0 : wait.timeoutMs;
    const naming = nameHolders(findPath, timeoutMs - NAMING_MS, ended.signal);
    // Nobody awaits the names if the device is released.
    naming.catch(() => undefined);
    const shortMs = Math.min(timeoutMs, DEFAULT_WAIT.timeoutMs);
    const short = { ...wait, intervalMs: INTERVAL_MS, timeoutMs: shortMs };
    if (shortMs > 0 && (await pollUntil(attempt, short))) return;
    const longMs = timeoutMs - shortMs;
    const long = { ...wait, intervalMs: LONG_WAIT_INTERVAL_MS, timeoutMs: longMs };
    if (longMs > 0 && (await pollUntil(attempt, long))) return;
    const path = (await findPath()) ?? '';
    const lateMs = isMounted ? NAMING_MS : NAMING_LATE_MS;
    const holders = await withTimeout(naming, lateMs, () => `${path} is in use`);
    throw new SystemError('EBUSY', 'release', path, holders);
  } finally {
    ended.abort();
  }
}

async function nameHolders(
  findPath: () => Promise<string | null>,
  afterMs: number,
  signal: AbortSignal,
): Promise<string> {
  if (afterMs > 0) await delay(afterMs, undefined, { signal });
  const path = await findPath();
  return path === null ? 'its device is being released' : describeHolders(path);
}

function isReleasedBy(release: () => Promise<unknown>): Promise<boolean> {
  return release().then(() => true, insteadOf(['EBUSY'], false));
}

async function isMountedHere(devicePath: string | null): Promise<boolean> {
  if (devicePath === null) return false;
  const { rdev } = await stat(devicePath);
  return mountsOfDevice(await readMountInfo(), rdev).length > 0;
}
