import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { after, test } from 'node:test';
import type { NewDevice } from '../../../../src/backends/thin/ledger/ledger.js';
import type { OpenLedger } from '../../../../src/backends/thin/ledger/ledger-client.js';
import { openLedger } from '../../../../src/backends/thin/ledger/ledger-client.js';
import { newSnapshotId, newVolumeId } from '../../../../src/domain/identifiers.js';
import { rejectsWith } from '../../../support/expect-status.js';
import { TEST_NODE_KEY } from '../../../support/records.js';
import { Workspace } from '../../../support/workspace.js';

const BLOCK = 65536n;
const LAST_DEVICE_ID = 16_777_215;

const workspace = new Workspace('thin-ledger');
after(() => workspace.dispose());
let files = 0;

async function withLedger(
  work: (ledger: OpenLedger, reopen: () => Promise<OpenLedger>) => Promise<void>,
): Promise<void> {
  files += 1;
  const file = workspace.path(`pool-${files}.sqlite`);
  const opened: OpenLedger[] = [];
  const reopen = async () => {
    const ledger = await openLedger(file);
    opened.push(ledger);
    return ledger;
  };
  try {
    const ledger = await reopen();
    await ledger.makePool(BLOCK);
    await work(ledger, reopen);
    assert.equal(statSync(file).mode & 0o777, 0o600);
  } finally {
    for (const ledger of opened) await ledger.close();
  }
}

function volume(sizeBytes = 1n << 20n): NewDevice {
  const objectId = newVolumeId(TEST_NODE_KEY);
  return { objectId, kind: 'volume', sizeBytes, lineage: objectId };
}

function snapshotOf({ objectId, sizeBytes }: NewDevice): NewDevice {
  const lineage = objectId;
  return { objectId: newSnapshotId(TEST_NODE_KEY), kind: 'snapshot', sizeBytes, lineage };
}

test('the pool of a ledger is made once and keeps its uuid and block size', () =>
  withLedger(async (ledger, reopen) => {
    const pool = await ledger.pool();
    assert.deepEqual(pool, {
      uuid: pool.uuid,
      state: 'new',
      dataBlockBytes: BLOCK,
      labelledBytes: null,
      transactionId: 0n,
      holdsMetadataSnapshot: false,
      bootId: null,
      passesDiscards: true,
      stopped: null,
    });
    assert.match(pool.uuid, /^[0-9a-f-]{36}$/);
    await ledger.setPoolState('ready');
    const other = await reopen();
    await other.makePool(2n * BLOCK);
    assert.deepEqual(await other.pool(), { ...pool, state: 'ready' });
  }));

test('a device is no object before its transaction is applied, and none after it was undone', () =>
  withLedger(async (ledger, reopen) => {
    const [kept, undone] = [volume(), volume()];
    const begun = await ledger.begin([kept], []);
    assert.equal(begun.opens, 1n);
    assert.deepEqual(
      begun.creates.map(({ objectId, deviceId, madeAt }) => [objectId, deviceId, madeAt]),
      [[kept.objectId, 1, 0n]],
    );
    assert.equal(await ledger.device(kept.objectId), null);
    assert.deepEqual(await ledger.devices(), []);
    await assert.rejects(ledger.begin([undone], []));
    assert.deepEqual(await (await reopen()).openTransaction(), begun);
    await ledger.apply();
    assert.equal(await ledger.openTransaction(), null);
    assert.equal((await ledger.pool()).transactionId, 1n);
    assert.deepEqual(await ledger.device(kept.objectId), {
      ...kept,
      deviceId: 1,
      state: 'live',
      madeAt: 0n,
      open: false,
    });
    await ledger.begin([undone], []);
    await ledger.undo();
    assert.equal(await ledger.device(undone.objectId), null);
    assert.equal((await ledger.pool()).transactionId, 1n);
    assert.equal((await ledger.begin([undone], [])).creates[0]?.deviceId, 3, 'not at once again');
  }));

