/** What signs mean: statuses, reasons, their order and their bounds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolCapacity, StorageCondition } from '../../../src/driver/backends/backend.js';
import { FULL_BYTES } from '../../../src/driver/backends/pool-levels.js';
import {
  type FileSystemObservations,
  poolConditions,
  type StorageObservations,
  summary,
  volumeConditions,
} from '../../../src/driver/health/volume-health.js';

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

function storage(condition: Partial<StorageCondition> = {}, pool: Partial<PoolCapacity> = {}): StorageObservations {
  return {
    sizeBytes: GIB,
    pool: { failure: null, capacity: capacity(pool) },
    pending: null,
    copyFailure: null,
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
  const use = { detachedAt: [], settingsMissing: [], fileSystems };
  return volumeConditions(signs, use).map(({ status, reason }) => `${status} ${reason}`);
}

test('a volume without an adverse observation has no condition', () => {
  assert.deepEqual(told(storage(), [fileSystem()]), []);
  assert.deepEqual(volumeConditions(storage(), null), []);
  assert.deepEqual(summary([]), { abnormal: false, message: 'the volume is healthy' });
});

const unreachable = { failure: "pool 'x' does not answer", capacity: null };
const damaged = { errors: 2, corruptions: 2 };
const SIGNS: readonly [what: string, signs: string[], conditions: string[]][] = [
  ['its file is gone', told(storage({ storedBytes: null })), ['DATA_LOSS BackingFileMissing']],
  ['its file is cut short', told(storage({ storedBytes: GIB - 1n })), ['DATA_LOSS BackingFileTruncated']],
  [
    'its file is removed while in use',
    told(storage({ storedBytes: null, runsOnRemoved: true })),
    ['DATA_LOSS BackingFileDeleted'],
  ],
  ['its file is larger, as while it grows', told(storage({ storedBytes: 2n * GIB })), []],
  ['the pool has its reserve', free(5n * GIB, 5n * GIB), []],
  ['the pool is below its reserve', free(5n * GIB - 1n, 5n * GIB), ['DEGRADED PoolNearlyFull']],
  ['the pool, without a reserve, has a hundredth', free(GIB, 0n), []],
  ['the pool has less than a hundredth', free(GIB - 1n, 0n), ['DEGRADED PoolNearlyFull']],
  ['writes cannot succeed', free(FULL_BYTES - 1n), ['INACCESSIBLE PoolOutOfSpace']],
  ['writes may succeed', free(FULL_BYTES), ['DEGRADED PoolNearlyFull']],
  [
    'the host does not hold what the pool promises',
    told(storage({}, { lacksBacking: true })),
    ['DEGRADED PoolImageIncomplete'],
  ],
  [
    'the pool cannot be asked',
    told({ ...storage(), pool: unreachable, condition: null }),
    ['INACCESSIBLE PoolUnreachable'],
  ],
  ['a call has waited for a minute', waiting(60_000), ['DEGRADED CallHangs']],
  ['a call has waited for less', waiting(59_999), []],
  [
    'a snapshot found it frozen ten minutes ago',
    told(storage({ frozenForMs: 600_000 })),
    ['DEGRADED FileSystemFrozen'],
  ],
  ['a hook may hold its freeze', told(storage({ frozenForMs: 599_999 })), []],
  [
    'its clone outlasted the freeze',
    told(storage({ longCopy: { extents: 10n ** 9n, allowedMs: 60_000n } })),
    ['DEGRADED CloneTooLong'],
  ],
  ['a snapshot of it gets no copy', told({ ...storage(), copyFailure: 'no room' }), ['DEGRADED CopyFails']],
  [
    'its clone nearly outlasted the freeze',
    told(storage({ longCopy: { extents: null, allowedMs: 60_000n } })),
    ['DEGRADED CloneTooLong'],
  ],
  ['it is read-only', mounted({ readOnly: true }), ['INACCESSIBLE FileSystemReadOnly']],
  ['it is to be read-only', mounted({ readOnly: true, wantsWriting: false }), []],
  ['the kernel counted errors', mounted({ errors: 2 }), ['DEGRADED FileSystemErrors']],
  ['content is damaged', mounted(damaged), ['DATA_LOSS FileSystemCorruption']],
  [
    'content is damaged, and there are other errors',
    mounted({ ...damaged, errors: 3 }),
    ['DATA_LOSS FileSystemCorruption', 'DEGRADED FileSystemErrors'],
  ],
  ['it has shut down', mounted({ shutDown: true }), ['INACCESSIBLE FileSystemShutDown']],
  ['it is silent', mounted({ silent: true }), ['INACCESSIBLE FileSystemNotResponding']],
];

function free(freeBytes: bigint, reserveBytes = 5n * GIB): string[] {
  return told(storage({}, { freeBytes, reserveBytes }));
}

function waiting(forMs: number): string[] {
  return told({ ...storage(), pending: { what: 'growFileSystem', forMs } });
}

function mounted(fields: Partial<FileSystemObservations>): string[] {
  return told(storage(), [fileSystem(fields)]);
}

for (const [what, found, conditions] of SIGNS) {
  test(`the conditions of a volume: ${what}`, () => assert.deepEqual(found, conditions));
}

test('a device detached under a path is INACCESSIBLE', () => {
  const use = { detachedAt: ['/pods/a', '/pods/b'], settingsMissing: [], fileSystems: [] };
  const [found, ...others] = volumeConditions(storage(), use);
  assert.deepEqual([found?.reason, others], ['DeviceDetached', []]);
  assert.match(found?.message ?? '', /\/pods\/a/);
});

test('settings that are asked for and not in force are DEGRADED, all in one', () => {
  const use = { detachedAt: [], settingsMissing: ['loopDirectIo true', 'ioScheduler bfq'], fileSystems: [] };
  const [found, ...others] = volumeConditions(storage(), use);
  assert.deepEqual([found?.status, found?.reason, others], ['DEGRADED', 'SettingNotInForce', []]);
  assert.match(found?.message ?? '', /loopDirectIo true, ioScheduler bfq/);
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
  const settingsMissing = ['loopDirectIo true', 'ioScheduler mq-deadline', 'readAheadKiB 16384'];
  const fileSystems = [{ ...all, corruptions: 3 }];
  const use = { detachedAt: [path], settingsMissing, fileSystems };
  const pool = { failure: 'x'.repeat(5000), capacity: null };
  const found = [
    ...volumeConditions(storage({ storedBytes: 1n }, { freeBytes: 1n }), use),
    ...volumeConditions({ ...storage(), pool, condition: null }, use),
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
  const of = (pool: StorageObservations['pool']) =>
    poolConditions('main', pool).map(({ status, reason }) => `${status} ${reason}`);
  for (const [fields, conditions] of [
    [{}, []],
    [{ freeBytes: GIB }, ['STORAGE_DEGRADED PoolNearlyFull']],
    [{ freeBytes: 0n }, ['STORAGE_DEGRADED PoolOutOfSpace']],
    [{ lacksBacking: true }, ['STORAGE_DEGRADED PoolImageIncomplete']],
  ] as const) {
    assert.deepEqual(of({ failure: null, capacity: capacity(fields) }), conditions);
  }
  assert.deepEqual(of(unreachable), ['STORAGE_UNREACHABLE PoolUnreachable']);
});
