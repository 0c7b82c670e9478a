import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { volumeKey } from '../../../src/driver/volumes/operation-locks.js';
import { readyVolume } from '../../../src/driver/volumes/ready-volume.js';
import type { VolumeRequest } from '../../../src/driver/volumes/volume-rules.js';
import { BLOCK, MIB } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { holdUp, managersOfEachTest } from './manager-fixture.js';

const managers = managersOfEachTest();

/** A block volume of the default size, unless `change` says otherwise. */
const create = (name: string, change: Partial<VolumeRequest> = {}): Promise<VolumeRecord> =>
  managers.volumes.create({
    name,
    range: null,
    capabilities: [BLOCK],
    parameters: {},
    mutableParameters: {},
    sourceSnapshotId: null,
    sourceVolumeId: null,
    topologyProblem: null,
    ...change,
  });
const rangeOf = (requiredBytes: bigint, limitBytes = 0n) => ({ requiredBytes, limitBytes });

test('a volume that is being cloned is locked until the clone exists', async () => {
  const source = await managers.volume();
  const { reached, go } = holdUp(managers.backend.volumes);
  const clone = create('clone', { sourceVolumeId: source.volumeId });
  await reached;
  await refused(managers.volumes.delete(source.volumeId), 'ABORTED', /pending/);
  const expansion = managers.volumes.expand(source.volumeId, rangeOf(64n * MIB));
  await refused(expansion, 'ABORTED', /pending/);
  const again = create('clone', { sourceVolumeId: source.volumeId });
  await refused(again, 'ABORTED');
  go();
  assert.equal((await clone).sourceVolumeId, source.volumeId);
  await managers.volumes.delete(source.volumeId);
});

test('a copy awaits its growth if and only if it is larger than its source', async () => {
  const { volumeId: sourceVolumeId, sizeBytes } = await managers.volume();
  for (const more of [0n, 16n * MIB]) {
    const range = rangeOf(sizeBytes + more);
    const made = await create(`copy ${more}`, { sourceVolumeId, range });
    assert.equal(made.awaitsGrowth, more > 0n);
  }
  assert.equal((await create('empty', { range: rangeOf(sizeBytes) })).awaitsGrowth, false);
});

test('a volume that could not be rolled back is not handed out: the next call creates it anew', async (t) => {
  const source = await managers.volume();
  const { backend, catalogue } = managers;
  const clone = () => create('clone', { sourceVolumeId: source.volumeId });
  t.mock.method(backend.volumes, 'create', () => Promise.reject(new Error('dead')));
  t.mock.method(backend.volumes, 'delete', () => Promise.reject(new Error('dead too')));
  await assert.rejects(clone(), /dead/);
  const left = await catalogue.volumeByName('clone');
  assert.equal(left?.state, 'creating');
  t.mock.restoreAll();
  const made = await clone();
  assert.notEqual(made.volumeId, left?.volumeId);
  assert.equal(await catalogue.volumeById(left?.volumeId ?? ''), null);
});

/** The volumes that were thawed, by id. */
function recordThaws(): () => string[] {
  const { mock: record } = mock.method(managers.backend.volumes, 'thaw');
  return () => record.calls.map(({ arguments: [volumeId] }) => volumeId);
}

test('an unfinished volume contradicts no request: it is rolled back and created anew', async () => {
  const half = await managers.interrupted({ name: 'half', sizeBytes: 32n * MIB });
  const made = await create('half', { range: rangeOf(64n * MIB) });
  assert.deepEqual([made.sizeBytes, made.state], [64n * MIB, 'ready']);
  assert.equal(await managers.catalogue.volumeById(half.volumeId), null);
  assert.deepEqual([...managers.backend.storage.volumes.keys()], [made.volumeId]);
  const other = create('half', { parameters: { mountOptions: 'noatime' } });
  await refused(other, 'ALREADY_EXISTS', /parameters/);
});

test('a volume that the pool holds complete is what an interrupted call has made, and the request is compared with it', async () => {
  const made = await managers.volume({ name: 'made', state: 'creating', sizeBytes: 32n * MIB });
  const range = rangeOf(made.sizeBytes);
  const other = create('made', { range, parameters: { mountOptions: 'noatime' } });
  await refused(other, 'ALREADY_EXISTS', /parameters/);
  const { parameters, capabilities } = made;
  const found = await create('made', { range, parameters, capabilities });
  assert.deepEqual([found.volumeId, found.state], [made.volumeId, 'ready']);
});

test('an incomplete clone of an earlier process is rolled back and its source is thawed', async () => {
  const source = await managers.volume();
  const interrupted = (name: string) => managers.interrupted({ name, sourceVolumeId: source.volumeId });
  const half = await interrupted('clone');
  const thawed = recordThaws();
  const made = await create('clone', { sourceVolumeId: source.volumeId });
  assert.deepEqual(thawed(), [source.volumeId]);
  assert.equal(await managers.catalogue.volumeById(half.volumeId), null);
  assert.equal(made.sourceVolumeId, source.volumeId);
  // A request with another source, or none, also thaws the first one, once no operation uses it.
  await interrupted('empty');
  const release = managers.deps.locks.acquire([volumeKey(source.volumeId)]);
  const empty = () => create('empty', { range: rangeOf(32n * MIB) });
  await refused(empty(), 'ABORTED', /pending/);
  release();
  assert.equal((await empty()).sourceVolumeId, null);
  assert.deepEqual(thawed(), [source.volumeId, source.volumeId]);
});

