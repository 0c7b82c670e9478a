import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CapacityRange } from '../../../src/base/csi/volume-capability.js';
import type { PoolCapacity } from '../../../src/driver/backends/backend.js';
import { chooseSize, expandedSize, largestSize } from '../../../src/driver/volumes/volume-rules.js';
import { BLOCK, MIB, mountOf } from '../../support/records.js';
import { throwsRefusal } from '../../support/refusal.js';

const GIB = 1024n * MIB;
const POOL: PoolCapacity = {
  totalBytes: 100n * GIB,
  freeBytes: 50n * GIB,
  reserveBytes: 0n,
  availableBytes: 50n * GIB,
  minimumVolumeBytes: MIB,
  granularityBytes: 4096n,
};

const range = (requiredBytes: bigint, limitBytes = 0n): CapacityRange => ({ requiredBytes, limitBytes });

const sizeOf = (asked: CapacityRange | null, pool: Partial<PoolCapacity>): bigint =>
  chooseSize({ range: asked, capabilities: [BLOCK], pool: { ...POOL, ...pool }, sourceBytes: null });

test('a size is of the granularity of the pool, and the default must fit it', () => {
  const granularityBytes = 65536n;
  assert.equal(sizeOf(range(7n * MIB + 1n), { granularityBytes }), 7n * MIB + granularityBytes);
  throwsRefusal(() => sizeOf(null, { totalBytes: 100n * MIB }), 'OUT_OF_RANGE', /whole pool/);
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
  throwsRefusal(() => made(range(128n * MIB, 255n * MIB), null), 'OUT_OF_RANGE', /limit_bytes/);
  // Smaller existing volumes are copied at their size, and grow to the minimum.
  assert.equal(made(range(128n * MIB, 128n * MIB), 128n * MIB), 128n * MIB);
  assert.equal(made(range(129n * MIB), 128n * MIB), least);
  throwsRefusal(() => made(range(129n * MIB, 255n * MIB), 128n * MIB), 'OUT_OF_RANGE', /limit_bytes/);
  assert.equal(made(range(129n * MIB), 128n * MIB, [mountOf('')]), least);
  assert.equal(made(range(129n * MIB), 128n * MIB, [BLOCK]), 129n * MIB);
  assert.equal(grown(range(129n * MIB)), least);
  assert.equal(grown(range(128n * MIB)), 128n * MIB);
  assert.equal(grown(range(300n * MIB)), 300n * MIB);
  throwsRefusal(() => grown(range(129n * MIB, 255n * MIB)), 'OUT_OF_RANGE', /limit_bytes/);
});

test('a volume is never larger than its pool, whatever the overcommit', () => {
  assert.equal(largestSize(POOL), POOL.availableBytes);
  const overcommitted = { ...POOL, totalBytes: 10n * GIB + 1n, availableBytes: 50n * GIB };
  assert.equal(largestSize(overcommitted), 10n * GIB);
});
