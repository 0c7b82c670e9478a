/**
 * Which kept bases have to go, and why: a pure function of what is recorded, what the pool holds, the
 * limits and the time.
 */
import type { RetainedBases as HeldBases } from '../backends/backend.js';
import type { RetainedBaseRecord } from '../catalogue/records.js';

export interface RetainedBaseLimits {
  /** Of one volume; 0: nothing is kept. */
  perVolume: number;
  /** Since the snapshot was deleted. */
  ageMs: number;
  /** What those of one pool may take together. */
  poolBytes: bigint;
}

export interface Verdict {
  record: RetainedBaseRecord;
  /** Null: nobody can ask for it any more, so the record goes too. */
  loss: { reason: string; expected: boolean } | null;
}

/** How long it is known why a base was lost, and of how many of a pool. */
const LOST_KNOWN_MS = 30 * 24 * 3_600_000;
const LOST_KNOWN = 1000;

interface Question {
  /** Of one pool, in the order of their cuts. */
  records: readonly RetainedBaseRecord[];
  held: HeldBases;
  limits: RetainedBaseLimits;
  nowNs: bigint;
}

/** Each record once at most; those not named stay as they are. */
export function settleRecords({ records, held, limits, nowNs }: Question): Verdict[] {
  const useless = records.filter(({ awaited }) => !awaited);
  const awaited = records.filter((record) => record.awaited);
  const lost = awaited.filter((record) => record.lost !== null);
  const unusable = lostByThePool(awaited, held);
  const gone = new Set(unusable.map(({ record }) => record));
  const kept = awaited.filter((record) => record.lost === null && !gone.has(record));
  const forgotten = [...useless, ...outdated(lost, nowNs)];
  return [
    ...forgotten.map((record) => ({ record, loss: null })),
    ...unusable,
    ...expired(kept, limits, nowNs),
  ];
}

function lostByThePool(records: readonly RetainedBaseRecord[], held: HeldBases): Verdict[] {
  const usable = new Set(held.usable.map(({ snapshotId }) => snapshotId));
  const reasons = new Map(held.lost.map(({ snapshotId, reason }) => [snapshotId, reason]));
  return records
    .filter(({ snapshotId, lost }) => lost === null && !usable.has(snapshotId))
    .map((record) => {
      const missing = 'its pool does not hold any more what was kept of it';
      return {
        record,
        loss: { reason: reasons.get(record.snapshotId) ?? missing, expected: false },
      };
    });
}

/** Records of losses that need not be explained any longer; the newest are. */
function outdated(lost: readonly RetainedBaseRecord[], nowNs: bigint): RetainedBaseRecord[] {
  const timeNs = (record: RetainedBaseRecord): bigint => record.lost?.timeNs ?? 0n;
  const oldestFirst = [...lost].sort((a, b) => (timeNs(a) < timeNs(b) ? -1 : 1));
  const tooMany = Math.max(0, oldestFirst.length - LOST_KNOWN);
  return oldestFirst.filter(
    (record, index) => index < tooMany || timeNs(record) < nowNs - nanoseconds(LOST_KNOWN_MS),
  );
}

/** Those over a limit: too old, too many of their volume, and then the oldest while all take too much. */
function expired(
  kept: readonly RetainedBaseRecord[],
  { perVolume, ageMs, poolBytes }: RetainedBaseLimits,
  nowNs: bigint,
): Verdict[] {
  const verdicts: Verdict[] = [];
  const expire = (record: RetainedBaseRecord, reason: string): void => {
    verdicts.push({ record, loss: { reason, expected: true } });
  };
  const newerOf = new Map<string, number>();
  let bytes = 0n;
  for (const record of [...kept].sort(newestFirst)) {
    const newer = newerOf.get(record.volumeId) ?? 0;
    if (record.deletedNs < nowNs - nanoseconds(ageMs)) {
      expire(record, 'it was deleted too long ago (BLOCKDELTA_RETAINED_BASES_AGE)');
    } else if (newer >= perVolume) {
      expire(
        record,
        `of its volume ${newer} newer ones are kept (BLOCKDELTA_RETAINED_BASES_COUNT)`,
      );
    } else if (bytes + record.storedBytes > poolBytes) {
      expire(
        record,
        `its pool keeps ${bytes} bytes of newer ones (BLOCKDELTA_RETAINED_BASES_SIZE)`,
      );
    } else {
      newerOf.set(record.volumeId, newer + 1);
      bytes += record.storedBytes;
    }
  }
  return verdicts;
}

/** By their cuts: of two snapshots of one volume the younger one makes the smaller delta. */
function newestFirst(a: RetainedBaseRecord, b: RetainedBaseRecord): number {
  return a.sequence > b.sequence ? -1 : 1;
}

const nanoseconds = (milliseconds: number): bigint => BigInt(milliseconds) * 1_000_000n;
