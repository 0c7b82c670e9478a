/** Deleting snapshots with and without retaining a base, on an in-memory pool that retains bases. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SystemError } from '../../../src/base/errors.js';
import { SnapshotManager } from '../../../src/driver/volumes/snapshot-manager.js';
import { snapshotRecord } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { managersOfEachTest, openManagers, retainedBasesOf, started } from './manager-fixture.js';

const its = managersOfEachTest();

const retainedIds = async ({ catalogue } = its): Promise<string[]> =>
  (await catalogue.listRetainedBases('default'))
    .filter(({ invalidated }) => invalidated === null)
    .map(({ snapshotId }) => snapshotId);

test('a deleted snapshot is retained with its sequence, its size and its times', async () => {
  const volume = await its.volume();
  const snapshot = await its.snapshot(volume);
  await its.snapshots.delete(snapshot.snapshotId);
  await its.snapshots.delete(snapshot.snapshotId);
  assert.equal(await its.catalogue.snapshotById(snapshot.snapshotId), null);
  const retained = await its.catalogue.retainedBaseById(snapshot.snapshotId);
  assert.ok(retained !== null);
  const { deletedNs, ...others } = retained;
  assert.deepEqual(others, {
    snapshotId: snapshot.snapshotId,
    volumeId: volume.volumeId,
    pool: 'default',
    sequence: snapshot.sequence,
    sizeBytes: snapshot.sizeBytes,
    creationTimeNs: snapshot.creationTimeNs,
    storedBytes: 0n,
    invalidated: null,
    useful: true,
  });
  assert.ok(Math.abs(Number(deletedNs / 1_000_000n) - Date.now()) < 60_000);
  assert.deepEqual(its.log, []);
});

test('a kill between any two steps of a deletion ends with one base, by the next call or the next start', async (t) => {
  for (const finish of ['repeat', 'restart'] as const) {
    for (const at of ['retaining', 'deletion', 'row'] as const) {
      const its = await openManagers();
      const { snapshotId } = await its.snapshot(await its.volume());
      const killed = () => Promise.reject(new Error('killed'));
      if (at === 'deletion') t.mock.method(its.backend.snapshots, 'delete', killed);
      if (at === 'row') t.mock.method(its.catalogue, 'removeSnapshot', killed);
      // A base that cannot be retained fails no deletion, so a kill before it is simulated by the step before it alone.
      if (at === 'retaining') await its.catalogue.setSnapshotState(snapshotId, 'deleting');
      else await assert.rejects(its.snapshots.delete(snapshotId), /killed/);
      t.mock.restoreAll();
      if (finish === 'repeat') await its.snapshots.delete(snapshotId);
      else {
        const { report } = await started(its);
        assert.deepEqual(report.finished, [`deletion of snapshot ${snapshotId}`]);
        assert.deepEqual(report.differences, []);
      }
      assert.deepEqual(await retainedIds(its), [snapshotId]);
      assert.deepEqual([...its.backend.storage.bases.keys()], [snapshotId]);
      assert.equal(its.backend.storage.snapshots.size, 0);
      await its.close();
    }
  }
});

test('a snapshot that cannot be retained is deleted all the same, and the reason is logged and recorded', async () => {
  const { snapshotId } = await its.snapshot(await its.volume());
  its.backend.bases.retain = async () => {
    throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  };
  await its.snapshots.delete(snapshotId);
  assert.equal(its.backend.storage.snapshots.size, 0);
  const record = await its.catalogue.retainedBaseById(snapshotId);
  assert.match(record?.invalidated?.reason ?? '', /could not be retained .*: no space left/);
  const [line] = its.log;
  assert.deepEqual([its.log.length, line?.['level'], line?.['snapshotId']], [1, 'warn', snapshotId]);
});

test('the reason why nothing was retained names what failed, also where no code stands for it', async () => {
  const volume = await its.volume();
  const path = '/pool/lists/snap-1.to.snap-2';
  const said = `fsync ${path}: Input/output error`;
  for (const thrown of [new SystemError('EIO', 'fsync', path, said), new Error(said)]) {
    const { snapshotId } = await its.snapshot(volume);
    its.backend.bases.retain = () => Promise.reject(thrown);
    await its.snapshots.delete(snapshotId);
    const found = await its.catalogue.retainedBaseById(snapshotId);
    assert.equal(found?.invalidated?.reason, `it could not be retained when it was deleted: ${said}`);
    assert.equal(its.log.at(-1)?.['reason'], said);
  }
});

test('a deletion is ABORTED while each later snapshot is deleted before its turn, and completes when repeated', async (t) => {
  const { snapshotId, ...placed } = await its.snapshot(await its.volume());
  let looks = 0;
  t.mock.method(its.catalogue, 'snapshotAfter', async () => {
    looks += 1;
    return { ...placed, snapshotId: `later-${looks}` };
  });
  await refused(
    its.snapshots.delete(snapshotId),
    'ABORTED',
    /is not deleted: .* later snapshots of volume .* try again/,
  );
  t.mock.restoreAll();
  await its.snapshots.delete(snapshotId);
  assert.deepEqual(await retainedIds(), [snapshotId]);
});

test('a count of 0 retains nothing, and removes existing bases', async () => {
  const { catalogue, backend, snapshots, deps } = its;
  const volume = await its.volume();
  const first = await its.snapshot(volume);
  await snapshots.delete(first.snapshotId);
  const second = await its.snapshot(volume);
  const retainedBases = retainedBasesOf(catalogue, { perVolume: 0 });
  await new SnapshotManager({ ...deps, retainedBases }).delete(second.snapshotId);
  assert.equal(backend.storage.bases.size, 0);
  const never = await catalogue.retainedBaseById(second.snapshotId);
  assert.match(never?.invalidated?.reason ?? '', /deleted: .*BLOCKDELTA_RETAINED_BASES_COUNT/);
  const lost = (await catalogue.retainedBaseById(first.snapshotId))?.invalidated;
  assert.match(lost?.reason ?? '', /BLOCKDELTA_RETAINED_BASES_COUNT/);
});

test('the bases of a volume are removed without a log line when it and all later snapshots are gone', async () => {
  const volume = await its.volume();
  const first = await its.snapshot(volume);
  const second = await its.snapshot(volume);
  const third = await its.snapshot(volume);
  await its.snapshots.delete(second.snapshotId);
  await its.snapshots.delete(first.snapshotId);
  await its.volumes.delete(volume.volumeId);
  assert.deepEqual(await retainedIds(), [first.snapshotId, second.snapshotId]);
  await its.snapshots.delete(third.snapshotId);
  assert.deepEqual(await its.catalogue.listRetainedBases('default'), []);
  assert.equal(its.backend.storage.bases.size, 0);
  assert.deepEqual(its.log, []);
});

test('a base that the pool has lost is logged once with its reason, and dropped there', async () => {
  const { snapshotId, volumeId } = await its.snapshot(await its.volume());
  await its.snapshots.delete(snapshotId);
  its.backend.storage.invalidatedBases.set(snapshotId, 'the pool was repaired');
  await started(its);
  await started(its);
  assert.deepEqual(its.backend.bases.all(), { usable: [], invalidated: [] });
  const record = await its.catalogue.retainedBaseById(snapshotId);
  assert.equal(record?.invalidated?.reason, 'the pool was repaired');
  assert.equal(its.log.length, 1);
  const { level, reason, volumeId: of } = its.log[0] ?? {};
  assert.deepEqual([level, reason, of], ['warn', 'the pool was repaired', volumeId]);
});

test('a start drops bases without a record, and invalidates records without a base', async () => {
  const volume = await its.volume();
  const [unknown, missing] = [await its.snapshot(volume), await its.snapshot(volume)];
  await its.backend.bases.retain(unknown.snapshotId, null);
  await its.backend.snapshots.delete(unknown.snapshotId);
  await its.catalogue.removeSnapshot(unknown.snapshotId, null);
  await its.snapshots.delete(missing.snapshotId);
  await started(its);
  assert.deepEqual([...its.backend.storage.bases.keys()], [missing.snapshotId]);
  await its.backend.bases.drop(missing.snapshotId);
  assert.deepEqual((await started(its)).report.differences, []);
  assert.deepEqual(await retainedIds(), []);
  assert.match(String(its.log.at(-1)?.['reason']), /no longer holds/);
});

test('a start drops no base of a catalogue that has lost rows', async () => {
  const { snapshotId } = await its.snapshot(await its.volume());
  await its.backend.bases.retain(snapshotId, null);
  await its.backend.snapshots.delete(snapshotId);
  await its.catalogue.removeSnapshot(snapshotId, null);
  await started(its, true);
  assert.deepEqual([...its.backend.storage.bases.keys()], [snapshotId]);
  await started(its);
  assert.deepEqual([...its.backend.storage.bases.keys()], []);
});

test('a start reports a snapshot that has not the size of its record, and changes nothing', async () => {
  const { snapshotId, sizeBytes } = await its.snapshot(await its.volume());
  const content = its.backend.storage.snapshots.get(snapshotId);
  assert.ok(content !== undefined);
  content.sizeBytes = 1n;
  const { reviewed } = await started(its);
  const found = [`pool 'default': ${snapshotId} has 1 bytes and should have ${sizeBytes}`];
  assert.deepEqual([reviewed[0]?.['level'], reviewed[0]?.['differences']], ['warn', found]);
  assert.equal((await its.catalogue.snapshotById(snapshotId))?.sizeBytes, sizeBytes);
});

test('a pool that cannot list its bases fails no deletion, and the failure is logged', async () => {
  const { snapshotId } = await its.snapshot(await its.volume());
  its.backend.bases.all = () => {
    throw new Error('the disk is away');
  };
  await its.snapshots.delete(snapshotId);
  assert.equal(its.log[0]?.['level'], 'warn');
  const { reviewed } = await started(its);
  const { level, pool, err } = reviewed[0] ?? {};
  assert.deepEqual([level, pool], ['warn', 'default']);
  assert.match(JSON.stringify(err), /the disk is away/);
});

test('a deletion looks at the bases of its volume alone; the pool is reviewed when it is due', async (t) => {
  const [volume, other] = [await its.volume(), await its.volume()];
  const lost = await its.snapshot(other);
  await its.snapshots.delete(lost.snapshotId);
  its.backend.storage.invalidatedBases.set(lost.snapshotId, 'the pool was repaired');
  const list = t.mock.method(its.catalogue, 'listRetainedBases');
  const deleted = await its.snapshot(volume);
  await its.snapshots.delete(deleted.snapshotId);
  await its.volumes.delete(volume.volumeId);
  assert.equal(list.mock.callCount(), 0);
  assert.deepEqual(await retainedIds(), [lost.snapshotId]);
  const { retainedBases } = its.deps;
  await retainedBases.reviewIfDue(its.backend);
  assert.deepEqual(await retainedIds(), []);
  const looks = list.mock.callCount();
  await retainedBases.reviewIfDue(its.backend);
  assert.equal(list.mock.callCount(), looks);
});

test('a snapshot whose creation was not completed is deleted without a base', async () => {
  const volume = await its.volume();
  const half = snapshotRecord(volume, { state: 'deleting', creationTimeNs: 0n });
  await its.catalogue.insertSnapshot(half);
  await its.backend.snapshots.create([half]);
  await its.snapshots.delete(half.snapshotId);
  assert.equal(await its.catalogue.retainedBaseById(half.snapshotId), null);
});

test('members of a deleted group are retained as single snapshots are', async () => {
  const volumes = [await its.volume(), await its.volume()];
  const sourceVolumeIds = volumes.map(({ volumeId }) => volumeId);
  const { group, members } = await its.groups.create({ name: 'group', sourceVolumeIds, parameters: {} });
  const ids = members.map(({ snapshotId }) => snapshotId);
  const remove = its.backend.snapshots.delete.bind(its.backend.snapshots);
  its.backend.snapshots.delete = async (snapshotId) => {
    if (snapshotId === ids[1]) throw new Error('killed');
    return remove(snapshotId);
  };
  await assert.rejects(its.groups.delete(group.groupSnapshotId, ids), /killed/);
  its.backend.snapshots.delete = remove;
  await its.groups.delete(group.groupSnapshotId, ids);
  assert.deepEqual(await retainedIds(), ids);
  await refused(its.groups.find(group.groupSnapshotId, ids), 'NOT_FOUND');
});