test('a failed clone thaws nothing: another process may have frozen its source', async () => {
  const source = await managers.volume();
  const thawed = recordThaws();
  managers.backend.volumes.create = () => Promise.reject(new Error('frozen by somebody else'));
  const clone = () => create('clone', { sourceVolumeId: source.volumeId });
  await assert.rejects(clone(), /frozen/);
  assert.deepEqual(thawed(), []);
  assert.equal(await managers.catalogue.volumeByName('clone'), null);
});

test('a copy of a volume that is larger than its record has the size of the volume', async () => {
  const source = await managers.volume({ sizeBytes: 32n * MIB });
  const { volumeId } = source;
  await managers.backend.volumes.expand(volumeId, 48n * MIB);
  const clone = await create('clone', { sourceVolumeId: volumeId });
  assert.equal(clone.sizeBytes, 48n * MIB);
  const range = rangeOf(32n * MIB, 40n * MIB);
  const small = create('small', { sourceVolumeId: volumeId, range });
  await refused(small, 'OUT_OF_RANGE', /50331648/);
  const snapshot = await managers.snapshot(source);
  assert.equal(snapshot.sizeBytes, 48n * MIB);
  const { snapshotId } = snapshot;
  const restored = await create('restored', { sourceSnapshotId: snapshotId });
  assert.equal(restored.sizeBytes, 48n * MIB);
});

test('a copy of a volume that its pool calls initialized is never pristine, whatever the record says', async () => {
  const source = await managers.volume({ pristine: true });
  const { volumeId } = source;
  const copies = async (suffix: string): Promise<boolean[]> => {
    const snapshot = await managers.snapshot(source);
    const { snapshotId } = snapshot;
    const group = { name: `group ${suffix}`, sourceVolumeIds: [volumeId], parameters: {} };
    const { members } = await managers.groups.create(group);
    const made = [
      await create(`clone ${suffix}`, { sourceVolumeId: volumeId }),
      await create(`restored ${suffix}`, { sourceSnapshotId: snapshotId }),
    ];
    return [snapshot, ...members, ...made].map(({ pristine }) => pristine);
  };
  assert.deepEqual(await copies('before'), [true, true, true, true]);
  await managers.backend.marks.set([volumeId]);
  assert.deepEqual(await copies('after'), [false, false, false, false]);
});

test('a volume that is larger than its record is recorded with its size, and refused where a limit is lower', async () => {
  for (const limitBytes of [32n * MIB, 0n]) {
    const { volumeId } = await managers.volume();
    await managers.backend.volumes.expand(volumeId, 40n * MIB);
    const call = managers.volumes.expand(volumeId, rangeOf(32n * MIB, limitBytes));
    if (limitBytes === 0n) assert.equal((await call).sizeBytes, 40n * MIB);
    else await refused(call, 'OUT_OF_RANGE', /41943040/);
    assert.equal((await readyVolume(managers.catalogue, volumeId)).sizeBytes, 40n * MIB);
  }
});

test('mutable parameters of the request take precedence over those of the class', async () => {
  const made = await create('volume', {
    parameters: { readAheadKiB: '64', loopDirectIo: 'false', mountOptions: 'noatime' },
    mutableParameters: { readAheadKiB: '256' },
  });
  const { mutableParameters, createdMutableParameters } = made satisfies VolumeRecord;
  assert.deepEqual(mutableParameters, { readAheadKiB: '256', loopDirectIo: 'false' });
  assert.deepEqual(createdMutableParameters, { readAheadKiB: '256' });
});

test('a snapshot that awaits its copy is no source, and its name is taken with that copy only', async () => {
  const { volumeId } = await managers.volume();
  const wanted = { name: 'copied', sourceVolumeId: volumeId, parameters: { copies: '1' } };
  await refused(managers.snapshots.create(wanted), 'ABORTED', /try again/);
  const snapshot = await managers.snapshots.create({ ...wanted, copyNodeId: 'b' });
  assert.deepEqual(await managers.snapshots.create(wanted), snapshot);
  await refused(managers.snapshots.create({ ...wanted, parameters: {} }), 'ALREADY_EXISTS', /with copies '1'/);
  const { snapshotId } = snapshot;
  await refused(
    create('clone', { sourceSnapshotId: snapshotId }),
    'ABORTED',
    /not ready until another node has its copy/,
  );
  const [copy] = await managers.catalogue.unsettledCopies();
  assert.deepEqual([copy?.nodeId, copy?.state], ['b', 'pending']);
  await managers.catalogue.copyKept(copy?.promiseId ?? '');
  assert.equal((await create('clone', { sourceSnapshotId: snapshotId })).state, 'ready');
});
