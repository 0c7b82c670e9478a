import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { newVolumeId } from '../../../../src/base/csi/handles.js';
import type { NewDevice } from '../../../../src/driver/backends/thin/ledger/ledger.js';
import { openLedger } from '../../../../src/driver/backends/thin/ledger/ledger-client.js';
import { openLedgerHere } from '../../../support/direct-database.js';
import { TEST_NODE_KEY } from '../../../support/records.js';
import { temporaryDirectory } from '../../../support/temporary.js';

const BLOCK = 65536n;
const LAST_DEVICE_ID = 16_777_215;

let file: string;
let ledger: ReturnType<typeof openLedgerHere>;
beforeEach(() => {
  file = join(temporaryDirectory(), 'pool.sqlite');
  ledger = openLedgerHere(file);
  ledger.makePool(BLOCK);
});
afterEach(() => ledger.close());

function reopen(): void {
  ledger.close();
  ledger = openLedgerHere(file);
}

function volume(sizeBytes = 1n << 20n): NewDevice {
  const objectId = newVolumeId(TEST_NODE_KEY);
  return { objectId, kind: 'volume', sizeBytes, lineage: objectId };
}

test('the pool of a ledger is made once, in a file of its user alone, and keeps its uuid and block size', () => {
  const pool = ledger.pool();
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
  ledger.setPoolState('ready');
  reopen();
  ledger.makePool(2n * BLOCK);
  assert.deepEqual(ledger.pool(), { ...pool, state: 'ready' });
  assert.equal(statSync(file).mode & 0o777, 0o600);
});

test('a device is an object from the end of the change that makes it until one begins that deletes it', () => {
  const made = volume();
  const isObject = () => ledger.device(made.objectId) !== null;
  ledger.begin([made], []);
  assert.equal(isObject(), false);
  ledger.apply();
  assert.equal(isObject(), true);
  ledger.begin([], [made.objectId]);
  assert.equal(isObject(), false);
});

test('device ids go round and leave out those that are known', () => {
  ledger.begin([volume(), volume()], []);
  ledger.apply();
  ledger.skipDeviceIds(LAST_DEVICE_ID - 1);
  assert.deepEqual(ledger.upcomingIds(2), [LAST_DEVICE_ID, 3]);
  const { creates } = ledger.begin([volume(), volume()], []);
  const ids = creates.map(({ deviceId }) => deviceId);
  assert.deepEqual(ids, [3, LAST_DEVICE_ID]);
});

test('what was seen at a stop is there until the next start', () => {
  const stopped = { transactionId: 7n, time: 3, mappingRoot: 11n, detailsRoot: 12n };
  ledger.recordStart('boot-1', false);
  ledger.recordStop(stopped);
  reopen();
  const pool = ledger.pool();
  assert.deepEqual(pool, { ...pool, bootId: 'boot-1', passesDiscards: false, stopped });
  ledger.recordStart('boot-2', true);
  assert.deepEqual(ledger.pool(), { ...pool, bootId: 'boot-2', passesDiscards: true, stopped: null });
});

test('a ledger that is closed leaves one file', async () => {
  const path = join(temporaryDirectory(), 'closed.sqlite');
  await (await openLedger(path)).close();
  assert.ok(existsSync(path) && !existsSync(`${path}-wal`));
});
