/**
 * When the bookmarks of a thin pool become unsound (docs/engineering/retained-bases.md): pure functions of what is
 * observed of the pool. Each returns the reason, a clause that follows "because", or null.
 */
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { ThinSuperblock } from '../../../native/thin-addon.js';
import type { BookmarkRecord } from '../ledger/ledger.js';
import { MAX_TIME } from '../metadata/metadata-reader.js';
import type { PoolHistory } from '../pool/pool-history.js';

export function unsoundByHistory({ distrust, interrupted }: PoolHistory, base: BookmarkRecord): string | null {
  if (distrust !== null) return distrust;
  if (!interrupted.includes(base.lineage)) return null;
  return (
    'the node crashed or the pool was removed while its volume was attached: the metadata may have lost ' +
    'discards that the data device has executed'
  );
}

/** Judges by the superblock, at any time. */
export function unsoundByMetadata({ needsCheck, time }: ThinSuperblock, base: BookmarkRecord): string | null {
  if (needsCheck) return 'the metadata of its pool needs a check, and what was rolled back is not known';
  if (time > MAX_TIME) return `the time of its pool is ${time}, and mappings store 24 bits of it`;
  // The metadata was replaced by an older copy, so times are assigned again, to other content.
  if (time >= base.creationTime) return null;
  return `the metadata of its pool went back from time ${base.creationTime} to ${time}`;
}

/** A pool that became read-only or failed has rolled back uncommitted changes, but not their discards. */
export function unsoundByStatus({ mode, needsCheck }: ThinPoolStatus): string | null {
  if (needsCheck) return 'its pool rolled back a change of its metadata and needs a check';
  if (mode === 'rw' || mode === 'out_of_data_space') return null;
  return `its pool entered mode ${mode} and may have rolled back what it had not committed`;
}
