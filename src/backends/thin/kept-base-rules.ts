/**
 * When the bases kept of a thin pool can no longer be compared with (docs/kept-bases.md): pure
 * functions of what is seen of the pool. Every answer is a reason to go behind "because", or null.
 */
import type { ThinPoolStatus } from '../../native/dm-addon.js';
import type { ThinSuperblock } from '../../native/thin-addon.js';
import type { KeptBaseRecord, PoolRecord } from './ledger.js';

/** dm-thin keeps 24 bits of the time in each mapping. */
const LAST_TIME = (1 << 24) - 1;

/** What the last run of the plugin has left, and what is found. */
export interface PoolAtStart {
  /** As that run has left it. */
  record: PoolRecord;
  /** Ids of the volumes that were attached for writing, as of the last commit that is known. */
  openVolumes: ReadonlySet<string>;
  /** Whether discards may have reached the data device in that run. */
  passedDiscards: boolean;
  bootId: string;
  /** The pool's device is there: the kernel has held the pool ever since. */
  isActive: boolean;
  /** Read before the pool is activated. */
  superblock: ThinSuperblock;
}

export function lossAtStart(at: PoolAtStart, base: KeptBaseRecord): string | null {
  return lossByMetadata(at.superblock) ?? lossByReturn(at, base) ?? lossByAbsence(at, base);
}

/** Of what the superblock says, at any time. */
export function lossByMetadata({ needsCheck, time }: ThinSuperblock): string | null {
  if (needsCheck)
    return 'the metadata of its pool needs a check: what it says of the past is not proved';
  if (time > LAST_TIME) return `the time of its pool is ${time}, and mappings hold 24 bits of it`;
  return null;
}

/** A pool that went read-only or failed has undone what it had not committed, and kept what it had discarded. */
export function lossByStatus({ mode, needsCheck }: ThinPoolStatus): string | null {
  if (mode === 'rw' || mode === 'out_of_data_space') {
    return needsCheck ? 'the metadata of its pool needs a check' : null;
  }
  return `its pool went into mode ${mode} and may have undone what it had not committed`;
}

/** Times that were given already are given again, to other content. */
function lossByReturn({ record, superblock }: PoolAtStart, base: KeptBaseRecord): string | null {
  const { transactionId, time } = superblock;
  if (transactionId < record.transactionId) {
    return `the metadata of its pool went back from transaction ${record.transactionId} to ${transactionId}`;
  }
  if (time < base.creationTime) {
    return `the metadata of its pool went back from time ${base.creationTime} to ${time}`;
  }
  return null;
}

function lossByAbsence(at: PoolAtStart, base: KeptBaseRecord): string | null {
  const { record, superblock } = at;
  const { stopped, bootId } = record;
  if (at.isActive && bootId === at.bootId) return null;
  if (stopped !== null) {
    const same =
      stopped.transactionId === superblock.transactionId &&
      stopped.time === superblock.time &&
      stopped.mappingRoot === superblock.mappingRoot &&
      stopped.detailsRoot === superblock.detailsRoot;
    return same ? null : 'somebody else has changed its pool since blockdelta stopped it';
  }
  if (!at.passedDiscards || !at.openVolumes.has(base.lineage)) return null;
  return (
    'the machine or the pool went away while its volume was attached: discards that the data device ' +
    'has done may have been forgotten by the metadata'
  );
}
