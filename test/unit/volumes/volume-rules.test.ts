import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolCapacity } from '../../../src/backends/backend.js';
import type { CapacityRange, VolumeCapability } from '../../../src/domain/volume-capability.js';
import {
  chooseSize,
  expandedSize,
  largestSize,
  roundUp,
} from '../../../src/volumes/volume-rules.js';
import { throwsWith } from '../../support/expect-status.js';
import { BLOCK, MIB, mountOf } from '../../support/records.js';

const GIB = 1024n * MIB;
const POOL: PoolCapacity = {
  totalBytes: 100n * GIB,
  freeBytes: 50n * GIB,
  reserveBytes: 0n,
  availableBytes: 50n * GIB,
  minimumVolumeBytes: MIB,
  granularityBytes: 4096n,
};

const range = (requiredBytes: bigint, limitBytes = 0n): CapacityRange => ({
  requiredBytes,
  limitBytes,
});

interface SizeCase {
  title: string;
  range: CapacityRange | null;
  capability?: VolumeCapability;
  sourceBytes?: bigint;
  pool?: Partial<PoolCapacity>;
  /** The size, or the expected message of OUT_OF_RANGE. */
  expected: bigint | RegExp;
}

const SIZES: readonly SizeCase[] = [
  {
    title: 'the default does not fit the pool',
    range: null,
    pool: { totalBytes: 100n * MIB },
    expected: /whole pool/,
  },
  {
    title: 'required below the source and limit above',
    range: range(2n * MIB, 9n * MIB),
    sourceBytes: 5n * MIB,
    expected: 5n * MIB,
  },
  {
    title: 'a larger file system than its source',
    range: range(90n * MIB),
    sourceBytes: 50n * MIB,
    capability: mountOf('ext4'),
    expected: 90n * MIB,
  },
  {
    title: 'another granularity',
    range: range(7n * MIB + 1n),
    pool: { granularityBytes: 65536n },
    expected: 7n * MIB + 65536n,
  },
];

for (const item of SIZES) {
  test(`the size of a new volume: ${item.title}`, () => {
    const question = {
      range: item.range,
      capabilities: [item.capability ?? BLOCK],
      pool: { ...POOL, ...item.pool },
      sourceBytes: item.sourceBytes ?? null,
    };
    if (typeof item.expected === 'bigint') assert.equal(chooseSize(question), item.expected);
    else throwsWith(() => chooseSize(question), 'OUT_OF_RANGE', item.expected);
  });
}

test('every chosen size lies in the range and is a multiple of the granularity', () => {
  for (let required = 1n; required < 64n * MIB; required = required * 2n + 4097n) {
    for (const slack of [4096n, 5000n, 12288n, MIB]) {
      const asked = range(required, required + slack + MIB);
      const size = chooseSize({
        range: asked,
        capabilities: [BLOCK],
        pool: POOL,
        sourceBytes: null,
      });
      assert.ok(size >= asked.requiredBytes && size <= asked.limitBytes, `${size}`);
      assert.equal(size % POOL.granularityBytes, 0n);
    }
  }
});

test('several capabilities get the largest of their minima', () => {
  const size = chooseSize({
    range: range(1n),
    capabilities: [BLOCK, mountOf('xfs'), mountOf('ext4')],
    pool: POOL,
    sourceBytes: null,
  });
  assert.equal(size, 300n * MIB);
});

test('a volume that is larger than its pool, because the pool has shrunk, keeps its size', () => {
  const large = POOL.totalBytes * 2n;
  assert.equal(expandedSize({ sizeBytes: large, capabilities: [BLOCK] }, range(1n), POOL), large);
});

test('btrfs gets no size, new or expanded, that the kernel cannot grow it to', () => {
  const btrfs = [mountOf('btrfs')];
  const least = 256n * MIB;
  const made = (asked: CapacityRange, sourceBytes: bigint | null, capabilities = btrfs): bigint =>
    chooseSize({ range: asked, capabilities, pool: POOL, sourceBytes, sourceCapabilities: btrfs });
  const grown = (asked: CapacityRange): bigint =>
    expandedSize({ sizeBytes: 128n * MIB, capabilities: btrfs }, asked, POOL);
  assert.equal(made(range(128n * MIB), null), least);
  throwsWith(() => made(range(128n * MIB, 255n * MIB), null), 'OUT_OF_RANGE', /limit_bytes/);
  // Smaller existing volumes are copied at their size, and grow to the minimum.
  assert.equal(made(range(128n * MIB, 128n * MIB), 128n * MIB), 128n * MIB);
  assert.equal(made(range(129n * MIB), 128n * MIB), least);
  throwsWith(() => made(range(129n * MIB, 255n * MIB), 128n * MIB), 'OUT_OF_RANGE', /limit_bytes/);
  assert.equal(made(range(129n * MIB), 128n * MIB, [mountOf('')]), least);
  assert.equal(made(range(129n * MIB), 128n * MIB, [BLOCK]), 129n * MIB);
  assert.equal(grown(range(129n * MIB)), least);
  assert.equal(grown(range(128n * MIB)), 128n * MIB);
  assert.equal(grown(range(300n * MIB)), 300n * MIB);
  throwsWith(() => grown(range(129n * MIB, 255n * MIB)), 'OUT_OF_RANGE', /limit_bytes/);
});

test('a volume is never larger than its pool, whatever the overcommit', () => {
  assert.equal(largestSize(POOL), POOL.availableBytes);
  const overcommitted = { ...POOL, totalBytes: 10n * GIB + 1n, availableBytes: 50n * GIB };
  assert.equal(largestSize(overcommitted), 10n * GIB);
});

test('rounding up does not change multiples', () => {
  assert.deepEqual(
    [0n, 1n, 4095n, 4096n, 4097n].map((value) => roundUp(value, 4096n)),
    [0n, 4096n, 4096n, 4096n, 8192n],
  );
});
