/** Marks of volumes that are half restored: who may mark a volume, stage it and end its mark. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { newVolumeId } from '../../../src/base/csi/handles.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { assertNotHalfRestored, InPlaceRestores } from '../../../src/driver/volumes/in-place-restores.js';
import { OperationLocks, volumeKey } from '../../../src/driver/volumes/operation-locks.js';
import { type DirectCatalogue, openCatalogueHere } from '../../support/direct-database.js';
import { BLOCK, mountOf, TEST_NODE_KEY, volumeRecord } from '../../support/records.js';
import { refused, throwsRefusal } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

const MOUNT = mountOf('ext4');

let catalogue: DirectCatalogue;
let volume: VolumeRecord;
let locks: OperationLocks;
let restores: InPlaceRestores;
/** Where the volume is in use. */
let place: string | null;

beforeEach(() => {
  catalogue = openCatalogueHere(join(temporaryDirectory(), 'catalogue.db'));
  catalogue.registerPool('default', 'uuid-1');
  volume = volumeRecord();
  catalogue.insertVolume(volume);
  locks = new OperationLocks({ waitMs: 1 });
  place = null;
  restores = new InPlaceRestores({ catalogue: catalogue as never, locks, placeInUse: async () => place });
});

afterEach(() => catalogue.close());

const markOf = () => catalogue.volumeUses(volume.volumeId).restore;

test('a volume is marked unless it is in use, and the mark goes with it', async () => {
  const { volumeId } = volume;
  await refused(restores.begin(newVolumeId(TEST_NODE_KEY), 'finish'), 'NOT_FOUND', /does not exist on this node/);
  place = '/staging';
  await refused(restores.begin(volumeId, 'finish'), 'FAILED_PRECONDITION', /is in use at \/staging, so it cannot be/);
  place = null;
  const release = locks.acquire([volumeKey(volumeId)]);
  await refused(restores.begin(volumeId, 'finish'), 'ABORTED');
  release();
  assert.equal(markOf(), null);
  const { mark, isNew } = await restores.begin(volumeId, 'finish');
  assert.ok(isNew);
  assert.deepEqual(markOf(), mark);
  catalogue.removeVolume(volumeId);
  assert.equal(markOf(), null);
});

test('the last command that has begun ends the restore, and only it', async () => {
  const { volumeId } = volume;
  const first = await restores.begin(volumeId, 'finish the first');
  const second = await restores.begin(volumeId, 'finish the second');
  assert.deepEqual([second.isNew, second.mark.snapshotName], [false, first.mark.snapshotName]);
  assert.notEqual(second.mark.token, first.mark.token);
  await refused(restores.end(volumeId, first.mark.token), 'FAILED_PRECONDITION', /another command has begun/);
  assert.deepEqual(markOf(), second.mark);
  await restores.end(volumeId, second.mark.token);
  assert.equal(markOf(), null);
  await restores.end(volumeId, first.mark.token);
  const again = await restores.begin(volumeId, 'finish');
  assert.notEqual(again.mark.snapshotName, first.mark.snapshotName);
});

test('a half restored volume is staged as a block volume with the token of its mark, and in no other way', async () => {
  const check =
    (...use: [typeof BLOCK | typeof MOUNT, string | null]) =>
    () =>
      assertNotHalfRestored(volume, markOf(), ...use);
  check(BLOCK, null)();
  check(MOUNT, null)();
  const { mark } = await restores.begin(volume.volumeId, "blockdelta restore '/a b' --in-place");
  check(BLOCK, mark.token)();
  throwsRefusal(check(MOUNT, mark.token), 'FAILED_PRECONDITION', /is half restored/);
  for (const use of [BLOCK, MOUNT]) {
    throwsRefusal(
      check(use, null),
      'FAILED_PRECONDITION',
      /is half restored.*: blockdelta restore '\/a b' --in-place$/,
    );
    throwsRefusal(check(use, 'another'), 'FAILED_PRECONDITION', /another command has begun/);
  }
  await restores.end(volume.volumeId, mark.token);
  // What a restore that has ended would write is older than what the volume holds.
  throwsRefusal(check(BLOCK, mark.token), 'FAILED_PRECONDITION', /or has finished it/);
});
