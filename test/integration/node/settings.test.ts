/**
 * Mutable parameters on real devices; limits on pods in a simulated cgroup tree, because the machines that
 * run this may lack the io controller of cgroup v2. The guest tests write to a real io.max.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { majorOf, minorOf } from '../../../src/base/system/mountinfo.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { observeUse } from '../../../src/driver/health/use-observations.js';
import { applyBlockSettings } from '../../../src/driver/host/block-settings.js';
import { applyVolumeSettings } from '../../../src/driver/node/volume-settings.js';
import { viewVolume } from '../../../src/driver/usage/volume-view.js';
import { blockCapability, mountCapability } from '../../support/csi-client.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { useNode } from './node-fixture.js';

const node = useNode('node-settings');

const POD_UID = '1b0bb9c3-5a5e-4d3c-9b3e-0d5b7e8f9a01';
const POD = { 'csi.storage.k8s.io/pod.uid': POD_UID };
const CAPABILITIES = [mountCapability('ext4'), blockCapability()];
const SETTINGS = { readAheadKiB: '512', ioScheduler: 'mq-deadline', loopDirectIo: 'false' };

async function queueOf(volume: VolumeRecord): Promise<Record<string, string>> {
  const name = basename(await node.attachedPath(volume));
  const read = (path: string): string => readFileSync(`/sys/block/${name}/${path}`, 'utf8').trim();
  return {
    readAhead: read('queue/read_ahead_kb'),
    scheduler: /\[(.*)\]/.exec(read('queue/scheduler'))?.[1] ?? '',
    directIo: read('loop/dio'),
  };
}

async function tamper(volume: VolumeRecord): Promise<void> {
  const name = basename(await node.attachedPath(volume));
  writeFileSync(`/sys/block/${name}/queue/read_ahead_kb`, '64');
  writeFileSync(`/sys/block/${name}/queue/scheduler`, 'mq-deadline');
}

test('every NodeStageVolume applies the settings, which go with the device', async () => {
  for (const capability of CAPABILITIES) {
    const volume = await node.staged(capability, { mutableParameters: SETTINGS });
    const expected = { readAhead: '512', scheduler: 'mq-deadline', directIo: '0' };
    assert.deepEqual(await queueOf(volume), expected);
    const { attached } = await node.backend.statistics();
    assert.deepEqual(attached, { direct: 0, pageCache: 1 });
    await tamper(volume);
    await node.stage(volume, capability);
    assert.deepEqual(await queueOf(volume), expected);
    const file = `/sys/block/${basename(await node.attachedPath(volume))}/queue/scheduler`;
    await node.unstage(volume);
    assert.match(readFileSync(file, 'utf8'), /\[none\]/);
    await node.stage(volume, capability);
    assert.deepEqual(await queueOf(volume), expected);
    await node.unstage(volume);
  }
});

test("a volume without settings has the kernel's", async () => {
  const volume = await node.staged(blockCapability());
  const usual = await queueOf(volume);
  assert.equal(usual['scheduler'], 'none');
  assert.equal(usual['directIo'], '1');
  assert.deepEqual((await node.backend.statistics()).attached, { direct: 1, pageCache: 0 });
  await tamper(volume);
  await node.stage(volume, blockCapability());
  assert.deepEqual(await queueOf(volume), usual);
  await node.unstage(volume);
});

test('a change that asks for what the node cannot set is refused, and sets nothing', async () => {
  const volume = await node.staged(blockCapability());
  const usual = await queueOf(volume);
  const settings = { readAheadKiB: 256, ioScheduler: 'cfq', loopDirectIo: false };
  const refuse = (refusal: Error): never => {
    throw refusal;
  };
  const devicePath = await node.attachedPath(volume);
  const device = { devicePath, rdev: statSync(devicePath).rdev };
  const other = applyBlockSettings(node.native, device, settings, refuse);
  await refused(other, 'FAILED_PRECONDITION', /is not offered by this node's kernel.*none/);
  assert.deepEqual(await queueOf(volume), usual);
  // As on a pool without direct I/O: none is applied then.
  node.failing = { method: 'setLoopDirectIo', code: 'EINVAL' };
  const asked = { ...volume, mutableParameters: SETTINGS };
  const applied = applyVolumeSettings(node.deps, asked, ['loopDirectIo']);
  await refused(applied, 'FAILED_PRECONDITION', /loopDirectIo false cannot be set.*EINVAL/);
  assert.deepEqual(await queueOf(volume), usual);
  // Only what the change names is refused: the others are set as far as possible.
  await applyVolumeSettings(node.deps, asked, ['readAheadKiB']);
  node.failing = null;
  assert.deepEqual(await queueOf(volume), { ...usual, readAhead: '512', scheduler: 'mq-deadline' });
  await node.unstage(volume);
});

test('a volume whose settings the kernel refuses is staged, with a warning and a condition', async () => {
  for (const code of ['EINVAL', 'EIO']) {
    const volume = await node.makeVolume({ mutableParameters: SETTINGS });
    node.failing = { method: 'setLoopDirectIo', code };
    node.leftovers.length = 0;
    await node.stage(volume, blockCapability());
    const expected = { readAhead: '512', scheduler: 'mq-deadline', directIo: '1' };
    assert.deepEqual(await queueOf(volume), expected);
    assert.deepEqual(
      node.leftovers.map(({ volumeId }) => volumeId),
      [volume.volumeId],
    );
    assert.deepEqual(node.notes.at(-1), { directIo: true });
    const found = await observeUse(node.deps, await viewVolume(node.deps, volume));
    assert.deepEqual(found.settingsMissing, ['loopDirectIo false']);
    node.failing = null;
    // Repeated on another kernel, as it were.
    await node.stage(volume, blockCapability());
    const mended = await observeUse(node.deps, await viewVolume(node.deps, volume));
    assert.deepEqual(mended.settingsMissing, []);
    await node.unstage(volume);
  }
  const legacy = await node.staged(blockCapability(), { mutableParameters: { readAheadKiB: '513' } });
  const found = await observeUse(node.deps, await viewVolume(node.deps, legacy));
  assert.deepEqual(found.settingsMissing, [], 'rounded to whole pages');
  await node.unstage(legacy);
});

/** The pod's directory in a cgroup tree as the kubelet's systemd driver makes it. */
function makePod(controlled = true): string {
  const root = node.workspace.path('cgroup');
  rmSync(root, { recursive: true, force: true });
  const name = `kubepods-burstable-pod${POD_UID.replaceAll('-', '_')}.slice`;
  const pod = `${root}/kubepods.slice/kubepods-burstable.slice/${name}`;
  mkdirSync(pod, { recursive: true });
  writeFileSync(`${root}/cgroup.controllers`, 'cpu io memory');
  if (controlled) writeFileSync(`${pod}/io.max`, '');
  return `${pod}/io.max`;
}

