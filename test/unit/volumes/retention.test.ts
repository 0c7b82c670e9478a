import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RetainedBases } from '../../../src/backends/backend.js';
import type { RetainedBaseRecord } from '../../../src/catalogue/records.js';
import { settleRecords } from '../../../src/volumes/retention.js';

const HOUR_NS = 3_600_000_000_000n;
const NOW = 1000n * HOUR_NS;
const LIMITS = { perVolume: 3, ageMs: 24 * 3_600_000, poolBytes: 1000n };

/** The snapshot with that place in the order of cuts, deleted an hour ago. */
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
    lost: null,
    awaited: true,
    ...fields,
  };
}

function holding(
  records: readonly RetainedBaseRecord[],
  lost: RetainedBases['lost'] = [],
): RetainedBases {
  const gone = new Set(lost.map(({ snapshotId }) => snapshotId));
  return { usable: records.filter(({ snapshotId }) => !gone.has(snapshotId)), lost };
}

/** What has to go, by id, with the reason. */
function settle(
  records: readonly RetainedBaseRecord[],
  held = holding(records),
): [string, string][] {
  return settleRecords({ records, held, limits: LIMITS, nowNs: NOW }).map(({ record, loss }) => [
    record.snapshotId,
    loss === null ? 'forgotten' : `${loss.expected ? 'expired' : 'lost'}: ${loss.reason}`,
  ]);
}

const reasons = (found: [string, string][], pattern: RegExp): string[] =>
  found.map(([id, reason]) => {
    assert.match(reason, pattern);
    return id;
  });

test('what is within all limits stays', () => {
  assert.deepEqual(settle([record(1), record(2), record(3)]), []);
});

test('of one volume the newest ones are kept, up to the count; other volumes have their own', () => {
  const records = [1, 2, 3, 4, 5].map((sequence) => record(sequence));
  const others = [6, 7].map((sequence) => record(sequence, { volumeId: 'vol-2' }));
  const found = settle([...records, ...others]);
  assert.deepEqual(reasons(found, /^expired: .*_COUNT/), ['snap-2', 'snap-1']);
});

test('what was deleted too long ago goes, however old the snapshot itself is', () => {
  const old = record(1, { deletedNs: NOW - 25n * HOUR_NS });
  const found = settle([old, record(2, { creationTimeNs: 0n })]);
  assert.deepEqual(reasons(found, /^expired: .*_AGE/), ['snap-1']);
});

test('over the size of the pool the oldest cuts go first, whatever volume they are of', () => {
  const records = [1, 2, 3, 4].map((sequence) =>
    record(sequence, { volumeId: `vol-${sequence}`, storedBytes: 400n }),
  );
  assert.deepEqual(reasons(settle(records), /^expired: .*_SIZE/), ['snap-2', 'snap-1']);
});

test('a base that the pool has lost is lost with its reason, one that is missing with ours', () => {
  const records = [record(1), record(2), record(3)];
  const held = holding(records.slice(0, 2), [{ snapshotId: 'snap-2', reason: 'time went back' }]);
  assert.deepEqual(settle(records, held), [
    ['snap-2', 'lost: time went back'],
    ['snap-3', 'lost: its pool does not hold any more what was kept of it'],
  ]);
});

test('a base that nobody can ask for is forgotten, not lost: no later snapshot can be there', () => {
  const records = [record(1, { awaited: false }), record(2)];
  assert.deepEqual(settle(records, holding([])), [
    ['snap-1', 'forgotten'],
    ['snap-2', 'lost: its pool does not hold any more what was kept of it'],
  ]);
});

test('the reason of a loss is known for 30 days, and of 1000 bases at most', () => {
  const lost = (hoursAgo: number) => ({ reason: 'x', timeNs: NOW - BigInt(hoursAgo) * HOUR_NS });
  const old = record(1, { lost: lost(24 * 30 + 1) });
  const young = record(2, { lost: lost(24 * 30 - 1) });
  assert.deepEqual(settle([old, young]), [['snap-1', 'forgotten']]);
  const many = Array.from({ length: 1002 }, (_, index) =>
    record(index + 1, { lost: { reason: 'x', timeNs: NOW - BigInt(index) } }),
  );
  assert.deepEqual(reasons(settle(many), /^forgotten$/), ['snap-1002', 'snap-1001']);
});
