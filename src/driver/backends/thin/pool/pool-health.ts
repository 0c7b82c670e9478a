/**
 * What the kernel's status of a pool means: which operations are allowed, and what the operator should do.
 *
 * A pool without free data space stays usable: volumes can be read, volumes and snapshots deleted, and
 * writers get errors. A pool whose metadata cannot be written serves reads only: an aborted transaction has
 * rolled back changes that were already acknowledged, so nothing may be changed in it.
 */
import { CsiError } from '../../../../base/errors.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';

/** Whether the pool commits changes. */
export function isWritable(status: ThinPoolStatus): boolean {
  return !status.needsCheck && (status.mode === 'rw' || status.mode === 'out_of_data_space');
}

/** Why the pool cannot be changed, as a clause that follows its name; null if it can. */
export function whyUnwritable(status: ThinPoolStatus): string | null {
  if (status.mode === 'fail' || status.mode === 'error') {
    return (
      'has failed: the kernel cannot use its metadata (see the kernel log). Unstage its volumes, stop the ' +
      'plugin, check the metadata device, run thin_check on it, and start the plugin again'
    );
  }
  if (status.needsCheck) {
    return (
      'is read-only and needs a check, because a write of its metadata failed. Unstage its volumes, stop ' +
      'the plugin, repair the metadata device, run thin_check --clear-needs-check-flag on it (or ' +
      'thin_repair if that finds damage), and start the plugin again'
    );
  }
  if (status.mode === 'ro') {
    const { usedMetadataBlocks: used, totalMetadataBlocks: total } = status;
    return (
      `is read-only: ${used} of ${total} metadata blocks are used. Enlarge the metadata device (for an ` +
      'embedded pool, free space in its directory); the plugin then uses what was added'
    );
  }
  return null;
}

/** FAILED_PRECONDITION with the remedy unless changes can be made. */
export function assertWritable(pool: string, status: ThinPoolStatus): void {
  const found = whyUnwritable(status);
  if (found !== null) throw CsiError.failedPrecondition(`pool '${pool}' ${found}`);
}