async function deviceNumber(volume: VolumeRecord): Promise<string> {
  const { rdev } = statSync(await node.attachedPath(volume));
  return `${majorOf(rdev)}:${minorOf(rdev)}`;
}

test('the limits of a volume apply to its pod for as long as it is published', async () => {
  const mutableParameters = { readBytesPerSecond: '1048576', writeOperationsPerSecond: '100' };
  for (const capability of CAPABILITIES) {
    const ioMax = makePod();
    const volume = await node.staged(capability, { mutableParameters });
    const device = await deviceNumber(volume);
    for (let time = 0; time < 2; time += 1) {
      writeFileSync(ioMax, '');
      await node.publish(volume, capability, { volume_context: POD });
      const line = readFileSync(ioMax, 'utf8');
      assert.equal(line, `${device} rbps=1048576 wbps=max riops=max wiops=100`);
    }
    const [record] = await node.catalogue.publications(volume.volumeId);
    assert.equal(record?.podUid, POD_UID);
    writeFileSync(ioMax, '');
    await node.unpublish(volume);
    assert.equal(readFileSync(ioMax, 'utf8'), `${device} rbps=max wbps=max riops=max wiops=max`);
    await node.cleared(volume);
  }
});

test('a change of settings reaches the device and its pods, and can be reverted', async () => {
  const ioMax = makePod();
  const capability = mountCapability('ext4', 'SINGLE_NODE_MULTI_WRITER');
  const volume = await node.staged(capability);
  const device = await deviceNumber(volume);
  const usual = await queueOf(volume);
  const [named, unnamed] = [node.targetPath('named'), node.targetPath('unnamed')];
  await node.publish(volume, capability, { volume_context: POD, target_path: named });
  await node.publish(volume, capability, { target_path: unnamed });
  const mutableParameters = { readAheadKiB: '256', readOperationsPerSecond: '50' };
  await applyVolumeSettings(node.deps, { ...volume, mutableParameters }, []);
  assert.equal((await queueOf(volume))['readAhead'], '256');
  assert.equal(readFileSync(ioMax, 'utf8'), `${device} rbps=max wbps=max riops=50 wiops=max`);
  writeFileSync(ioMax, '');
  await applyVolumeSettings(node.deps, volume, []);
  assert.deepEqual(await queueOf(volume), usual);
  assert.equal(readFileSync(ioMax, 'utf8'), `${device} rbps=max wbps=max riops=max wiops=max`);
  await node.cleared(volume, named, unnamed);
  // Not attached: nothing to do, also where nothing could be done.
  await applyVolumeSettings(node.deps, { ...volume, mutableParameters }, []);
});

