/** Releases the devices of volumes and pools, waiting for other programs that still use them. */

import { CsiError, errorCode, type SystemError } from '../../base/errors.js';
import { type ReleaseWait, releaseDevice } from '../host/device-release.js';
import type { NativeRunner } from '../native/pool.js';

/**
 * Detaches a file from its loop device; succeeds if it is not attached. Fails as `releaseDevice` does.
 *
 * @param hint as for loopFind
 */
export function releaseLoop(
  native: NativeRunner,
  backingPath: string,
  wait?: ReleaseWait,
  hint: number | null = null,
): Promise<void> {
  const file = { backingPath, hint };
  const release = (): Promise<unknown> => native.run('loopDetach', file);
  const findPath = async (): Promise<string | null> => (await native.run('loopFind', file)).device?.path ?? null;
  return releaseDevice(native, { release, findPath }, wait);
}

/** The error if `thrown` says that others hold the device of a volume; null otherwise. */
export function deviceInUse(volumeId: string, thrown: unknown): CsiError | null {
  if (errorCode(thrown) !== 'EBUSY') return null;
  const holders = (thrown as SystemError).message;
  return CsiError.failedPrecondition(
    `volume ${volumeId} is in use: ${holders}; unpublish and unstage the volume, end what else holds its ` +
      'device, and try again',
    { cause: thrown },
  );
}
