/**
 * What happened to a pool since the plugin last used it, judged at a start by its ledger and its devices.
 * Pure functions: nothing is read or changed here.
 *
 * Two decisions depend on this history. A pool with a transaction id that the ledger does not know is not opened. And
 * bookmarks are sound only if nobody else changed the pool, and no write that was rolled back has left something behind
 * (docs/engineering/retained-bases.md).
 */
import type { ThinSuperblock } from '../../../native/thin-addon.js';
import type { DeviceRecord, OpenTransaction, PoolRecord } from '../ledger/ledger.js';

export interface PoolHistory {
  /** Why no bookmark is sound any more; null if no reason is known. */
  distrust: string | null;
  /**
   * Volumes whose last writes and discards may be lost in part: discards may have reached the data device
   * without being committed to the metadata.
   */
  interrupted: readonly string[];
}

export interface StartFindings {
  pool: PoolRecord;
  transaction: OpenTransaction | null;
  devices: readonly DeviceRecord[];
  bootId: string;
}

/** Whether the pool's transaction id is the last one of the ledger, or that of its open transaction. */
export function isKnownTransaction(
  found: bigint,
  { pool, transaction }: Pick<StartFindings, 'pool' | 'transaction'>,
): boolean {
  return found === pool.transactionId || found === transaction?.opens;
}

/**
 * The history of a pool that was active when the plugin started: if the plugin activated it, nobody else can have written its
 * metadata since.
 */
export function historyOfActive(
  { pool, bootId }: Pick<StartFindings, 'pool' | 'bootId'>,
  needsCheck: boolean,
): PoolHistory {
  const distrust = (reason: string | null): PoolHistory => ({ distrust: reason, interrupted: [] });
  if (needsCheck) return distrust(NEEDS_CHECK);
  return distrust(pool.bootId === bootId && pool.stopped === null ? null : ACTIVATED);
}

/** The history of a pool that was not active, judged by its superblock. */
export function historyOfInactive(findings: StartFindings, superblock: ThinSuperblock): PoolHistory {
  const { pool, devices, bootId } = findings;
  // A volume is open here even after an orderly stop, if the commit after its detach failed.
  const open = devices.filter((device) => device.open).map(({ objectId }) => objectId);
  const history = { distrust: null, interrupted: pool.passesDiscards ? open : [] };
  if (superblock.needsCheck) return { ...history, distrust: NEEDS_CHECK };
  if (pool.stopped !== null) {
    return isAsStopped(pool.stopped, superblock) ? history : { ...history, distrust: CHANGED };
  }
  // The pool was removed during this boot. After a reboot, or before its first use, a pool is inactive anyway.
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

const NEEDS_CHECK = "a write of the pool's metadata failed, and what was rolled back is not known";
const CHANGED = "the pool's metadata was changed while the plugin was not running";
const ACTIVATED = 'the pool was activated by another tool while the plugin was not running';
const REMOVED = "the pool's device was removed by another tool while the plugin was not running";
