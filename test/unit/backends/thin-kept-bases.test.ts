/** What a thin pool keeps of deleted snapshots, and each reason to lose it: a real ledger, played metadata. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { lossAtStart, type PoolAtStart } from '../../../src/backends/thin/kept-base-rules.js';
import { ThinKeptBases } from '../../../src/backends/thin/kept-bases.js';
import type { OpenLedger } from '../../../src/backends/thin/ledger.js';
import { openLedger } from '../../../src/backends/thin/ledger-client.js';
import type { ThinPoolStatus } from '../../../src/native/dm-addon.js';
import type { NativeRunner } from '../../../src/native/pool.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../../src/native/thin-addon.js';
import { rejectsWith } from '../../support/expect-status.js';

const VOLUME = 'vol-1';
const SUPERBLOCK: ThinSuperblock = {
  needsCheck: false,
  time: 7,
  transactionId: 9n,
  heldRoot: null,
  mappingRoot: 100n,
  detailsRoot: 101n,
  dataBlockBytes: 65536n,
  dataBlocks: 1000n,
  metadataBlocks: 1000n,
};
const STATUS: ThinPoolStatus = {
  mode: 'rw',
  transactionId: 9n,
  usedMetadataBlocks: 1n,
  totalMetadataBlocks: 2n,
  usedDataBlocks: 1n,
  totalDataBlocks: 2n,
  heldRoot: null,
  discards: 'discard_passdown',
  whenFull: 'error_if_no_space',
  needsCheck: false,
  metadataLowWaterBlocks: 1n,
};

let directory: string;
let ledger: OpenLedger;
let bases: ThinKeptBases;
/** What the next look sees. */
let seen: { superblock: ThinSuperblock; devices: ThinDeviceDetails[] };

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'blockdelta-thin-bases-'));
  ledger = await openLedger(join(directory, 'pool.sqlite'));
  await ledger.makePool(65536n);
  const native: NativeRunner = {
    run: async (method, request) => {
      assert.equal(method, 'thinKeepBase');
      writeFileSync((request as { path: string }).path, 'kept');
      return { ok: true, fileBytes: 4n, creationTime: 5, mappedBlocks: 1n } as never;
    },
  };
  const look = {
    device: async (id: number) => seen.devices.find(({ deviceId }) => deviceId === id) ?? null,
    superblock: async () => seen.superblock,
  };
  const files = { directory: at('bases'), metadata: '/dev/metadata' };
  bases = new ThinKeptBases({ pool: 'thin', ledger, native, look, ...files });
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
  await bases.start(await atStart());
});

afterEach(async () => {
  await ledger.close();
  rmSync(directory, { recursive: true, force: true });
});

const at = (...names: string[]): string => join(directory, ...names);

/** Of all devices, with these creation times. */
async function details(times: readonly number[]): Promise<ThinDeviceDetails[]> {
  const devices = await ledger.devices();
  return devices.map(({ deviceId }, index) => ({
    deviceId,
    root: BigInt(1000 + deviceId),
    mappedBlocks: 1n,
    transactionId: 1n,
    creationTime: times[index] ?? 0,
    snapshottedTime: times[index] ?? 0,
  }));
}

/** A start of a pool that the kernel has held since the last run; fields as given. */
async function atStart(fields: Partial<PoolAtStart> = {}): Promise<PoolAtStart> {
  const record = { ...(await ledger.pool()), bootId: 'boot-1', transactionId: 9n };
  return {
    record,
    openVolumes: new Set([VOLUME]),
    passedDiscards: true,
    bootId: 'boot-1',
    isActive: true,
    superblock: SUPERBLOCK,
    ...fields,
  };
}

