import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { newGroupSnapshotId } from '../../../src/base/csi/handles.js';
import { CsiError } from '../../../src/base/errors.js';
import { BackendRegistry } from '../../../src/driver/backends/registry.js';
import type { OpenCatalogue } from '../../../src/driver/catalogue/catalogue-client.js';
import type { SnapshotRecord, SnapshotState, VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { claimPool, reconcile } from '../../../src/driver/volumes/reconcile.js';
import type { MemoryBackend, MemoryStorage } from '../../backend/memory-backend.js';
import { snapshotRecord, TEST_NODE_KEY, volumeRecord } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { type Managers, managersOfEachTest } from './manager-fixture.js';

const managers = managersOfEachTest();
let deps: Managers['deps'];
let catalogue: OpenCatalogue;
let backend: MemoryBackend;
let storage: MemoryStorage;
let volume: Managers['volume'];
let interrupted: Managers['interrupted'];

beforeEach(() => {
  ({ deps, catalogue, backend, volume, interrupted } = managers);
  ({ storage } = backend);
});

/** A group snapshot of the volumes, in the catalogue and in the pool. */
async function group(of: readonly VolumeRecord[], state: SnapshotState): Promise<SnapshotRecord[]> {
  const groupSnapshotId = newGroupSnapshotId(TEST_NODE_KEY);
  const fields = { groupSnapshotId, name: 'group', state, creationTimeNs: 0n, parameters: {} };
  const members = await catalogue.insertGroup(
    fields,
    of.map((each) => snapshotRecord(each, { name: null, groupSnapshotId, state })),
  );
  await backend.snapshots.create(members);
  return members;
}

const nothing = { finished: [], undone: [], differences: [] };

test('a volume larger than its record keeps its size, and its device follows', async () => {
  const grown = await volume();
  await backend.volumes.expand(grown.volumeId, grown.sizeBytes * 2n);
  const { mock: asked } = mock.method(backend.volumes, 'expand');
  const report = await reconcile(deps);
  const sizeBytes = grown.sizeBytes * 2n;
  const finished = [`expansion of volume ${grown.volumeId} to ${sizeBytes} bytes`];
  assert.deepEqual(report, { ...nothing, finished });
  assert.deepEqual(
    asked.calls.map((call) => call.arguments),
    [[grown.volumeId, sizeBytes]],
  );
  assert.equal((await catalogue.volumeById(grown.volumeId))?.sizeBytes, sizeBytes);
  assert.deepEqual(await reconcile(deps), nothing);
});

test('a clone that was being created is rolled back, and its source is usable', async () => {
  const source = await volume();
  const half = await interrupted({ sourceVolumeId: source.volumeId });
  const { mock: thawed } = mock.method(backend.volumes, 'thaw');
  const report = await reconcile(deps);
  assert.deepEqual(report, { ...nothing, undone: [`volume ${half.volumeId}`] });
  assert.equal(thawed.calls[0]?.arguments[0], source.volumeId);
  assert.deepEqual([...storage.volumes.keys()], [source.volumeId]);
});

test('H30: what the pool holds complete is completed: the catalogue may be a copy that was taken during the call', async () => {
  const source = await volume();
  const clone = await volume({ state: 'creating', sourceVolumeId: source.volumeId });
  const grown = await volume({ state: 'creating' });
  await backend.volumes.expand(grown.volumeId, grown.sizeBytes * 2n);
  const single = await catalogue.insertSnapshot(snapshotRecord(source, { state: 'creating' }));
  await backend.snapshots.create([single]);
  const members = await group([source, grown], 'creating');
  const [member] = members as [SnapshotRecord];
  const { mock: thawed } = mock.method(backend.volumes, 'thaw');
  const report = await reconcile(deps);
  assert.deepEqual(report, {
    ...nothing,
    finished: [
      `creation of group snapshot ${member.groupSnapshotId}`,
      `creation of snapshot ${single.snapshotId}`,
      `creation of volume ${clone.volumeId}`,
      `creation of volume ${grown.volumeId}`,
      `expansion of volume ${grown.volumeId} to ${grown.sizeBytes * 2n} bytes`,
    ],
  });
  assert.ok(thawed.calls.every((call) => call.arguments[0] !== clone.volumeId));
  assert.equal(thawed.callCount(), 4);
  for (const { snapshotId } of [single, ...members]) {
    const found = await catalogue.snapshotById(snapshotId);
    const sizeBytes = storage.snapshots.get(snapshotId)?.sizeBytes;
    assert.deepEqual([found?.state, found?.sizeBytes], ['ready', sizeBytes]);
    assert.equal(found?.creationTimeNs, single.creationTimeNs);
  }
  assert.equal((await catalogue.groupById(member.groupSnapshotId ?? ''))?.state, 'ready');
  assert.deepEqual(await reconcile(deps), nothing);
});

test('a snapshot that is too small, or is no longer what was taken, is rolled back', async () => {
  const source = await volume();
  for (const damage of ['size', 'content']) {
    const half = await catalogue.insertSnapshot(snapshotRecord(source, { state: 'creating' }));
    await backend.snapshots.create([half]);
    const content = storage.snapshots.get(half.snapshotId);
    assert.ok(content !== undefined);
    if (damage === 'size') content.sizeBytes = 1n;
    else {
      mock.method(backend.snapshots, 'check', () => Promise.reject(CsiError.failedPrecondition('it was written to')));
    }
    const report = await reconcile(deps);
    assert.deepEqual(report, { ...nothing, undone: [`snapshot ${half.snapshotId}`] });
    assert.equal(storage.snapshots.size, 0);
  }
});

test('a snapshot that cannot be looked at now keeps its row and its storage', async () => {
  const source = await volume();
  const half = await catalogue.insertSnapshot(snapshotRecord(source, { state: 'creating' }));
  await backend.snapshots.create([half]);
  const broken = Object.assign(new Error('input/output error'), { code: 'EIO' });
  mock.method(backend.snapshots, 'check', () => Promise.reject(broken));
  const { differences } = await reconcile(deps);
  assert.equal(differences.length, 1);
  assert.equal((await catalogue.snapshotById(half.snapshotId))?.state, 'creating');
  assert.ok(storage.snapshots.has(half.snapshotId));
});

test('all volumes of a group that was being taken are thawed before the first member is removed', async () => {
  const members = await group([await volume(), await volume()], 'creating');
  storage.snapshots.delete(members[1]?.snapshotId ?? '');
  const calls: string[] = [];
  const { delete: remove } = backend.snapshots;
  backend.volumes.thaw = async (volumeId) => void calls.push(volumeId);
  backend.snapshots.delete = async (snapshotId) => {
    calls.push(snapshotId);
    await remove(snapshotId);
  };
  await reconcile(deps);
  const expected = [...members.map(({ volumeId }) => volumeId), ...members.map(({ snapshotId }) => snapshotId)];
  assert.deepEqual(calls, expected);
});

test('the deletion of a group is completed, with the lineage of its volumes', async () => {
  const of = [await volume(), await volume()];
  const members = await group(of, 'ready');
  const [{ volumeId, snapshotId, groupSnapshotId }] = members as [SnapshotRecord];
  await backend.volumes.delete(volumeId);
  await catalogue.removeVolume(volumeId);
  await catalogue.setGroupState(groupSnapshotId ?? '', 'deleting');
  await backend.snapshots.delete(snapshotId);
  const report = await reconcile(deps);
  const finished = [`deletion of group snapshot ${groupSnapshotId}`];
  assert.deepEqual(report, { ...nothing, finished });
  assert.equal(storage.snapshots.size, 0);
  assert.equal(await catalogue.volumeById(volumeId), null);
  assert.deepEqual(await reconcile(deps), nothing);
});

test('a group that cannot be settled keeps all its members, and they are not reported as unknown', async () => {
  const members = await group([await volume(), await volume()], 'deleting');
  backend.snapshots.delete = async () => {
    throw CsiError.failedPrecondition('held by somebody');
  };
  const { differences } = await reconcile(deps);
  const id = members[0]?.groupSnapshotId;
  assert.deepEqual(differences, [`group snapshot ${id} is unfinished: held by somebody`]);
  assert.equal((await catalogue.snapshotsOfGroup(id ?? '')).length, 2);
});

test('missing, unknown and foreign objects and wrong sizes are reported and never changed', async () => {
  const lost = await volume();
  storage.volumes.delete(lost.volumeId);
  const resized = await volume();
  const gone = await managers.snapshot(resized);
  storage.snapshots.delete(gone.snapshotId);
  const content = storage.volumes.get(resized.volumeId);
  assert.ok(content !== undefined);
  content.sizeBytes = 1n;
  const strange = volumeRecord();
  await backend.volumes.create(strange.volumeId, strange.sizeBytes);
  storage.foreign.add('/pool/volumes/readme.txt');
  const report = await reconcile(deps);
  assert.deepEqual([report.finished, report.undone], [[], []]);
  assert.deepEqual(
    report.differences.sort(),
    [
      `pool 'default' has lost ${lost.volumeId}`,
      `pool 'default': ${resized.volumeId} has 1 bytes and should have ${resized.sizeBytes}`,
      `pool 'default' holds ${strange.volumeId}, which the catalogue does not know`,
      `pool 'default' has lost ${gone.snapshotId}`,
      "pool 'default' holds /pool/volumes/readme.txt, which blockdelta did not create",
    ].sort(),
  );
  assert.ok(storage.volumes.has(strange.volumeId));
  assert.ok((await catalogue.volumeById(lost.volumeId)) !== null);
});

test('a pool with another identity is refused, and a new pool is registered', async () => {
  await claimPool(catalogue, 'default', storage.identity);
  await refused(claimPool(catalogue, 'default', 'memory-pool-4'), 'FAILED_PRECONDITION', /mounted/);
  await claimPool(catalogue, 'third', 'memory-pool-3');
  assert.equal(await catalogue.poolUuid('third'), 'memory-pool-3');
});

test('unfinished objects of a pool that could not be started are reported and left for the next start', async () => {
  const failure = CsiError.failedPrecondition("pool 'default' could not be started");
  const half = await volume({ state: 'creating' });
  const registry = new BackendRegistry([{ pool: 'default', failure }, managers.second]);
  const report = await reconcile({ ...deps, registry });
  assert.deepEqual(report.differences, [`volume ${half.volumeId} is unfinished: pool 'default' could not be started`]);
  assert.deepEqual([report.finished, report.undone], [[], []]);
  assert.ok(storage.volumes.has(half.volumeId));
  assert.equal((await catalogue.volumeById(half.volumeId))?.state, 'creating');
});

test('a pool that comes later is reconciled alone: what is being created in the others is left alone', async () => {
  const inProgress = await volume({ state: 'creating' });
  const half = await interrupted({ pool: 'second' });
  const registry = new BackendRegistry([managers.second]);
  const report = await reconcile({ ...deps, registry, pool: 'second' });
  assert.deepEqual(report, { ...nothing, undone: [`volume ${half.volumeId}`] });
  assert.ok(storage.volumes.has(inProgress.volumeId));
  assert.equal((await catalogue.volumeById(inProgress.volumeId))?.state, 'creating');
});

test('an unfinished object that cannot be settled does not prevent the others from being settled', async () => {
  const stuck = await interrupted();
  const half = await interrupted();
  const deleteVolume = backend.volumes.delete.bind(backend.volumes);
  backend.volumes.delete = async (volumeId) => {
    if (volumeId === stuck.volumeId) throw CsiError.failedPrecondition('held by somebody');
    await deleteVolume(volumeId);
  };
  const report = await reconcile(deps);
  assert.deepEqual(report.undone, [`volume ${half.volumeId}`]);
  assert.deepEqual(report.differences, [`volume ${stuck.volumeId} is unfinished: held by somebody`]);
  assert.equal((await catalogue.volumeById(stuck.volumeId))?.state, 'creating');
});

test('a marked volume that was being created and is gone is reported as lost, and only then loses its mark', async () => {
  const { volumeId } = await interrupted();
  storage.used.add(volumeId);
  await backend.start();
  assert.deepEqual(await reconcile(deps), {
    finished: [`creation of volume ${volumeId}`],
    undone: [],
    differences: [`pool 'default' has lost ${volumeId}`],
  });
  assert.equal(await backend.marks.has(volumeId), false);
});

test('initialized volumes without a mark in their pool get one, pristine volumes do not', async () => {
  const used = await volume({ pristine: false });
  const pristine = await volume({ pristine: true });
  await catalogue.insertVolume(volumeRecord({ pristine: false, name: 'without a file' }));
  assert.equal(await backend.marks.has(used.volumeId), false);
  await reconcile(deps);
  assert.equal(await backend.marks.has(used.volumeId), true);
  assert.equal(await backend.marks.has(pristine.volumeId), false);
});

test('a pool that fails does not prevent the others from being reconciled', async () => {
  backend.list = async () => {
    throw CsiError.failedPrecondition('the disk is read-only');
  };
  const swept = new Map([['second', ['left.tmp']]]);
  const report = await reconcile({ ...deps, swept });
  assert.deepEqual(report.differences, ["pool 'default' is unfinished: the disk is read-only"]);
  assert.deepEqual(report.undone, ["temporary file left.tmp in pool 'second'"]);
});