test('a device that is being deleted is listed and no object, until the transaction is applied', () =>
  withLedger(async (ledger) => {
    const made = volume();
    await ledger.begin([made], []);
    await ledger.apply();
    const { deletes } = await ledger.begin([], [made.objectId]);
    assert.deepEqual(
      deletes.map(({ objectId }) => objectId),
      [made.objectId],
    );
    assert.equal(await ledger.device(made.objectId), null);
    assert.deepEqual(
      (await ledger.devices()).map(({ state }) => state),
      ['deleting'],
    );
    await ledger.apply();
    assert.deepEqual(await ledger.devices(), []);
  }));

test('an object id is taken once', () =>
  withLedger(async (ledger) => {
    const made = volume();
    await ledger.begin([made], []);
    await ledger.apply();
    await rejectsWith(ledger.begin([snapshotOf(made), made], []), 'ALREADY_EXISTS');
    assert.equal(await ledger.openTransaction(), null, 'nothing of it was begun');
  }));

test('device ids go round and leave out those that are known', () =>
  withLedger(async (ledger) => {
    await ledger.begin([volume(), volume()], []);
    await ledger.apply();
    await ledger.skipDeviceIds(LAST_DEVICE_ID - 1);
    assert.deepEqual(await ledger.upcomingIds(2), [LAST_DEVICE_ID, 3]);
    const { creates } = await ledger.begin([volume(), volume()], []);
    assert.deepEqual(
      creates.map(({ deviceId }) => deviceId),
      [3, LAST_DEVICE_ID],
    );
  }));

test('a volume grows and never shrinks, and a snapshot does neither', () =>
  withLedger(async (ledger) => {
    const made = volume(1n << 20n);
    await ledger.begin([made], []);
    await ledger.apply();
    const cut = snapshotOf(made);
    await ledger.begin([cut], []);
    await ledger.apply();
    assert.equal(await ledger.growVolume(made.objectId, 2n << 20n), 2n << 20n);
    assert.equal(await ledger.growVolume(made.objectId, 1n << 20n), 2n << 20n);
    assert.equal(await ledger.growVolume(cut.objectId, 2n << 20n), null);
    assert.equal(await ledger.growVolume(newVolumeId(TEST_NODE_KEY), 1n), null);
  }));

test('what was seen at a stop is there until the next start', () =>
  withLedger(async (ledger, reopen) => {
    const stamp = { transactionId: 7n, time: 3, mappingRoot: 11n, detailsRoot: 12n };
    await ledger.recordStart('boot-1', false);
    await ledger.recordStop(stamp);
    const found = await (await reopen()).pool();
    assert.deepEqual([found.bootId, found.passesDiscards, found.stopped], ['boot-1', false, stamp]);
    await ledger.recordStart('boot-2', true);
    const started = await ledger.pool();
    assert.deepEqual(
      [started.bootId, started.passesDiscards, started.stopped],
      ['boot-2', true, null],
    );
  }));

test('kept bases are listed in the order they were kept, lost ones with the first reason', () =>
  withLedger(async (ledger) => {
    const base = (snapshotId: string) => ({
      ...{ snapshotId, lineage: 'vol', sizeBytes: 1n << 40n },
      ...{ creationTime: 4, storedBytes: 99n, invalidReason: null },
    });
    for (const id of ['b', 'a', 'b']) await ledger.insertBookmark(base(id));
    assert.deepEqual(await ledger.bookmarks(), [base('b'), base('a')]);
    for (const why of ['first', 'second']) await ledger.invalidateBookmark('a', why);
    assert.deepEqual(await ledger.bookmarks(), [
      base('b'),
      { ...base('a'), invalidReason: 'first' },
    ]);
    await ledger.invalidateAllBookmarks('third');
    const lost = await ledger.bookmarks();
    assert.deepEqual(
      lost.map(({ invalidReason: reason }) => reason),
      ['third', 'first'],
    );
    await ledger.removeBookmark('b');
    assert.deepEqual(
      [await ledger.bookmark('b'), await ledger.bookmark('a')],
      [null, { ...base('a'), invalidReason: 'first' }],
    );
  }));

test('a ledger that is closed leaves one file', async () => {
  const file = workspace.path('closed.sqlite');
  const ledger = await openLedger(file);
  await ledger.close();
  assert.ok(existsSync(file) && !existsSync(`${file}-wal`));
});
