/** What a thin pool keeps of deleted snapshots, and each reason to lose it: a real ledger, simulated metadata. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { SystemError } from '../../../../src/base/errors.js';
import { Bookmarks } from '../../../../src/driver/backends/thin/bookmarks/bookmarks.js';
import type { OpenLedger } from '../../../../src/driver/backends/thin/ledger/ledger-client.js';
import { openLedger } from '../../../../src/driver/backends/thin/ledger/ledger-client.js';
import type { NativeRunner } from '../../../../src/driver/native/pool.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../../../src/driver/native/thin-addon.js';
import { FakeThinKernel, SUPERBLOCK } from '../../../support/fake-thin-kernel.js';
import { nativeHere } from '../../../support/native-here.js';
import { refused } from '../../../support/refusal.js';
import { temporaryDirectory } from '../../../support/temporary.js';

const VOLUME = 'vol-1';
const TRUSTED = { distrust: null, interrupted: [] };
const { status } = await new FakeThinKernel().run('thinPoolStatus', { name: '', commit: false });
assert.ok(status !== null);
const STATUS = status;

let directory: string;
let ledger: OpenLedger;
let bases: Bookmarks;
let told: string[];
/** What the rules of lists were told. */
let invalid: [snapshotId: string | null, reason: string][];
/** What the next look sees; null: it cannot be read. */
let seen: { superblock: ThinSuperblock | null; devices: ThinDeviceDetails[] };

beforeEach(async () => {
  directory = temporaryDirectory();
  ledger = await openLedger(join(directory, 'pool.sqlite'));
  await ledger.makePool(65536n);
  const native: NativeRunner = {
    run: async (method, request) => {
      const { path } = request as { path: string };
      // A file has the time when its snapshot was created.
      if (method === 'createThinBookmark') writeFileSync(path, '5');
      else if (method !== 'verifyThinBookmark') return nativeHere().run(method, request);
      const creationTime = Number(readFileSync(path, 'utf8'));
      if (Number.isInteger(creationTime)) return { ok: true, fileBytes: 4n, creationTime, mappedBlocks: 1n } as never;
      throw new SystemError('THIN_METADATA_INVALID', 'read', path, `${path} has a wrong checksum`);
    },
  };
  const metadata = {
    device: async (id: number) => seen.devices.find(({ deviceId }) => deviceId === id) ?? null,
    superblock: async () => {
      if (seen.superblock !== null) return seen.superblock;
      throw new SystemError('EIO', 'pread', '/dev/metadata', 'pread /dev/metadata: an I/O error');
    },
  };
  told = [];
  invalid = [];
  bases = new Bookmarks({
    ledger,
    native,
    metadata,
    directory,
    metadataPath: '/dev/metadata',
    pool: { pool: 'default' },
    onEvent: ({ level, message }) => told.push(`${level}: ${message}`),
    onInvalid: (snapshotId, reason) => invalid.push([snapshotId, reason]),
  });
  await ledger.begin(
    ['snap-1', 'snap-2'].map((objectId) => ({
      objectId,
      kind: 'snapshot' as const,
      sizeBytes: 1n << 20n,
      lineage: VOLUME,
    })),
    [],
  );
  await ledger.apply();
  seen = { superblock: SUPERBLOCK, devices: await details([5, 6]) };
  await bases.review(TRUSTED);
});

afterEach(() => ledger.close());

const at = (...names: string[]): string => join(directory, ...names);

/** Of all devices, with these creation times. */
async function details(times: readonly number[]): Promise<ThinDeviceDetails[]> {
  const devices = await ledger.devices();
  return devices.map(({ deviceId, madeAt }, index) => ({
    deviceId,
    root: BigInt(1000 + deviceId),
    mappedBlocks: 1n,
    transactionId: madeAt,
    creationTime: times[index] ?? 0,
    snapshottedTime: times[index] ?? 0,
  }));
}

