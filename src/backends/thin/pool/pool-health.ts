/**
 * What the state of a pool means for what may be done with it, and what a person should do.
 *
 * A pool that has no data space left is as usable as it can be: it is read, volumes and snapshots are
 * deleted, and writers get the errors. One whose metadata cannot be written serves readers alone: an
 * aborted transaction has undone what was answered already, so nothing may be changed in it.
 */
import { CsiError } from '../../../base/errors.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';

/** Whether messages to the pool are kept. */
export function isWritable(status: ThinPoolStatus): boolean {
  return !status.needsCheck && (status.mode === 'rw' || status.mode === 'out_of_data_space');
}

/** Null: changes can be made. The text goes behind the pool's name. */
export function trouble(status: ThinPoolStatus): string | null {
  if (status.mode === 'fail' || status.mode === 'error') {
    return (
      'has failed: the kernel cannot work with its metadata (see the kernel log). Release its volumes, ' +
      'stop the plugin, look at the metadata device, run thin_check on it, and start again'
    );
  }
  if (status.needsCheck) {
    return (
      'is read-only and asks to be checked, because a write of its metadata failed. Release its volumes, ' +
      'stop the plugin, mend the metadata device, run thin_check --clear-needs-check-flag on it (or ' +
      'thin_repair if that finds damage), and start again'
    );
  }
  if (status.mode === 'ro') {
    const { usedMetadataBlocks: used, totalMetadataBlocks: total } = status;
    return (
      `is read-only: ${used} of ${total} metadata blocks are used. Enlarge the metadata device (for an ` +
      'embedded pool, free space in its directory); the plugin takes up what is added'
    );
  }
  return null;
}

/** FAILED_PRECONDITION with the remedy unless changes can be made. */
export function assertWritable(pool: string, status: ThinPoolStatus): void {
  const found = trouble(status);
  if (found !== null) throw CsiError.failedPrecondition(`pool '${pool}' ${found}`);
}
