/**
 * When the bases kept of a thin pool can no longer be compared with (docs/retained-bases.md): pure
 * functions of what is seen of the pool. Every answer is a reason to go behind "because", or null.
 */
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { ThinSuperblock } from '../../../native/thin-addon.js';
import type { RetainedBaseRecord } from '../ledger/ledger.js';
import { MAX_TIME } from '../metadata/metadata-reader.js';

/** What is known at a start of the time since the pool was last looked after. */
export interface BaseHistory {
  /** Why nothing that was kept can be trusted any more; null: nothing speaks against it. */
  distrust: string | null;
  /** Volumes with discards that the data device may have done and the metadata forgotten. */
  interrupted: readonly string[];
}

export function lossByHistory(
  { distrust, interrupted }: BaseHistory,
  base: RetainedBaseRecord,
): string | null {
  if (distrust !== null) return distrust;
  if (!interrupted.includes(base.lineage)) return null;
  return (
    'the machine or the pool went away while its volume was attached: discards that the data device ' +
    'has done may have been forgotten by the metadata'
  );
}

/** Of what the superblock says, at any time. */
export function lossByMetadata(
  { needsCheck, time }: ThinSuperblock,
  base: RetainedBaseRecord,
): string | null {
  if (needsCheck)
    return 'the metadata of its pool needs a check, and what it had to undo is not known';
  if (time > MAX_TIME) return `the time of its pool is ${time}, and mappings hold 24 bits of it`;
  // Times that were given already are given again, to other content.
  if (time >= base.creationTime) return null;
  return `the metadata of its pool went back from time ${base.creationTime} to ${time}`;
}

/** A pool that went read-only or failed has undone what it had not committed, and kept what it had discarded. */
export function lossByStatus({ mode, needsCheck }: ThinPoolStatus): string | null {
  if (needsCheck) return 'its pool had to undo a change of its metadata and asks for a check';
  if (mode === 'rw' || mode === 'out_of_data_space') return null;
  return `its pool went into mode ${mode} and may have undone what it had not committed`;
}
