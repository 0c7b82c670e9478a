/**
 * Whether somebody has a block device for himself: mounted, in any mount namespace, or opened by a tool or
 * device-mapper in the same way. Who merely has it open is not seen. Knows no volumes.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { errorCode } from '../base/errors.js';

/** Of a block device: fails while it is mounted or opened in the same way. */
const O_EXCLUSIVE = constants.O_RDONLY | constants.O_EXCL;

export async function isHeldExclusively(devicePath: string): Promise<boolean> {
  try {
    await (await open(devicePath, O_EXCLUSIVE)).close();
    return false;
  } catch (thrown) {
    if (errorCode(thrown) === 'EBUSY') return true;
    throw thrown;
  }
}
