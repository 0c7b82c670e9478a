/** What a node records of volumes that have taken the place of others. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { newVolumeId } from '../../../src/base/csi/handles.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { Successions } from '../../../src/driver/replicas/successions.js';
import { OperationLocks, volumeKey } from '../../../src/driver/volumes/operation-locks.js';
import { type DirectCatalogue, openCatalogueHere } from '../../support/direct-database.js';
import { BLOCK, TEST_NODE_KEY, volumeRecord } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

let catalogue: DirectCatalogue;
let volume: VolumeRecord;
let locks: OperationLocks;
let successions: Successions;
/** Where the volume is in use. */
let place: string | null;
const other = newVolumeId(TEST_NODE_KEY);

beforeEach(() => {
  catalogue = openCatalogueHere(join(temporaryDirectory(), 'catalogue.db'));
  catalogue.registerPool('default', 'uuid-1');
  volume = volumeRecord();
  catalogue.insertVolume(volume);
  locks = new OperationLocks({ waitMs: 1 });
  place = null;
  successions = new Successions({ catalogue: catalogue as never, locks, placeInUse: async () => place });
});

afterEach(() => catalogue.close());

test('a volume is superseded unless it is in use, with copies and without', async () => {
  const { volumeId } = volume;
  // What a power cut leaves does not count.
  catalogue.putStaging({ volumeId, stagingPath: '/staging', resolvedPath: '/staging', capability: BLOCK });
  place = '/staging';
  const old = { oldVolumeId: volumeId, newVolumeId: other, isTold: false };
  await refused(successions.supersede(old), 'FAILED_PRECONDITION', /is in use at \/staging/);
  assert.equal(catalogue.volumeUses(volumeId).copied, null);
  place = null;
  const release = locks.acquire([volumeKey(volumeId)]);
  await refused(successions.supersede(old), 'ABORTED');
  release();
  for (const newVolumeId of [other, newVolumeId2]) {
    await successions.supersede({ ...old, newVolumeId });
    assert.deepEqual(catalogue.volumeUses(volumeId).copied, { supersededBy: newVolumeId, isCordoned: false });
  }
  await successions.supersede({ oldVolumeId: other, newVolumeId: volumeId, isTold: false });
  assert.equal(catalogue.volumeUses(other).copied, null);
});

const newVolumeId2 = newVolumeId(TEST_NODE_KEY);

test('a succession is recorded for a volume that is there, and outlives it', async () => {
  const { volumeId } = volume;
  const record = { oldVolumeId: other, newVolumeId: volumeId, isTold: false };
  await refused(successions.record({ ...record, newVolumeId: newVolumeId2 }), 'NOT_FOUND', /new_volume_id/);
  await successions.record(record);
  await successions.record(record);
  catalogue.removeVolume(volumeId);
  assert.deepEqual(await successions.list(), [record]);
});

test('a cordon is refused while the volume is in use, and is undone unless another volume has taken its place', async () => {
  const { volumeId } = volume;
  const cordons = (): boolean | undefined => catalogue.volumeUses(volumeId).copied?.isCordoned;
  await refused(successions.cordon(other), 'NOT_FOUND', /volume_id: volume .* does not exist on this node/);
  await successions.uncordon(other);
  await successions.uncordon(volumeId);
  assert.equal(catalogue.volumeUses(volumeId).copied, null);
  place = '/staging';
  const inUse = /is in use at \/staging, so it cannot be cordoned/;
  await refused(successions.cordon(volumeId), 'FAILED_PRECONDITION', inUse);
  assert.equal(cordons(), undefined);
  place = null;
  for (let count = 0; count < 2; count += 1) await successions.cordon(volumeId);
  assert.equal(cordons(), true);
  await successions.uncordon(volumeId);
  assert.equal(cordons(), false);
  await successions.cordon(volumeId);
  await successions.supersede({ oldVolumeId: volumeId, newVolumeId: other, isTold: false });
  await refused(successions.uncordon(volumeId), 'FAILED_PRECONDITION', new RegExp(`${other} has taken its place`));
  assert.deepEqual(catalogue.volumeUses(volumeId).copied, { supersededBy: other, isCordoned: true });
});

test('successions that the old node was not told are listed until it is', async () => {
  const record = { oldVolumeId: other, newVolumeId: volume.volumeId, isTold: false };
  await successions.record(record);
  assert.deepEqual(await successions.untold(), [record]);
  catalogue.removeVolume(volume.volumeId);
  await successions.record({ ...record, isTold: true });
  assert.deepEqual([await successions.untold(), await successions.list()], [[], [{ ...record, isTold: true }]]);
});