async function invalidReason(): Promise<string> {
  const [found] = await ledger.bookmarks();
  return found?.invalidReason ?? '';
}

/** Deletes the snapshot behind the back of the rules. */
async function remove(snapshotId: string): Promise<void> {
  await ledger.begin([], [snapshotId]);
  await ledger.apply();
}

const target = async () => {
  const device = await ledger.device('snap-2');
  assert.ok(device !== null);
  return device;
};

test('a retained base outlives its snapshot, is listed again, and is the base of a scan', async () => {
  const kept = await bases.create('snap-1');
  const { snapshotId, storedBytes, invalidReason: reason } = kept ?? {};
  assert.deepEqual([snapshotId, storedBytes, reason], ['snap-1', 4n, null]);
  await remove('snap-1');
  assert.deepEqual(await bases.create('snap-1'), kept);
  assert.deepEqual(await ledger.bookmarks(), [kept]);
  seen = { ...seen, devices: await details([6]) };
  assert.deepEqual(await bases.source('snap-1', await target()), { path: at('bases', 'snap-1') });
  await bases.drop('snap-1');
  await bases.drop('snap-1');
  assert.ok(!existsSync(at('bases', 'snap-1')));
  assert.equal(await bases.create('snap-1'), null);
});

test('no scan starts from a base that is not retained, is lost, of another volume or not older', async () => {
  const refusal = async (pattern: RegExp, fields = {}) =>
    refused(bases.source('snap-1', { ...(await target()), ...fields }), 'FAILED_PRECONDITION', pattern);
  await refusal(/no bookmark of it was retained; make a full backup/);
  await bases.create('snap-1');
  await refusal(/the base is of volume vol-1, the target of volume vol-9/, { lineage: 'vol-9' });
  seen = { ...seen, devices: await details([5, 5]) };
  await refusal(/taken at pool time \d+, not after the base at 5/);
  seen = { ...seen, devices: [] };
  await refusal(/snapshot snap-2 is lost/);
});

test('a base that is lost is NOT_FOUND for a scan, with the reason', async () => {
  const scan = async () => bases.source('snap-1', await target());
  await bases.create('snap-1');
  seen = { ...seen, devices: await details([5, 6]) };
  await scan();
  const file = at('bases', 'snap-1');
  for (const [spoil, reason] of [
    [() => rmSync(file), /the file of its bookmark is gone/],
    [() => writeFileSync(file, '4'), /bases.snap-1 is the bookmark of another snapshot/],
    [() => writeFileSync(file, 'x'), /its bookmark is damaged: .*wrong checksum/],
  ] as const) {
    spoil();
    for (let count = 0; count < 2; count += 1)
      await refused(scan(), 'NOT_FOUND', new RegExp(`${reason.source}; make a full backup`));
    assert.match(await invalidReason(), reason);
    await bases.drop('snap-1');
    await bases.create('snap-1');
  }
  await ledger.invalidateBookmark('snap-1', 'of a test');
  await refused(scan(), 'NOT_FOUND', /retained base because of a test; make a full backup/);
});

test('H33: a file in the place of the directory is named, and loses no base', async () => {
  await bases.create('snap-1');
  seen = { ...seen, devices: await details([5, 6]) };
  const [place, saved] = [at('bases'), at('saved')];
  renameSync(place, saved);
  writeFileSync(place, '');
  const said = new RegExp(`^${place} of pool 'default' should be a directory and is a regular file`);
  const work = [
    () => bases.create('snap-2'),
    async () => bases.source('snap-1', await target()),
    () => bases.review(TRUSTED),
    () => bases.sweep(),
  ];
  for (const run of work) await refused(run(), 'FAILED_PRECONDITION', said);
  rmSync(place);
  renameSync(saved, place);
  await bases.review(TRUSTED);
  assert.equal(await invalidReason(), '');
});

