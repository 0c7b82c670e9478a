/** The rules of group snapshots, on in-memory pools. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { CsiError } from '../../../src/base/errors.js';
import type { SnapshotMember } from '../../../src/driver/backends/backend.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import type { GroupSnapshot, GroupSnapshotRequest } from '../../../src/driver/volumes/group-manager.js';
import { shared, sharedByPlugin, snapshotKey } from '../../../src/driver/volumes/operation-locks.js';
import { reconcile } from '../../../src/driver/volumes/reconcile.js';
import { refused } from '../../support/refusal.js';
import { managersOfEachTest } from './manager-fixture.js';

const managers = managersOfEachTest();
let volumes: VolumeRecord[];

beforeEach(async () => {
  volumes = [await managers.volume(), await managers.volume()];
});

const ids = (of: readonly VolumeRecord[]): string[] => of.map(({ volumeId }) => volumeId);
const memberIds = ({ members }: GroupSnapshot): string[] => members.map(({ snapshotId }) => snapshotId);
const request = (fields: Partial<GroupSnapshotRequest> = {}): GroupSnapshotRequest => ({
  name: 'nightly',
  sourceVolumeIds: ids(volumes),
  parameters: {},
  ...fields,
});

/** Asserts that neither rows nor storage of any snapshot are left. */
async function assertNothing(): Promise<void> {
  const { catalogue } = managers;
  assert.equal(await catalogue.groupByName('nightly'), null);
  const { groups, snapshots } = await catalogue.unfinished();
  assert.deepEqual([groups, snapshots, await catalogue.listSnapshots()], [[], [], []]);
  assert.equal(managers.backend.storage.snapshots.size, 0);
}

test('a repeated request finds the group after its sources are deleted', async () => {
  const first = await managers.groups.create(request());
  for (const { volumeId } of volumes) {
    await managers.backend.volumes.delete(volumeId);
    await managers.catalogue.removeVolume(volumeId);
  }
  assert.deepEqual(await managers.groups.create(request()), first);
});

test('GA4: a name with other sources or other parameters is ALREADY_EXISTS', async () => {
  await managers.groups.create(request());
  const third = await managers.volume();
  const others = [ids(volumes).slice(0, 1), ids([...volumes, third]), [volumes[0]?.volumeId ?? '', third.volumeId]];
  for (const sourceVolumeIds of others) {
    const wrong = managers.groups.create(request({ sourceVolumeIds }));
    await refused(wrong, 'ALREADY_EXISTS', /source_volume_ids/);
  }
  const wrong = managers.groups.create(request({ parameters: { key: 'value' } }));
  await refused(wrong, 'ALREADY_EXISTS', /parameters/);
});

test('GA6: volumes of two pools cannot be snapshotted together', async () => {
  const other = await managers.volume({ pool: 'second' });
  const wrong = request({ sourceVolumeIds: ids([...volumes, other]) });
  await refused(managers.groups.create(wrong), 'FAILED_PRECONDITION', /'second'/);
  await assertNothing();
  assert.equal(managers.second.storage.snapshots.size, 0);
});

test('GA7, GA8: a failed creation keeps its code and leaves neither rows nor storage', async () => {
  const { backend } = managers;
  const take = backend.snapshots.create.bind(backend.snapshots);
  backend.snapshots.create = async (members) => {
    await take(members);
    throw CsiError.resourceExhausted('the pool is full');
  };
  await refused(managers.groups.create(request()), 'RESOURCE_EXHAUSTED', /full/);
  await assertNothing();
});

test('GA8: what a creation and its failed rollback have left is removed by the next call, and by the next start', async (t) => {
  const { backend, catalogue, deps } = managers;
  const take = backend.snapshots.create.bind(backend.snapshots);
  const fail = async () => {
    t.mock.method(backend.snapshots, 'create', async (members: SnapshotMember[]) => {
      await take(members.slice(0, 1));
      throw CsiError.internal('died in the middle');
    });
    t.mock.method(backend.snapshots, 'delete', () => Promise.reject(new Error('the disk is away')));
    await refused(managers.groups.create(request()), 'INTERNAL', /middle/);
    t.mock.restoreAll();
    assert.equal((await catalogue.unfinished()).groups.length, 1);
  };
  await fail();
  const group = await managers.groups.create(request());
  assert.deepEqual([...backend.storage.snapshots.keys()], memberIds(group));
  await managers.groups.delete(group.group.groupSnapshotId, memberIds(group));
  await fail();
  // Also by a call that names other volumes: no caller has seen the group, so nothing can differ.
  const fewer = { ...request(), sourceVolumeIds: request().sourceVolumeIds.slice(1) };
  const other = await managers.groups.create(fewer);
  assert.deepEqual([...backend.storage.snapshots.keys()], memberIds(other));
  await managers.groups.delete(other.group.groupSnapshotId, memberIds(other));
  await fail();
  const { undone, differences } = await reconcile(deps);
  assert.deepEqual([undone.length, differences], [1, []]);
  await assertNothing();
});

