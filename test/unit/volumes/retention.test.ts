import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RetainedBases } from '../../../src/driver/backends/backend.js';
import type { RetainedBaseRecord } from '../../../src/driver/catalogue/records.js';
import { judgeBases } from '../../../src/driver/volumes/retention.js';

const HOUR_NS = 3_600_000_000_000n;
const NOW = 1000n * HOUR_NS;
const LIMITS = { perVolume: 3, ageMs: 24 * 3_600_000, poolBytes: 1000n };

/** The base of the snapshot with that sequence, deleted an hour ago. */
function record(sequence: number, fields: Partial<RetainedBaseRecord> = {}): RetainedBaseRecord {
  return {
    snapshotId: `snap-${sequence}`,
    volumeId: 'vol-1',
    pool: 'default',
    sequence: BigInt(sequence),
    sizeBytes: 1n << 20n,
    creationTimeNs: 1n,
    deletedNs: NOW - HOUR_NS,
    storedBytes: 100n,
    invalidated: null,
    useful: true,
    ...fields,
  };
}

function holding(
  records: readonly RetainedBaseRecord[],
  invalidated: RetainedBases['invalidated'] = [],
): RetainedBases {
  const gone = new Set(invalidated.map(({ snapshotId }) => snapshotId));
  return { usable: records.filter(({ snapshotId }) => !gone.has(snapshotId)), invalidated };
}

/** The verdicts as pairs of snapshot id and reason. */
function settle(records: readonly RetainedBaseRecord[], held = holding(records)): [string, string][] {
  return judgeBases({ records, held, limits: LIMITS, nowNs: NOW }).map(({ record, invalidation }) => [
    record.snapshotId,
    invalidation === null ? 'removed' : `${invalidation.expected ? 'expired' : 'invalid'}: ${invalidation.reason}`,
  ]);
}

const reasons = (found: [string, string][], pattern: RegExp): string[] =>
  found.map(([id, reason]) => {
    assert.match(reason, pattern);
    return id;
  });

test('bases within all limits stay', () => {
  assert.deepEqual(settle([record(1), record(2), record(3)]), []);
});

test('each volume retains its newest bases, up to the count', () => {
  const records = [1, 2, 3, 4, 5].map((sequence) => record(sequence));
  const others = [6, 7].map((sequence) => record(sequence, { volumeId: 'vol-2' }));
  const found = settle([...records, ...others]);
  assert.deepEqual(reasons(found, /^expired: .*_COUNT/), ['snap-2', 'snap-1']);
});

test('a base expires by the age of its deletion, not of the snapshot', () => {
  const old = record(1, { deletedNs: NOW - 25n * HOUR_NS });
  const found = settle([old, record(2, { creationTimeNs: 0n })]);
  assert.deepEqual(reasons(found, /^expired: .*_AGE/), ['snap-1']);
});

test('the bases of the oldest snapshots go first over the size limit of the pool, whatever their volume', () => {
  const records = [1, 2, 3, 4].map((sequence) => record(sequence, { volumeId: `vol-${sequence}`, storedBytes: 400n }));
  assert.deepEqual(reasons(settle(records), /^expired: .*_SIZE/), ['snap-2', 'snap-1']);
});

test('a base that the pool calls lost is invalidated for the reason of the pool, a missing one for another', () => {
  const records = [record(1), record(2), record(3)];
  const held = holding(records.slice(0, 2), [{ snapshotId: 'snap-2', reason: 'time went back' }]);
  assert.deepEqual(settle(records, held), [
    ['snap-2', 'invalid: time went back'],
    ['snap-3', 'invalid: its pool no longer holds the retained base'],
  ]);
});

test('a base of which no delta can be requested is removed without a reason', () => {
  const records = [record(1, { useful: false }), record(2)];
  assert.deepEqual(settle(records, holding([])), [
    ['snap-1', 'removed'],
    ['snap-2', 'invalid: its pool no longer holds the retained base'],
  ]);
});

test('the reason of an invalidation stays on record for 30 days, and for 1000 bases at most', () => {
  const lost = (hoursAgo: number) => ({ reason: 'x', timeNs: NOW - BigInt(hoursAgo) * HOUR_NS });
  const old = record(1, { invalidated: lost(24 * 30 + 1) });
  const young = record(2, { invalidated: lost(24 * 30 - 1) });
  assert.deepEqual(settle([old, young]), [['snap-1', 'removed']]);
  const many = Array.from({ length: 1002 }, (_, index) =>
    record(index + 1, { invalidated: { reason: 'x', timeNs: NOW - BigInt(index) } }),
  );
  assert.deepEqual(reasons(settle(many), /^removed$/), ['snap-1002', 'snap-1001']);
});
