import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { VolumeRecord } from '../../../src/catalogue/records.js';
import { volumeKey } from '../../../src/volumes/operation-locks.js';
import { VolumeManager } from '../../../src/volumes/volume-manager.js';
import type { VolumeRequest } from '../../../src/volumes/volume-rules.js';
import { rejectsWith } from '../../support/expect-status.js';
import { BLOCK, MIB } from '../../support/records.js';
import { holdUp, type Managers, openManagers } from './manager-fixture.js';

let managers: Managers;
let volumes: VolumeManager;

beforeEach(async () => {
  managers = await openManagers();
  volumes = new VolumeManager(managers.deps);
});
afterEach(() => managers.close());

const request = (name: string, change: Partial<VolumeRequest> = {}): VolumeRequest => ({
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

test('a volume that is being cloned is locked until the clone exists', async () => {
  const source = await managers.volume();
  const { reached, go } = holdUp(managers.backend, 'cloneVolume');
  const clone = volumes.create(request('clone', { sourceVolumeId: source.volumeId }));
  await reached;
  await rejectsWith(volumes.delete(source.volumeId), 'ABORTED', /pending/);
  const range = { requiredBytes: 64n * MIB, limitBytes: 0n };
  await rejectsWith(volumes.expand(source.volumeId, range), 'ABORTED', /pending/);
  const again = volumes.create(request('clone', { sourceVolumeId: source.volumeId }));
  await rejectsWith(again, 'ABORTED');
  go();
  assert.equal((await clone).sourceVolumeId, source.volumeId);
  await volumes.delete(source.volumeId);
});

test('a copy awaits its growth if and only if it is larger than its source', async () => {
  const { volumeId: sourceVolumeId, sizeBytes } = await managers.volume();
  for (const more of [0n, 16n * MIB]) {
    const range = { requiredBytes: sizeBytes + more, limitBytes: 0n };
    const made = await volumes.create(request(`copy ${more}`, { sourceVolumeId, range }));
    assert.equal(made.awaitsGrowth, more > 0n);
  }
  const range = { requiredBytes: sizeBytes, limitBytes: 0n };
  assert.equal((await volumes.create(request('empty', { range }))).awaitsGrowth, false);
});

test('a volume that could not be rolled back is not handed out: the next call creates it anew', async () => {
  const source = await managers.volume();
  const { backend, deps } = managers;
  const spec = request('clone', { sourceVolumeId: source.volumeId });
  const { cloneVolume, deleteVolume } = backend;
  backend.cloneVolume = () => Promise.reject(new Error('dead'));
  backend.deleteVolume = () => Promise.reject(new Error('dead too'));
  await assert.rejects(volumes.create(spec), /dead/);
  const left = await deps.catalogue.volumeByName('clone');
  assert.equal(left?.state, 'creating');
  Object.assign(backend, { cloneVolume, deleteVolume });
  const made = await volumes.create(spec);
  assert.notEqual(made.volumeId, left?.volumeId);
  assert.equal(await deps.catalogue.volumeById(left?.volumeId ?? ''), null);
});

/** A clone whose creation was killed: its row, and incomplete storage in the pool. */
async function halfClone(name: string, source: VolumeRecord): Promise<VolumeRecord> {
  return managers.volume({ name, state: 'creating', sourceVolumeId: source.volumeId });
}

/** The sources of abandoned clones, which are thawed. */
function recordThaws(): string[] {
  const thawed: string[] = [];
  const { backend } = managers;
  const abandonClone = backend.abandonClone.bind(backend);
  backend.abandonClone = async (volumeId, sourceVolumeId) => {
    thawed.push(sourceVolumeId);
    await abandonClone(volumeId, sourceVolumeId);
  };
  return thawed;
}

test('an unfinished volume contradicts no request: it is rolled back and created anew', async () => {
  const range = { requiredBytes: 64n * MIB, limitBytes: 0n };
  const half = await managers.volume({ name: 'half', state: 'creating', sizeBytes: 32n * MIB });
  const made = await volumes.create(request('half', { range }));
  assert.deepEqual([made.sizeBytes, made.state], [64n * MIB, 'ready']);
  assert.equal(await managers.deps.catalogue.volumeById(half.volumeId), null);
  assert.deepEqual([...managers.backend.storage.volumes.keys()], [made.volumeId]);
  const other = volumes.create(request('half', { parameters: { mountOptions: 'noatime' } }));
  await rejectsWith(other, 'ALREADY_EXISTS', /parameters/);
});

test('an incomplete clone of an earlier process is rolled back and its source is thawed', async () => {
  const source = await managers.volume();
  const half = await halfClone('clone', source);
  const thawed = recordThaws();
  const made = await volumes.create(request('clone', { sourceVolumeId: source.volumeId }));
  assert.deepEqual(thawed, [source.volumeId]);
  assert.equal(await managers.deps.catalogue.volumeById(half.volumeId), null);
  assert.equal(made.sourceVolumeId, source.volumeId);
  // A request with another source, or none, also thaws the first one, once no operation uses it.
  await halfClone('empty', source);
  const release = managers.deps.locks.acquire([volumeKey(source.volumeId)]);
  const empty = request('empty', { range: { requiredBytes: 32n * MIB, limitBytes: 0n } });
  await rejectsWith(volumes.create(empty), 'ABORTED', /pending/);
  release();
  assert.equal((await volumes.create(empty)).sourceVolumeId, null);
  assert.deepEqual(thawed, [source.volumeId, source.volumeId]);
});

test('a failed clone thaws nothing: another process may have frozen its source', async () => {
  const source = await managers.volume();
  const thawed = recordThaws();
  managers.backend.cloneVolume = () => Promise.reject(new Error('frozen by somebody else'));
  const spec = request('clone', { sourceVolumeId: source.volumeId });
  await assert.rejects(volumes.create(spec), /frozen/);
  assert.deepEqual(thawed, []);
  assert.equal(await managers.deps.catalogue.volumeByName('clone'), null);
});

test('a copy of a volume that is larger than its record has the size of the volume', async () => {
  const source = await managers.volume({ sizeBytes: 32n * MIB });
  const { volumeId } = source;
  await managers.backend.expandVolume(volumeId, 48n * MIB);
  const clone = await volumes.create(request('clone', { sourceVolumeId: volumeId }));
  assert.equal(clone.sizeBytes, 48n * MIB);
  const range = { requiredBytes: 32n * MIB, limitBytes: 40n * MIB };
  const small = volumes.create(request('small', { sourceVolumeId: volumeId, range }));
  await rejectsWith(small, 'OUT_OF_RANGE', /50331648/);
  const snapshot = await managers.snapshots.create({
    name: 'snapshot',
    sourceVolumeId: volumeId,
    parameters: {},
  });
  assert.equal(snapshot.sizeBytes, 48n * MIB);
  const { snapshotId } = snapshot;
  const restored = await volumes.create(request('restored', { sourceSnapshotId: snapshotId }));
  assert.equal(restored.sizeBytes, 48n * MIB);
});

test('a copy of a volume that its pool calls initialized is never pristine, whatever the record says', async () => {
  const source = await managers.volume({ pristine: true });
  const { volumeId } = source;
  const cut = (name: string) =>
    managers.snapshots.create({ name, sourceVolumeId: volumeId, parameters: {} });
  const cutTwo = async (name: string) =>
    (await managers.groups.create({ name, sourceVolumeIds: [volumeId], parameters: {} })).members;
  const copies = async (suffix: string): Promise<boolean[]> => {
    const snapshot = await cut(`snapshot ${suffix}`);
    const { snapshotId } = snapshot;
    const members = await cutTwo(`group ${suffix}`);
    const made = [
      await volumes.create(request(`clone ${suffix}`, { sourceVolumeId: volumeId })),
      await volumes.create(request(`restored ${suffix}`, { sourceSnapshotId: snapshotId })),
    ];
    return [snapshot, ...members, ...made].map(({ pristine }) => pristine);
  };
  assert.deepEqual(await copies('before'), [true, true, true, true]);
  await managers.backend.markInitialized([volumeId]);
  assert.deepEqual(await copies('after'), [false, false, false, false]);
});

test('a volume that is larger than its record is recorded with its size, and refused where a limit is lower', async () => {
  for (const limitBytes of [32n * MIB, 0n]) {
    const { volumeId } = await managers.volume();
    await managers.backend.expandVolume(volumeId, 40n * MIB);
    const call = volumes.expand(volumeId, { requiredBytes: 32n * MIB, limitBytes });
    if (limitBytes === 0n) assert.equal((await call).sizeBytes, 40n * MIB);
    else await rejectsWith(call, 'OUT_OF_RANGE', /41943040/);
    assert.equal((await volumes.find(volumeId)).sizeBytes, 40n * MIB);
  }
});

test('topology is checked after the source and the size, and nothing is created', async () => {
  const topologyProblem = 'elsewhere';
  const gone = request('volume', { topologyProblem, sourceVolumeId: 'vol-gone' });
  await rejectsWith(volumes.create(gone), 'NOT_FOUND');
  const range = { requiredBytes: 1n << 50n, limitBytes: 0n };
  await rejectsWith(volumes.create(request('volume', { topologyProblem, range })), 'OUT_OF_RANGE');
  const call = volumes.create(request('volume', { topologyProblem }));
  await rejectsWith(call, 'RESOURCE_EXHAUSTED', /elsewhere/);
  assert.equal(managers.backend.storage.volumes.size, 0);
});

test('mutable parameters of the request take precedence over those of the class', async () => {
  const made = await volumes.create(
    request('volume', {
      parameters: { readAheadKiB: '64', loopDirectIo: 'false', mountOptions: 'noatime' },
      mutableParameters: { readAheadKiB: '256' },
    }),
  );
  const { mutableParameters, createdMutableParameters } = made satisfies VolumeRecord;
  assert.deepEqual(mutableParameters, { readAheadKiB: '256', loopDirectIo: 'false' });
  assert.deepEqual(createdMutableParameters, { readAheadKiB: '256' });
});
