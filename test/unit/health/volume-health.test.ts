/** What signs mean: statuses, reasons, their order and their bounds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolCapacity, StorageCondition } from '../../../src/backends/backend.js';
import {
  type FileSystemObservations,
  FULL_BYTES,
  poolConditions,
  type StorageObservations,
  summary,
  volumeConditions,
} from '../../../src/health/volume-health.js';

const GIB = 1n << 30n;

function capacity(fields: Partial<PoolCapacity> = {}): PoolCapacity {
  return {
    totalBytes: 100n * GIB,
    freeBytes: 50n * GIB,
    reserveBytes: 5n * GIB,
    availableBytes: 40n * GIB,
    minimumVolumeBytes: 1n << 20n,
    granularityBytes: 4096n,
    ...fields,
  };
}

function storage(
  condition: Partial<StorageCondition> = {},
  pool: Partial<PoolCapacity> = {},
): StorageObservations {
  return {
    sizeBytes: GIB,
    pool: { failure: null, capacity: capacity(pool) },
    condition: { storedBytes: GIB, runsOnRemoved: false, ...condition },
  };
}

function fileSystem(fields: Partial<FileSystemObservations> = {}): FileSystemObservations {
  return {
    path: '/staging',
    readOnly: false,
    wantsWriting: true,
    shutDown: false,
    silent: false,
    errors: 0,
    corruptions: 0,
    ...fields,
  };
}

/** `status reason` of each condition. */
function told(signs: StorageObservations, fileSystems: FileSystemObservations[] = []): string[] {
  const use = { detachedAt: [], fileSystems };
  return volumeConditions(signs, use).map(({ status, reason }) => `${status} ${reason}`);
}

test('a volume without an adverse observation has no condition', () => {
  assert.deepEqual(told(storage(), [fileSystem()]), []);
  assert.deepEqual(volumeConditions(storage(), null), []);
  assert.deepEqual(summary([]), { abnormal: false, message: 'the volume is healthy' });
});

test('a file that is gone, cut short or removed while in use is DATA_LOSS', () => {
  assert.deepEqual(told(storage({ storedBytes: null })), ['DATA_LOSS BackingFileMissing']);
  assert.deepEqual(told(storage({ storedBytes: GIB - 1n })), ['DATA_LOSS BackingFileTruncated']);
  const removed = { storedBytes: null, runsOnRemoved: true };
  assert.deepEqual(told(storage(removed)), ['DATA_LOSS BackingFileDeleted']);
});

test('a file larger than its record, as while a volume grows, is not a condition', () => {
  assert.deepEqual(told(storage({ storedBytes: 2n * GIB })), []);
});

test('a pool is nearly full below its reserve, and without one below a hundredth', () => {
  const free = (freeBytes: bigint, reserveBytes: bigint) =>
    told(storage({}, { freeBytes, reserveBytes }));
  assert.deepEqual(free(5n * GIB, 5n * GIB), []);
  assert.deepEqual(free(5n * GIB - 1n, 5n * GIB), ['DEGRADED PoolNearlyFull']);
  assert.deepEqual(free(GIB, 0n), []);
  assert.deepEqual(free(GIB - 1n, 0n), ['DEGRADED PoolNearlyFull']);
});

test('a pool where writes cannot succeed makes its volumes INACCESSIBLE', () => {
  assert.deepEqual(told(storage({}, { freeBytes: FULL_BYTES - 1n })), [
    'INACCESSIBLE PoolOutOfSpace',
  ]);
  assert.deepEqual(told(storage({}, { freeBytes: FULL_BYTES })), ['DEGRADED PoolNearlyFull']);
});

test('a pool whose promises the host does not hold is DEGRADED, whatever is free', () => {
  assert.deepEqual(told(storage({}, { lacksBacking: true })), ['DEGRADED PoolImageIncomplete']);
  const [condition] = poolConditions('main', {
    failure: null,
    capacity: capacity({ lacksBacking: true }),
  });
  assert.equal(condition?.status, 'STORAGE_DEGRADED');
  assert.match(condition?.message ?? '', /pool 'main': the host does not hold .*restart$/);
});

test('of a pool that cannot be asked nothing else is claimed', () => {
  const pool = { failure: "pool 'x' does not answer", capacity: null };
  const signs = { sizeBytes: GIB, pool, condition: null };
  assert.deepEqual(told(signs), ['INACCESSIBLE PoolUnreachable']);
});

