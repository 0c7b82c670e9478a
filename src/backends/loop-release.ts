/** Detaching a file from its loop device, with the patience that mounts of others need. */

import { releaseDevice } from '../host/device-release.js';
import type { NativeRunner } from '../native/pool.js';

/** EBUSY if somebody holds it. Not attached: done. */
export function releaseLoop(native: NativeRunner, backingPath: string): Promise<void> {
  return releaseDevice(
    () => native.run('loopDetach', { backingPath }),
    async () => (await native.run('loopFind', { backingPath })).device?.path ?? null,
  );
}
