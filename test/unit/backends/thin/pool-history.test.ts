/** What a start concludes from the ledger and the metadata: about the time since the last run, and whose they are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeviceRecord, DeviceState, PoolRecord } from '../../../../src/driver/backends/thin/ledger/ledger.js';
import { assertSameDevices } from '../../../../src/driver/backends/thin/metadata/metadata-match.js';
import {
  historyOfActive,
  historyOfInactive,
  isKnownTransaction,
} from '../../../../src/driver/backends/thin/pool/pool-history.js';
import { passesDown } from '../../../../src/driver/backends/thin/pool/pool-table.js';
import type { ThinSuperblock } from '../../../../src/driver/native/thin-addon.js';
import { POOL_RECORD, SUPERBLOCK } from '../../../support/fake-thin-kernel.js';

const STOPPED = { transactionId: 9n, time: 7, mappingRoot: 100n, detailsRoot: 101n };

function history(pool: Partial<PoolRecord>, superblock: Partial<ThinSuperblock> = {}) {
  const devices = [{ ...known(1, 1n), open: true }, known(2, 1n)];
  const findings = { pool: { ...POOL_RECORD, ...pool }, transaction: null, devices, bootId: 'boot-2' };
  return historyOfInactive(findings, { ...SUPERBLOCK, ...superblock });
}

test('volumes that were open are interrupted after another boot, where discards were passed down', () => {
  assert.deepEqual(history({}), { distrust: null, interrupted: ['v1'] });
  assert.deepEqual(history({ passesDiscards: false }), { distrust: null, interrupted: [] });
});

test('an orderly stop leaves nothing to distrust, unless somebody has changed the pool since', () => {
  assert.equal(history({ stopped: STOPPED }).distrust, null);
  for (const field of ['mappingRoot', 'detailsRoot', 'transactionId'] as const) {
    assert.match(history({ stopped: STOPPED }, { [field]: 1n }).distrust ?? '', /changed/);
  }
  assert.match(history({ stopped: STOPPED }, { time: 8 }).distrust ?? '', /changed/);
});

test('a volume whose last commit failed is interrupted in spite of an orderly stop', () => {
  assert.deepEqual(history({ stopped: STOPPED }).interrupted, ['v1']);
});

test('a pool that needs a check, or was removed without the plugin, is distrusted', () => {
  assert.match(history({}, { needsCheck: true }).distrust ?? '', /a write .* failed/);
  assert.match(history({ bootId: 'boot-2' }).distrust ?? '', /removed by another tool/);
  const ours = { pool: { ...POOL_RECORD, bootId: 'boot-2' }, bootId: 'boot-2' };
  assert.notEqual(historyOfActive(ours, true).distrust, null);
  assert.deepEqual(historyOfActive(ours, false), { distrust: null, interrupted: [] });
});

test('a pool that somebody else has made active is distrusted', () => {
  const another = { pool: POOL_RECORD, bootId: 'boot-2' };
  assert.match(historyOfActive(another, false).distrust ?? '', /activated by another tool/);
  const stopped = { pool: { ...POOL_RECORD, stopped: STOPPED }, bootId: 'boot-1' };
  assert.match(historyOfActive(stopped, false).distrust ?? '', /activated by another tool/);
});

test('a pool is known by its last transaction, or by the one that was being opened', () => {
  const transaction = { opens: 10n, creates: [], deletes: [] };
  const known = (found: bigint) => isKnownTransaction(found, { pool: POOL_RECORD, transaction });
  assert.deepEqual([8n, 9n, 10n, 11n].map(known), [false, true, true, false]);
});

test('a table tells whether discards go on to the data device', () => {
  assert.ok(passesDown('7:0 7:1 128 10 1 error_if_no_space'));
  assert.ok(!passesDown('7:0 7:1 128 10 2 no_discard_passdown error_if_no_space'));
});

const there = (deviceId: number, transactionId: bigint) => ({
  deviceId,
  transactionId,
  root: 9n,
  mappedBlocks: 0n,
  creationTime: 0,
  snapshottedTime: 0,
});
const known = (deviceId: number, madeAt: bigint, state: DeviceState = 'live'): DeviceRecord => ({
  objectId: `v${deviceId}`,
  kind: 'volume',
  promiseId: null,
  sizeBytes: 4096n,
  lineage: `v${deviceId}`,
  deviceId,
  madeAt,
  state,
  open: false,
});
const KNOWN = { devices: [known(1, 0n), known(2, 1n)], transaction: null };
const CHANGING = {
  devices: [known(1, 0n), known(2, 1n, 'deleting')],
  transaction: { opens: 3n, creates: [known(3, 2n, 'creating')], deletes: [known(2, 1n, 'deleting')] },
};

test('strangers alone, losses alone, and both halves of a change are in the metadata of the same pool', () => {
  for (const found of [[there(1, 0n), there(2, 1n)], [there(1, 0n), there(2, 1n), there(9, 1n)], [there(1, 0n)], []])
    assertSameDevices('p', KNOWN, found);
  for (const found of [[there(1, 0n)], [there(1, 0n), there(2, 1n)], [there(1, 0n), there(3, 2n)], [there(3, 2n)]])
    assertSameDevices('p', CHANGING, found);
});

test('a device lost and a stranger there are metadata of another pool', () => {
  // The second has the same id, and was made in another transaction.
  for (const stranger of [there(3, 1n), there(2, 0n)])
    assert.throws(
      () => assertSameDevices('p', KNOWN, [there(1, 0n), stranger]),
      /lacks 1 thin devices .* and has 1 that it does not/,
    );
});