test('a loss of all bases is told once, with their number', async () => {
  await bases.create('snap-1');
  await bases.create('snap-2');
  for (const mode of ['fail', 'fail'] as const) await bases.observe({ ...STATUS, mode });
  assert.deepEqual([told.length, invalid.length, invalid[0]?.[0]], [1, 2, null]);
  assert.match(told[0] ?? '', /^warn: pool 'default': 2 retained bases are invalid because .*full ones$/);
});

test('metadata that needs a check loses all bases, whoever sees it first', async () => {
  await bases.create('snap-1');
  seen = { ...seen, superblock: { ...SUPERBLOCK, needsCheck: true } };
  await refused(bases.source('snap-1', await target()), 'NOT_FOUND', /check/);
  assert.match(await invalidReason(), /needs a check/);
  await refused(bases.create('snap-2'), 'FAILED_PRECONDITION', /check/);
});

test('times that do not fit into a mapping, or went back, lose all bases at a start', async () => {
  for (const [time, pattern] of [
    [1 << 24, /24 bits/],
    [4, /went back from time 5 to 4/],
  ] as const) {
    await bases.create('snap-1');
    seen = { ...seen, superblock: { ...SUPERBLOCK, time } };
    await bases.review(TRUSTED);
    assert.match(await invalidReason(), pattern);
    await bases.drop('snap-1');
    seen = { ...seen, superblock: SUPERBLOCK };
  }
});

test('a pool that is seen read-only or failed, or asks for a check, loses all bases', async () => {
  const states = [{ mode: 'ro' }, { mode: 'fail' }, { mode: 'error' }, { needsCheck: true }] as const;
  await bases.create('snap-1');
  await bases.observe({ ...STATUS, mode: 'out_of_data_space' });
  assert.equal(await invalidReason(), '');
  for (const state of states) {
    await bases.create('snap-1');
    await bases.observe({ ...STATUS, ...state });
    assert.match(await invalidReason(), /may have rolled back|needs a check/);
    await bases.drop('snap-1');
  }
});

test('a base that is lost while its snapshot lives is retained anew, and not once the snapshot is deleted', async () => {
  const kept = await bases.create('snap-1');
  await bases.invalidateAll('of a test');
  assert.deepEqual(await bases.create('snap-1'), kept);
  assert.deepEqual(await ledger.bookmarks(), [kept]);
  await bases.invalidateAll('of a test');
  await remove('snap-1');
  await bases.create('snap-1');
  assert.equal(await invalidReason(), 'of a test');
});

test('a start that distrusts the pool loses all bases, with the first reason', async () => {
  await bases.create('snap-1');
  await bases.review({ distrust: 'it was changed', interrupted: [] });
  await bases.review({ distrust: 'it was changed again', interrupted: [] });
  assert.equal(await invalidReason(), 'it was changed');
});

test('a start that cannot read the metadata loses all bases, and says what failed', async () => {
  await bases.create('snap-1');
  seen = { ...seen, superblock: null };
  await bases.review(TRUSTED);
  assert.match(await invalidReason(), /could not be read at a start: pread .dev.metadata: an I/);
});

test('a start after discards that may be forgotten loses the bases of those volumes', async () => {
  await bases.create('snap-1');
  await bases.review({ distrust: null, interrupted: ['vol-2', VOLUME] });
  assert.match(await invalidReason(), /discards/);
});

test('a start drops files that no row knows, and loses a base whose file is gone', async () => {
  await bases.create('snap-1');
  writeFileSync(at('bases', 'snap-0'), 'left by a kill');
  writeFileSync(at('bases', 'snap-1.tmp'), 'half');
  assert.deepEqual((await bases.sweep()).sort(), ['snap-0', 'snap-1.tmp']);
  assert.deepEqual(await bases.sweep(), []);
  await bases.review(TRUSTED);
  assert.equal(await invalidReason(), '');
  rmSync(at('bases', 'snap-1'));
  await bases.review(TRUSTED);
  assert.match(await invalidReason(), /is gone/);
});
