import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolCapacity } from '../../../src/backends/backend.js';
import type { CapacityRange, VolumeCapability } from '../../../src/domain/volume-capability.js';
import {
  chooseSize,
  DEFAULT_VOLUME_BYTES,
  expandedSize,
  incompatibleField,
  largestSize,
  roundUp,
  unsupportedReason,
} from '../../../src/volumes/volume-rules.js';
import { throwsWith } from '../../support/expect-status.js';
import { BLOCK, MIB, mountOf, volumeRecord } from '../../support/records.js';

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
  { title: 'no range is the default', range: null, expected: DEFAULT_VOLUME_BYTES },
  {
    title: 'no range and a source is the size of the source',
    range: null,
    sourceBytes: 5n * MIB,
    expected: 5n * MIB,
  },
  { title: 'a requirement is met exactly', range: range(7n * MIB), expected: 7n * MIB },
  {
    title: 'an odd requirement is rounded up',
    range: range(7n * MIB + 1n),
    expected: 7n * MIB + 4096n,
  },
  { title: 'one byte becomes the minimum', range: range(1n), expected: MIB },
  {
    title: 'one byte of a file system of none named is ext4',
    range: range(1n),
    capability: mountOf(''),
    expected: 16n * MIB,
  },
  { title: 'one byte of ext4', range: range(1n), capability: mountOf('ext4'), expected: 16n * MIB },
  { title: 'one byte of xfs', range: range(1n), capability: mountOf('xfs'), expected: 300n * MIB },
  { title: 'a limit alone bounds the default', range: range(0n, 10n * MIB), expected: 10n * MIB },
  {
    title: 'a limit alone above the default',
    range: range(0n, 10n * GIB),
    expected: DEFAULT_VOLUME_BYTES,
  },
  {
    title: 'an odd limit is rounded down',
    range: range(0n, 10n * MIB + 4095n),
    expected: 10n * MIB,
  },
  {
    title: 'required and limit are equal and whole',
    range: range(8n * MIB, 8n * MIB),
    expected: 8n * MIB,
  },
  {
    title: 'required and limit are equal and odd',
    range: range(8n * MIB + 1n, 8n * MIB + 1n),
    expected: /limit_bytes/,
  },
  {
    title: 'no multiple lies between required and limit',
    range: range(8n * MIB + 1n, 8n * MIB + 4095n),
    expected: /limit_bytes/,
  },
  {
    title: 'a multiple lies just at the limit',
    range: range(8n * MIB + 1n, 8n * MIB + 4096n),
    expected: 8n * MIB + 4096n,
  },
  { title: 'a limit below the minimum', range: range(0n, MIB - 1n), expected: /limit_bytes/ },
  { title: 'a limit of one byte', range: range(0n, 1n), expected: /limit_bytes/ },
  {
    title: 'a limit below what xfs needs',
    range: range(0n, 299n * MIB),
    capability: mountOf('xfs'),
    expected: /limit_bytes/,
  },
  { title: 'more than the whole pool', range: range(POOL.totalBytes + 1n), expected: /whole pool/ },
  { title: 'all of the pool', range: range(POOL.totalBytes), expected: POOL.totalBytes },
  { title: 'the largest int64', range: range(2n ** 63n - 1n), expected: /whole pool/ },
  {
    title: 'the default does not fit the pool',
    range: null,
    pool: { totalBytes: 100n * MIB },
    expected: /whole pool/,
  },
  {
    title: 'a limit below the source',
    range: range(0n, 4n * MIB),
    sourceBytes: 5n * MIB,
    expected: /limit_bytes/,
  },
  {
    title: 'required below the source',
    range: range(2n * MIB),
    sourceBytes: 5n * MIB,
    expected: 5n * MIB,
  },
  {
    title: 'required below the source and limit above',
    range: range(2n * MIB, 9n * MIB),
    sourceBytes: 5n * MIB,
    expected: 5n * MIB,
  },
  {
    title: 'a larger raw block volume than its source',
    range: range(9n * MIB),
    sourceBytes: 5n * MIB,
    expected: 9n * MIB,
  },
  {
    title: 'a larger file system than its source',
    range: range(90n * MIB),
    sourceBytes: 50n * MIB,
    capability: mountOf('ext4'),
    expected: 90n * MIB,
  },
  {
    title: 'a file system of the size of its source',
    range: range(50n * MIB),
    sourceBytes: 50n * MIB,
    capability: mountOf('ext4'),
    expected: 50n * MIB,
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

test('EV3, EV4, EV8: an expanded volume has the required size, and never shrinks', () => {
  const cases: [CapacityRange, bigint | RegExp][] = [
    [range(0n, 8n * MIB), 8n * MIB],
    [range(4n * MIB), 8n * MIB],
    [range(8n * MIB, 8n * MIB), 8n * MIB],
    [range(9n * MIB), 9n * MIB],
    [range(9n * MIB, 9n * MIB), 9n * MIB],
    [range(9n * MIB + 1n), 9n * MIB + 4096n],
    [range(9n * MIB + 1n, 9n * MIB + 4095n), /limit_bytes/],
    [range(4n * MIB, 7n * MIB), /limit_bytes is 7340032.*only grow/],
    [range(0n, 7n * MIB), /limit_bytes/],
    [range(POOL.totalBytes), POOL.totalBytes],
    [range(POOL.totalBytes + 1n), /whole pool/],
    [range(2n ** 63n - 1n), /whole pool/],
  ];
  for (const [asked, expected] of cases) {
    const size = () => expandedSize({ sizeBytes: 8n * MIB, capabilities: [BLOCK] }, asked, POOL);
    if (typeof expected === 'bigint') assert.equal(size(), expected);
    else throwsWith(size, 'OUT_OF_RANGE', expected);
  }
  // A volume that is larger than its pool, because the pool has shrunk, is accepted at its current size.
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

test('GC5: a volume is never larger than its pool, whatever the overcommit', () => {
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

test('capabilities beyond one node, unknown file systems and mount groups are refused with a reason', () => {
  const refused: [VolumeCapability, RegExp][] = [
    [{ ...BLOCK, accessMode: 'MULTI_NODE_MULTI_WRITER' }, /access mode/],
    [{ ...BLOCK, accessMode: 'MULTI_NODE_READER_ONLY' }, /access mode/],
    [{ ...BLOCK, accessMode: 'MULTI_NODE_SINGLE_WRITER' }, /own node can reach it/],
    [mountOf('vfat'), /fs_type 'vfat'/],
    [mountOf('x'.repeat(128)), /fs_type/],
    [{ ...mountOf('ext4'), volumeMountGroup: '1000' } as VolumeCapability, /volume_mount_group/],
  ];
  for (const [capability, pattern] of refused) {
    const reason = unsupportedReason(capability) ?? '';
    assert.match(reason, pattern);
    assert.ok(Buffer.byteLength(reason) <= 128, reason);
  }
  for (const capability of [BLOCK, mountOf(''), mountOf('ext4'), mountOf('xfs')]) {
    assert.equal(unsupportedReason(capability), null);
  }
  for (const accessMode of [
    'SINGLE_NODE_READER_ONLY',
    'SINGLE_NODE_SINGLE_WRITER',
    'SINGLE_NODE_MULTI_WRITER',
  ] as const) {
    assert.equal(unsupportedReason({ ...BLOCK, accessMode }), null);
    assert.equal(unsupportedReason({ ...mountOf('xfs'), accessMode }), null);
  }
});

test('a repeated request is compatible with its own volume, and a contradicting field is named', () => {
  const volume = volumeRecord({
    parameters: { pool: 'a', other: 'b' },
    capabilities: [BLOCK, mountOf('xfs')],
    createdMutableParameters: { readAheadKiB: '64' },
    // Modified since creation, which does not concern the request that created it.
    mutableParameters: { readAheadKiB: '128', loopDirectIo: 'false' },
  });
  const request = {
    name: volume.name,
    range: range(volume.sizeBytes),
    capabilities: [mountOf('xfs'), BLOCK],
    parameters: { other: 'b', pool: 'a' },
    mutableParameters: { readAheadKiB: '64' },
    sourceSnapshotId: null,
    sourceVolumeId: null,
    topologyProblem: null,
  };
  assert.equal(incompatibleField(volume, request), null);
  const others: [object, string | null][] = [
    [{ range: null }, null],
    [{ range: range(1n) }, null],
    [{ range: range(1n, volume.sizeBytes) }, null],
    [{ range: range(volume.sizeBytes + 1n) }, 'capacity_range'],
    [{ range: range(0n, volume.sizeBytes - 1n) }, 'capacity_range'],
    [{ sourceSnapshotId: 'snap-1' }, 'volume_content_source'],
    [{ sourceVolumeId: 'vol-1' }, 'volume_content_source'],
    [{ mutableParameters: {} }, 'mutable_parameters'],
    [{ mutableParameters: { readAheadKiB: '128' } }, 'mutable_parameters'],
    [{ topologyProblem: 'elsewhere' }, 'accessibility_requirements'],
    [{ parameters: { pool: 'a' } }, 'parameters'],
    [{ parameters: { pool: 'a', other: 'c' } }, 'parameters'],
    [{ capabilities: [BLOCK] }, 'volume_capabilities'],
    [{ capabilities: [BLOCK, mountOf('ext4')] }, 'volume_capabilities'],
  ];
  for (const [change, field] of others) {
    assert.equal(incompatibleField(volume, { ...request, ...change }), field, field ?? 'none');
  }
});