test('a read-only file system is a condition only where it was to be written to', () => {
  const readOnly = fileSystem({ readOnly: true });
  assert.deepEqual(told(storage(), [readOnly]), ['INACCESSIBLE FileSystemReadOnly']);
  assert.deepEqual(told(storage(), [{ ...readOnly, wantsWriting: false }]), []);
});

test('errors that the kernel counted are DEGRADED, damaged content is DATA_LOSS', () => {
  assert.deepEqual(told(storage(), [fileSystem({ errors: 2 })]), ['DEGRADED FileSystemErrors']);
  const damaged = fileSystem({ errors: 2, corruptions: 2 });
  assert.deepEqual(told(storage(), [damaged]), ['DATA_LOSS FileSystemCorruption']);
  assert.deepEqual(told(storage(), [{ ...damaged, errors: 3 }]), [
    'DATA_LOSS FileSystemCorruption',
    'DEGRADED FileSystemErrors',
  ]);
});

test('a file system that is silent or has shut down is INACCESSIBLE', () => {
  assert.deepEqual(told(storage(), [fileSystem({ shutDown: true })]), [
    'INACCESSIBLE FileSystemShutDown',
  ]);
  assert.deepEqual(told(storage(), [fileSystem({ silent: true })]), [
    'INACCESSIBLE FileSystemNotResponding',
  ]);
});

test('a device detached under a path is INACCESSIBLE', () => {
  const use = { detachedAt: ['/pods/a', '/pods/b'], fileSystems: [] };
  const found = volumeConditions(storage(), use);
  assert.deepEqual(
    found.map(({ reason }) => reason),
    ['DeviceDetached'],
  );
  assert.match(found[0]?.message ?? '', /\/pods\/a/);
});

test('a pair of status and reason comes once, the worst status first', () => {
  const bad = fileSystem({ errors: 1, readOnly: true });
  const signs = storage({ storedBytes: 0n }, { freeBytes: GIB });
  assert.deepEqual(told(signs, [bad, { ...bad, path: '/pods/a' }]), [
    'DATA_LOSS BackingFileTruncated',
    'INACCESSIBLE FileSystemReadOnly',
    'DEGRADED PoolNearlyFull',
    'DEGRADED FileSystemErrors',
  ]);
});

test('messages are text of at most 128 bytes, whatever they quote; reasons are CamelCase', () => {
  const path = `/${'\u{1F600}'.repeat(900)}`;
  const all = fileSystem({ path, shutDown: true, silent: true, readOnly: true, errors: 9 });
  const use = { detachedAt: [path], fileSystems: [{ ...all, corruptions: 3 }] };
  const pool = { failure: 'x'.repeat(5000), capacity: null };
  const found = [
    ...volumeConditions(storage({ storedBytes: 1n }, { freeBytes: 1n }), use),
    ...volumeConditions({ sizeBytes: 1n, pool, condition: null }, use),
  ];
  assert.ok(found.length > 8);
  const others = [summary(found), ...poolConditions('p'.repeat(63), pool)];
  for (const { message } of [...found, ...others]) {
    assert.ok(Buffer.byteLength(message) <= 128, message);
    assert.doesNotMatch(message, /\ufffd/);
  }
  for (const { reason } of found) assert.match(reason, /^([A-Z][a-z]+)+$/);
});

test('a summary names the worst condition, and how many more there are', () => {
  const found = volumeConditions(storage({ storedBytes: null }, { freeBytes: GIB }), null);
  const { abnormal, message } = summary(found);
  assert.equal(abnormal, true);
  assert.match(message, /^BackingFileMissing \(and 1 more\): /);
});

test('a pool that is full is STORAGE_DEGRADED, one that cannot be asked STORAGE_UNREACHABLE', () => {
  const of = (pool: Partial<PoolCapacity>) =>
    poolConditions('main', { failure: null, capacity: capacity(pool) }).map(
      ({ status, reason }) => `${status} ${reason}`,
    );
  assert.deepEqual(of({}), []);
  assert.deepEqual(of({ freeBytes: GIB }), ['STORAGE_DEGRADED PoolNearlyFull']);
  assert.deepEqual(of({ freeBytes: 0n }), ['STORAGE_DEGRADED PoolOutOfSpace']);
  const [gone] = poolConditions('main', { failure: 'no answer', capacity: null });
  assert.equal(gone?.status, 'STORAGE_UNREACHABLE');
  assert.equal(gone?.reason, 'PoolUnreachable');
});
