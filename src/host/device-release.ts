/**
 * Letting go of a device whose mount may still be another's for a moment.
 *
 * A mount namespace that is copied while a device is mounted keeps the device in use when it has been
 * unmounted here, until the copy ends or drops the mount; containers begin with such a copy. Knows
 * nothing of volumes and pools.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../base/errors.js';
import { mountsOfDevice, readMountInfo } from './mountinfo.js';

const TIMEOUT_MS = 3000;
const PAUSE_MS = 20;

/**
 * EBUSY at once while the device is mounted in our own namespace, otherwise when patience has run out.
 *
 * @param devicePath where the device is now; null: it is gone
 */
export async function releaseDevice(
  release: () => Promise<unknown>,
  devicePath: () => Promise<string | null>,
): Promise<void> {
  const deadline = performance.now() + TIMEOUT_MS;
  for (;;) {
    try {
      await release();
      return;
    } catch (thrown) {
      if (errorCode(thrown) !== 'EBUSY' || performance.now() >= deadline) throw thrown;
      const path = await devicePath();
      if (path !== null && (await isMountedHere(path))) throw thrown;
    }
    await delay(PAUSE_MS);
  }
}

async function isMountedHere(devicePath: string): Promise<boolean> {
  const { rdev } = await stat(devicePath);
  return mountsOfDevice(await readMountInfo(), rdev).length > 0;
}