test('limits that cannot be lifted fail the change, but not the unpublication', async () => {
  const ioMax = makePod();
  const mutableParameters = { readBytesPerSecond: '4096' };
  const volume = await node.staged(blockCapability(), { mutableParameters });
  await node.publish(volume, blockCapability(), { volume_context: POD });
  rmSync(ioMax);
  mkdirSync(ioMax);
  const none = { readBytesPerSecond: 'max' };
  const lifted = applyVolumeSettings(node.deps, { ...volume, mutableParameters: none }, []);
  await refused(lifted, 'INTERNAL', /could not be lifted: EISDIR/);
  await node.cleared(volume, node.targetPath(volume.volumeId));
});

test('limits that cannot be set for a known pod fail the publication, and say why', async () => {
  const capability = mountCapability('ext4');
  const mutableParameters = { writeBytesPerSecond: '5000000' };
  const volume = await node.staged(capability, { mutableParameters });
  const publish = (): Promise<unknown> => node.publish(volume, capability, { volume_context: POD });
  makePod(false);
  await refused(publish(), 'FAILED_PRECONDITION', /io controller of cgroup v2/);
  rmSync(node.workspace.path('cgroup', 'kubepods.slice'), { recursive: true });
  await refused(publish(), 'FAILED_PRECONDITION', /has no cgroup of that pod/);
  rmSync(node.workspace.path('cgroup'), { recursive: true });
  const none = /is not a cgroup v2.*BLOCKDELTA_CGROUP_ROOT/;
  await refused(publish(), 'FAILED_PRECONDITION', none);
  assert.equal(node.held().mounts.length, 1, 'only the staging');
  assert.deepEqual(await node.catalogue.publications(volume.volumeId), []);
  // A pod that is not named cannot be limited, and one without limits needs no cgroup.
  await node.publish(volume, capability);
  await node.unpublish(volume);
  await node.catalogue.setMutableParameters(volume.volumeId, { writeBytesPerSecond: 'max' });
  await publish();
  await node.cleared(volume, node.targetPath(volume.volumeId));
});

test('a malformed uid never becomes a path', async () => {
  const volume = await node.staged();
  const publish = (volume_context: Record<string, string>) =>
    node.publish(volume, mountCapability(), { volume_context });
  for (const uid of ['../../etc', 'a/b', 'x'.repeat(65), 'a b', '.']) {
    const answer = publish({ 'csi.storage.k8s.io/pod.uid': uid });
    await refused(answer, 'INVALID_ARGUMENT', /not a uid of a pod/);
  }
  await publish({ ...POD, 'csi.storage.k8s.io/ephemeral': 'false' });
  await node.cleared(volume, node.targetPath(volume.volumeId));
});
