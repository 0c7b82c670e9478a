/** What a start concludes from the ledger and the superblock about the time since the last run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeviceRecord, PoolRecord } from '../../../../src/backends/thin/ledger/ledger.js';
import {
  historyOfActive,
  historyOfInactive,
  isKnownTransaction,
} from '../../../../src/backends/thin/pool/pool-history.js';
import { passesDown } from '../../../../src/backends/thin/pool/pool-table.js';
import type { ThinSuperblock } from '../../../../src/native/thin-addon.js';
import { POOL_RECORD, SUPERBLOCK } from '../../../support/fake-thin-kernel.js';

const STOPPED = { transactionId: 9n, time: 7, mappingRoot: 100n, detailsRoot: 101n };

const volume = (objectId: string, open: boolean): DeviceRecord => ({
  ...{ objectId, kind: 'volume', sizeBytes: 1n, lineage: objectId, deviceId: 1, state: 'live' },
  ...{ madeAt: 1n, open },
});

function history(pool: Partial<PoolRecord>, superblock: Partial<ThinSuperblock> = {}) {
  const devices = [volume('vol-open', true), volume('vol-closed', false)];
  const findings = {
    pool: { ...POOL_RECORD, ...pool },
    transaction: null,
    devices,
    bootId: 'boot-2',
  };
  return historyOfInactive(findings, { ...SUPERBLOCK, ...superblock });
}

test('after another boot the volumes that were open are interrupted, where discards were passed down', () => {
  assert.deepEqual(history({}), { distrust: null, interrupted: ['vol-open'] });
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
  assert.deepEqual(history({ stopped: STOPPED }).interrupted, ['vol-open']);
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