async function lost(): Promise<string> {
  const { usable, lost: found } = await bases.list();
  assert.deepEqual(usable, []);
  return found[0]?.reason ?? '';
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

test('what is kept outlives the snapshot, is told again, and is the base of a scan', async () => {
  const kept = await bases.keep('snap-1');
  assert.deepEqual(kept, { snapshotId: 'snap-1', storedBytes: 4n });
  await remove('snap-1');
  assert.deepEqual(await bases.keep('snap-1'), kept);
  assert.deepEqual(await bases.list(), { usable: [kept], lost: [] });
  seen = { ...seen, devices: await details([6]) };
  const source = await bases.scanSource(await target(), 'snap-1');
  const { deviceId } = await target();
  assert.deepEqual(source, {
    kind: 'thin',
    metadata: '/dev/metadata',
    superblock: 0n,
    sizeBytes: 1n << 20n,
    target: { deviceId, root: BigInt(1000 + deviceId) },
    base: null,
    keptBase: { path: at('bases', 'snap-1') },
  });
  await bases.drop('snap-1');
  await bases.drop('snap-1');
  assert.ok(!existsSync(at('bases', 'snap-1')));
  assert.equal(await bases.keep('snap-1'), null);
});

test('no scan starts from a base that is not kept, is lost, of another volume or not older', async () => {
  const refused = async (pattern: RegExp, fields = {}) =>
    rejectsWith(
      bases.scanSource({ ...(await target()), ...fields }, 'snap-1'),
      'FAILED_PRECONDITION',
      pattern,
    );
  await refused(/nor kept of it/);
  await bases.keep('snap-1');
  await refused(/cut of volume vol-1, and snap-2 of vol-9/, { lineage: 'vol-9' });
  seen = { ...seen, devices: await details([5, 5]) };
  await refused(/no delta can be proved/);
  seen = { ...seen, devices: [] };
  await refused(/has lost snapshot snap-2/);
  await ledger.loseKeptBase('snap-1', 'of a test');
  await refused(/lost because of a test; make a full backup/);
});

test('metadata that needs a check loses all bases, whoever sees it first', async () => {
  await bases.keep('snap-1');
  seen = { ...seen, superblock: { ...SUPERBLOCK, needsCheck: true } };
  await rejectsWith(bases.scanSource(await target(), 'snap-1'), 'FAILED_PRECONDITION', /check/);
  assert.match(await lost(), /needs a check/);
  await rejectsWith(bases.keep('snap-2'), 'FAILED_PRECONDITION', /check/);
});

test('times that do not fit into a mapping lose all bases', async () => {
  await bases.keep('snap-1');
  await bases.start(await atStart({ superblock: { ...SUPERBLOCK, time: 1 << 24 } }));
  assert.match(await lost(), /24 bits/);
});

test('a pool that is seen read-only or failed, or asks for a check, loses all bases', async () => {
  const states = [
    { mode: 'ro' },
    { mode: 'fail' },
    { mode: 'error' },
    { needsCheck: true },
  ] as const;
  await bases.keep('snap-1');
  await bases.observe({ ...STATUS, mode: 'out_of_data_space' });
  assert.equal((await bases.list()).lost.length, 0);
  for (const state of states) {
    await bases.keep('snap-1');
    await bases.observe({ ...STATUS, ...state });
    assert.match(await lost(), /may have undone|needs a check/);
    await bases.drop('snap-1');
  }
});

test('a pool that the kernel has held ever since loses nothing, whatever is attached', async () => {
  await bases.keep('snap-1');
  await bases.start(await atStart());
  assert.equal((await bases.list()).usable.length, 1);
});

test('metadata that went back in transactions or time loses all bases, also of an active pool', async () => {
  await bases.keep('snap-1');
  const [base] = await ledger.keptBases();
  assert.ok(base !== undefined);
  const back = { ...SUPERBLOCK, transactionId: 8n };
  assert.match(
    lossAtStart(await atStart({ superblock: back }), base) ?? '',
    /from transaction 9 to 8/,
  );
  await bases.start(await atStart({ superblock: { ...SUPERBLOCK, time: 4 } }));
  assert.match(await lost(), /from time 5 to 4/);
});

test('a pool that is as it was stopped loses nothing, one that somebody changed loses all', async () => {
  await bases.keep('snap-1');
  const { transactionId, time, mappingRoot, detailsRoot } = SUPERBLOCK;
  const stopped = { transactionId, time, mappingRoot, detailsRoot };
  const start = await atStart({ isActive: false, bootId: 'boot-2' });
  const after = (fields: Partial<typeof stopped>): PoolAtStart => ({
    ...start,
    record: { ...start.record, stopped: { ...stopped, ...fields } },
  });
  await bases.start(after({}));
  assert.equal((await bases.list()).usable.length, 1);
  for (const fields of [
    { time: 6 },
    { mappingRoot: 1n },
    { detailsRoot: 1n },
    { transactionId: 8n },
  ]) {
    const [base] = await ledger.keptBases();
    assert.ok(base !== undefined);
    assert.match(lossAtStart(after(fields), base) ?? '', /somebody else has changed/);
  }
});

test('after an unclean stop the bases of attached volumes are lost where discards were passed down', async () => {
  await bases.keep('snap-1');
  const unclean = await atStart({ isActive: false, bootId: 'boot-2' });
  const [base] = await ledger.keptBases();
  assert.ok(base !== undefined);
  assert.equal(lossAtStart({ ...unclean, openVolumes: new Set(['vol-2']) }, base), null);
  assert.equal(lossAtStart({ ...unclean, passedDiscards: false }, base), null);
  // Active, but made by somebody after a reboot: the same.
  assert.notEqual(lossAtStart({ ...unclean, isActive: true }, base), null);
  await bases.start(unclean);
  assert.match(await lost(), /discards/);
});

test('a start drops files that no row knows, and loses a base whose file is gone', async () => {
  await bases.keep('snap-1');
  writeFileSync(at('bases', 'snap-0'), 'left by a kill');
  writeFileSync(at('bases', 'snap-1.tmp'), 'half');
  await bases.start(await atStart());
  assert.ok(!existsSync(at('bases', 'snap-0')) && !existsSync(at('bases', 'snap-1.tmp')));
  assert.equal((await bases.list()).usable.length, 1);
  rmSync(at('bases', 'snap-1'));
  await bases.start(await atStart());
  assert.match(await lost(), /is gone/);
});

test('nothing is kept of what is no snapshot of the pool', async () => {
  assert.equal(await bases.keep('snap-9'), null);
});
