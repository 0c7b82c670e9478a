/**
 * Decides which retained bases have to go, and why: a pure function of the catalogue's records, the pool's contents, the limits
 * and the time.
 */
import type { RetainedBases as PoolBases } from '../backends/backend.js';
import type { RetainedBaseRecord } from '../catalogue/records.js';

export interface RetainedBaseLimits {
  /** Bases of one volume; 0 retains nothing. */
  perVolume: number;
  /** Maximum age in milliseconds, counted from the deletion of the snapshot. */
  ageMs: number;
  /** Space that the bases of one pool may take together. */
  poolBytes: bigint;
}

export interface Verdict {
  record: RetainedBaseRecord;
  /** Null if the record is removed too: no delta can be requested from the base any more, or its invalidation is outdated. */
  invalidation: { reason: string; expected: boolean } | null;
}

/** How long the reason of an invalidation stays on record, and for how many bases of a pool. */
const REASON_KEPT_MS = 30 * 24 * 3_600_000;
const REASONS_KEPT = 1000;

interface RetentionState {
  /** The records of one pool, or of one volume in it, ordered by the sequence of the snapshots. */
  records: readonly RetainedBaseRecord[];
  held: PoolBases;
  limits: RetainedBaseLimits;
  nowNs: bigint;
}

/** At most one verdict for each record. A record without a verdict stays as it is. */
export function judgeBases({ records, held, limits, nowNs }: RetentionState): Verdict[] {
  const useless = records.filter(({ useful }) => !useful);
  const useful = records.filter((record) => record.useful);
  const invalidated = useful.filter((record) => record.invalidated !== null);
  const unusable = unusableInPool(useful, held);
  const gone = new Set(unusable.map(({ record }) => record));
  const valid = useful.filter((record) => record.invalidated === null && !gone.has(record));
  const removed = [...useless, ...outdated(invalidated, nowNs)];
  return [
    ...removed.map((record) => ({ record, invalidation: null })),
    ...unusable,
    ...expired(withActualBytes(valid, held), limits, nowNs),
  ];
}

function unusableInPool(records: readonly RetainedBaseRecord[], held: PoolBases): Verdict[] {
  const usable = new Set(held.usable.map(({ snapshotId }) => snapshotId));
  const reasons = new Map(held.invalidated.map(({ snapshotId, reason }) => [snapshotId, reason]));
  return records
    .filter(({ snapshotId, invalidated }) => invalidated === null && !usable.has(snapshotId))
    .map((record) => {
      const reason = reasons.get(record.snapshotId) ?? 'its pool no longer holds the retained base';
      return { record, invalidation: { reason, expected: false } };
    });
}

/** Records of invalidations that are too old, or too many. */
function outdated(invalidated: readonly RetainedBaseRecord[], nowNs: bigint): RetainedBaseRecord[] {
  const timeNs = (record: RetainedBaseRecord): bigint => record.invalidated?.timeNs ?? 0n;
  const oldestFirst = [...invalidated].sort((a, b) => (timeNs(a) < timeNs(b) ? -1 : 1));
  const tooMany = Math.max(0, oldestFirst.length - REASONS_KEPT);
  return oldestFirst.filter((record, index) => index < tooMany || timeNs(record) < nowNs - nanoseconds(REASON_KEPT_MS));
}

/** A base takes more space when its list was joined with another, or was stored later. */
function withActualBytes(records: readonly RetainedBaseRecord[], { usable }: PoolBases): RetainedBaseRecord[] {
  const stored = new Map(usable.map(({ snapshotId, storedBytes }) => [snapshotId, storedBytes]));
  return records.map((record) => ({
    ...record,
    storedBytes: stored.get(record.snapshotId) ?? record.storedBytes,
  }));
}

/** Bases over a limit: too old, too many of their volume, or too large together, in which case the oldest ones expire. */
function expired(
  valid: readonly RetainedBaseRecord[],
  { perVolume, ageMs, poolBytes }: RetainedBaseLimits,
  nowNs: bigint,
): Verdict[] {
  const verdicts: Verdict[] = [];
  const expire = (record: RetainedBaseRecord, reason: string): void => {
    verdicts.push({ record, invalidation: { reason, expected: true } });
  };
  const newerOf = new Map<string, number>();
  let bytes = 0n;
  // By sequence: of two snapshots of one volume, the later one makes the smaller delta.
  for (const record of valid.toSorted((a, b) => (a.sequence > b.sequence ? -1 : 1))) {
    const newer = newerOf.get(record.volumeId) ?? 0;
    if (record.deletedNs < nowNs - nanoseconds(ageMs)) {
      expire(record, 'its snapshot was deleted too long ago (BLOCKDELTA_RETAINED_BASES_AGE)');
    } else if (newer >= perVolume) {
      expire(record, `${newer} newer bases of its volume are retained (BLOCKDELTA_RETAINED_BASES_COUNT)`);
    } else if (bytes + record.storedBytes > poolBytes) {
      expire(record, `newer bases take ${bytes} bytes of its pool (BLOCKDELTA_RETAINED_BASES_SIZE)`);
    } else {
      newerOf.set(record.volumeId, newer + 1);
      bytes += record.storedBytes;
    }
  }
  return verdicts;
}

const nanoseconds = (milliseconds: number): bigint => BigInt(milliseconds) * 1_000_000n;
