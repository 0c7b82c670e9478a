/** Metadata of another pool is told from metadata at which another tool has been. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeviceRecord, DeviceState } from '../../../../src/backends/thin/ledger/ledger.js';
import { assertSameDevices } from '../../../../src/backends/thin/metadata/metadata-match.js';

const there = (deviceId: number, transactionId: bigint) => ({
  ...{ deviceId, transactionId, root: 9n, mappedBlocks: 0n, creationTime: 0, snapshottedTime: 0 },
});
const known = (deviceId: number, madeAt: bigint, state: DeviceState = 'live'): DeviceRecord => ({
  ...{ objectId: `v${deviceId}`, kind: 'volume', sizeBytes: 4096n, lineage: `v${deviceId}` },
  ...{ deviceId, madeAt, state, open: false },
});
const refused = /lacks 1 thin devices .* and has 1 that it does not/;

test('devices that the ledger knows, and no others, are its own', () => {
  const devices = [known(1, 0n), known(2, 1n)];
  assertSameDevices('p', { devices, transaction: null }, [there(1, 0n), there(2, 1n)]);
});

test('strangers alone, or losses alone, are told elsewhere', () => {
  const devices = [known(1, 0n), known(2, 1n)];
  const one = { devices, transaction: null };
  assertSameDevices('p', one, [there(1, 0n), there(2, 1n), there(9, 1n)]);
  assertSameDevices('p', one, [there(1, 0n)]);
  assertSameDevices('p', one, []);
});

test('a device lost and a stranger there are metadata of another pool', () => {
  const one = { devices: [known(1, 0n), known(2, 1n)], transaction: null };
  assert.throws(() => assertSameDevices('p', one, [there(1, 0n), there(3, 1n)]), refused);
  // The same id, and made in another transaction.
  assert.throws(() => assertSameDevices('p', one, [there(1, 0n), there(2, 0n)]), refused);
});

test('devices of a change that was under way may be there or not', () => {
  const creates = [known(3, 2n, 'creating')];
  const devices = [known(1, 0n), known(2, 1n, 'deleting')];
  const transaction = { opens: 3n, creates, deletes: [known(2, 1n, 'deleting')] };
  for (const found of [
    [there(1, 0n)],
    [there(1, 0n), there(2, 1n)],
    [there(1, 0n), there(3, 2n)],
    [there(3, 2n)],
  ]) {
    assertSameDevices('p', { devices, transaction }, found);
  }
});