test('CS15, DS3: a member cannot be deleted alone, and the error names its group', async () => {
  const group = await managers.groups.create(request());
  const { groupSnapshotId } = group.group;
  for (const snapshotId of memberIds(group)) {
    const alone = managers.snapshots.delete(snapshotId);
    await refused(alone, 'INVALID_ARGUMENT', new RegExp(groupSnapshotId));
  }
  assert.equal(managers.backend.storage.snapshots.size, 2);
});

test('GD3, GE3, GE5: ids other than those of the members are INVALID_ARGUMENT, and nothing is deleted', async () => {
  const group = await managers.groups.create(request());
  const own = memberIds(group);
  const alone = await managers.snapshot(volumes[0] as VolumeRecord);
  for (const wrong of [[], own.slice(1), [...own, alone.snapshotId], [own[0] ?? '', 'fake']]) {
    for (const rpc of ['delete', 'find'] as const) {
      const call = managers.groups[rpc](group.group.groupSnapshotId, wrong);
      await refused(call, 'INVALID_ARGUMENT', /snapshot_ids/);
    }
  }
  assert.equal((await managers.catalogue.listSnapshots()).length, 3);
});

test('GD4: no member is deleted while any member is being read', async () => {
  const group = await managers.groups.create(request());
  const { groupSnapshotId } = group.group;
  for (const snapshotId of memberIds(group)) {
    const release = managers.deps.locks.acquire([shared(snapshotKey(snapshotId))]);
    const deletion = managers.groups.delete(groupSnapshotId, memberIds(group));
    await refused(deletion, 'FAILED_PRECONDITION', new RegExp(snapshotId));
    release();
    assert.equal((await managers.groups.find(groupSnapshotId, memberIds(group))).members.length, 2);
    assert.equal(managers.backend.storage.snapshots.size, 2);
  }
});

test('GD4: a deletion is ABORTED, to be tried again, while the plugin itself makes the list of a member', async () => {
  const group = await managers.groups.create(request());
  const { groupSnapshotId } = group.group;
  const key = snapshotKey(memberIds(group)[0] ?? '');
  const release = managers.deps.locks.acquire([sharedByPlugin(key)]);
  const deletion = (): Promise<unknown> => managers.groups.delete(groupSnapshotId, memberIds(group));
  await refused(deletion(), 'ABORTED', /is pending; try again/);
  const stream = managers.deps.locks.acquire([shared(key)]);
  await refused(deletion(), 'FAILED_PRECONDITION', /is being read/);
  stream();
  release();
  await deletion();
});

test('GD5: a deletion that failed part way is completed by the next call, and until then the name is ABORTED', async () => {
  const group = await managers.groups.create(request());
  const { groupSnapshotId } = group.group;
  const { backend } = managers;
  const remove = backend.snapshots.delete.bind(backend.snapshots);
  backend.snapshots.delete = async (snapshotId) => {
    if (snapshotId === memberIds(group)[1]) throw CsiError.internal('the disk is away');
    await remove(snapshotId);
  };
  await refused(managers.groups.delete(groupSnapshotId, memberIds(group)), 'INTERNAL');
  backend.snapshots.delete = remove;
  await refused(managers.groups.create(request()), 'ABORTED', /being deleted/);
  const found = managers.groups.find(groupSnapshotId, memberIds(group));
  await refused(found, 'FAILED_PRECONDITION', /deletion has not completed/);
  for (const ids of [memberIds(group), memberIds(group).reverse()]) {
    await managers.groups.delete(groupSnapshotId, ids);
    await assertNothing();
  }
});
