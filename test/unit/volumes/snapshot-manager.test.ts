import assert from 'node:assert/strict';
import { test } from 'node:test';
import { volumeKey } from '../../../src/driver/volumes/operation-locks.js';
import { snapshotRecord } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { holdUp, managersOfEachTest } from './manager-fixture.js';

const managers = managersOfEachTest();

test('LS2: a snapshot that is being taken is not listed, and a repeated request is ABORTED', async () => {
  const { catalogue, snapshots, backend } = managers;
  const { volumeId } = await managers.volume();
  const request = { name: 'taken', sourceVolumeId: volumeId, parameters: {} };
  const { reached, go } = holdUp(backend.snapshots);
  const taking = snapshots.create(request);
  await reached;
  assert.deepEqual(await catalogue.listSnapshots(), []);
  await refused(snapshots.create(request), 'ABORTED', /pending/);
  go();
  const snapshot = await taking;
  assert.deepEqual(await catalogue.listSnapshots(), [snapshot]);
});

test('CS8: a failed creation is an error and leaves no snapshot behind', async (t) => {
  const { catalogue, snapshots, backend } = managers;
  const { volumeId } = await managers.volume();
  const request = { name: 'failed', sourceVolumeId: volumeId, parameters: {} };
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  t.mock.method(backend.snapshots, 'create', () => Promise.reject(full));
  await assert.rejects(snapshots.create(request), { code: 'ENOSPC' });
  assert.equal(await catalogue.snapshotByName('failed'), null);
  t.mock.restoreAll();
  assert.equal((await snapshots.create(request)).state, 'ready');
});

test('what a failed rollback has left of another volume is removed under the lock of that volume, and the name is free', async () => {
  const { catalogue, deps, snapshots, backend } = managers;
  const [first, second] = [await managers.volume(), await managers.volume()];
  const left = await catalogue.insertSnapshot(snapshotRecord(first, { name: 'left', state: 'creating' }));
  const request = { name: 'left', sourceVolumeId: second.volumeId, parameters: {} };
  const release = deps.locks.acquire([volumeKey(first.volumeId)]);
  await refused(snapshots.create(request), 'ABORTED', /pending/);
  release();
  const snapshot = await snapshots.create(request);
  assert.equal(snapshot.volumeId, second.volumeId);
  assert.equal(await catalogue.snapshotById(left.snapshotId), null);
  assert.deepEqual([...backend.storage.snapshots.keys()], [snapshot.snapshotId]);
});
