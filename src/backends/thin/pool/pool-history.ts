/**
 * What a start finds out about the time since the pool was last looked after, by its ledger and what is
 * on its devices. Judgement alone: nothing is asked or changed here.
 *
 * Two things hang on it. A pool whose transaction id the ledger does not know is not opened. And what
 * is kept of deleted snapshots can only be compared with if nothing happened to the pool behind the
 * ledger's back, and if no write that was forgotten has left a trace (docs/retained-bases.md).
 */
import type { ThinSuperblock } from '../../../native/thin-addon.js';
import type { DeviceRecord, OpenTransaction, PoolRecord } from '../ledger/ledger.js';

export interface PoolHistory {
  /** Why no kept base can be trusted any more; null: nothing speaks against them. */
  distrust: string | null;
  /**
   * Volumes whose last writes and discards may be lost, or half lost: discards may have reached the data
   * device and been forgotten by the metadata.
   */
  interrupted: string[];
}

export interface StartFindings {
  pool: PoolRecord;
  transaction: OpenTransaction | null;
  devices: readonly DeviceRecord[];
  /** Of this boot of the machine. */
  bootId: string;
}

/** Whether the ledger knows the transaction id of the pool: the last one, or the one being opened. */
export function isKnownTransaction(
  found: bigint,
  { pool, transaction }: Pick<StartFindings, 'pool' | 'transaction'>,
): boolean {
  return found === pool.transactionId || found === transaction?.opens;
}

/**
 * Of a pool that was active when the plugin started: as long as it is the plugin that has made it so,
 * nobody else can have written its metadata since.
 */
export function historyOfActive(
  { pool, bootId }: Pick<StartFindings, 'pool' | 'bootId'>,
  needsCheck: boolean,
): PoolHistory {
  const distrust = (reason: string | null): PoolHistory => ({ distrust: reason, interrupted: [] });
  if (needsCheck) return distrust(NEEDS_CHECK);
  return distrust(pool.bootId === bootId && pool.stopped === null ? null : ACTIVATED);
}

/** Of a pool that was not active, by its superblock. */
export function historyOfInactive(
  findings: StartFindings,
  superblock: ThinSuperblock,
): PoolHistory {
  const { pool, devices, bootId } = findings;
  // After an orderly stop too: a volume stays open here when the commit behind its detaching failed.
  const open = devices.filter((device) => device.open).map(({ objectId }) => objectId);
  const history = { distrust: null, interrupted: pool.passesDiscards ? open : [] };
  if (superblock.needsCheck) return { ...history, distrust: NEEDS_CHECK };
  if (pool.stopped !== null) {
    return isAsStopped(pool.stopped, superblock) ? history : { ...history, distrust: CHANGED };
  }
  // Never used yet: there is nothing that could have been changed.
  if (pool.bootId === bootId) return { ...history, distrust: REMOVED };
  return history;
}

function isAsStopped(stamp: NonNullable<PoolRecord['stopped']>, found: ThinSuperblock): boolean {
  return (
    stamp.transactionId === found.transactionId &&
    stamp.time === found.time &&
    stamp.mappingRoot === found.mappingRoot &&
    stamp.detailsRoot === found.detailsRoot
  );
}

const NEEDS_CHECK =
  "a write of the pool's metadata failed, and what it had to undo cannot be known";
const CHANGED = "the pool's metadata was changed while the plugin was not running";
const ACTIVATED = 'the pool was made active by somebody else while the plugin was not running';
const REMOVED = "the pool's device was removed by somebody else while the plugin was not running";
