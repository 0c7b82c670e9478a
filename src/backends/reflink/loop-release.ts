/**
 * Detaching a file from its loop device when its mount may still be another's for a moment.
 *
 * A mount namespace that is copied while a device is mounted keeps the device in use when it has been
 * unmounted here, until the copy ends or drops the mount; containers begin with such a copy. Knows
 * nothing of volumes and pools.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../errors.js';
import { mountsOfDevice, readMountInfo } from '../../mount/mountinfo.js';
import type { NativeRunner } from '../../native/pool.js';

const PATIENCE_MS = 3000;
const PAUSE_MS = 20;

/** EBUSY at once while the device is mounted in our own namespace, otherwise when patience has run out. */
export async function releaseLoop(native: NativeRunner, backingPath: string): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      await native.run('loopDetach', { backingPath });
      return;
    } catch (thrown) {
      if (errorCode(thrown) !== 'EBUSY' || performance.now() >= deadline) throw thrown;
      if (await isMountedHere(native, backingPath)) throw thrown;
    }
    await delay(PAUSE_MS);
  }
}

async function isMountedHere(native: NativeRunner, backingPath: string): Promise<boolean> {
  const { device } = await native.run('loopFind', { backingPath });
  if (device === null) return false;
  const { rdev } = await stat(device.path);
  return mountsOfDevice(await readMountInfo(), rdev).length > 0;
}
