/** Block devices as a device-mapper table names them, whatever path leads to them. */
import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { CsiError, errorCode } from '../../../base/errors.js';
import { majorOf, minorOf } from '../../../host/mountinfo.js';

/** "major:minor". FAILED_PRECONDITION if the path leads to no block device. */
export async function blockNumber(path: string): Promise<string> {
  const found = await statOrNull(path);
  if (found === null || !found.isBlockDevice()) {
    throw CsiError.failedPrecondition(
      `${path} is ${found === null ? 'not there' : 'no block device'}: a thin pool is made of two ` +
        'block devices; look at BLOCKDELTA_POOLS, and whether the disk came up',
    );
  }
  return `${majorOf(found.rdev)}:${minorOf(found.rdev)}`;
}

/** Whether the path leads to a block device now. */
export async function isBlockDevice(path: string): Promise<boolean> {
  return (await statOrNull(path))?.isBlockDevice() ?? false;
}

async function statOrNull(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  }
}
