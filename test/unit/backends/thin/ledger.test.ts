import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { after, test } from 'node:test';
import type { NewDevice } from '../../../../src/backends/thin/ledger/ledger.js';
import type { OpenLedger } from '../../../../src/backends/thin/ledger/ledger-client.js';
import { openLedger } from '../../../../src/backends/thin/ledger/ledger-client.js';
import { newVolumeId } from '../../../../src/domain/identifiers.js';
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

test('a device is an object from the end of the change that makes it until one begins that deletes it', () =>
  withLedger(async (ledger) => {
    const made = volume();
    const isObject = async () => (await ledger.device(made.objectId)) !== null;
    await ledger.begin([made], []);
    assert.equal(await isObject(), false);
    await ledger.apply();
    assert.equal(await isObject(), true);
    await ledger.begin([], [made.objectId]);
    assert.equal(await isObject(), false);
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

test('a ledger that is closed leaves one file', async () => {
  const file = workspace.path('closed.sqlite');
  const ledger = await openLedger(file);
  await ledger.close();
  assert.ok(existsSync(file) && !existsSync(`${file}-wal`));
});
