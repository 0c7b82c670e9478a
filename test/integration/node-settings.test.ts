/**
 * Mutable parameters on real devices; limits on pods in a simulated cgroup tree, because the machines that
 * run this may lack the io controller of cgroup v2. The guest tests write to a real io.max.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { SystemError } from '../../src/base/errors.js';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { applyBlockSettings } from '../../src/host/block-settings.js';
import { majorOf, minorOf } from '../../src/host/mountinfo.js';
import type { NodeDependencies } from '../../src/node/dependencies.js';
import { createNodeService } from '../../src/node/node.js';
import { applyVolumeSettings } from '../../src/node/volume-settings.js';
import { callContext } from '../support/call-context.js';
import { rejectsWith } from '../support/expect-status.js';
import { received } from '../support/received-request.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode } from './node-fixture.js';

const node = useNode('node-settings');

const POD_UID = '1b0bb9c3-5a5e-4d3c-9b3e-0d5b7e8f9a01';
const POD = { 'csi.storage.k8s.io/pod.uid': POD_UID };

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

rootTest('settings are applied by every NodeStageVolume, repeated ones included', async () => {
  const mutableParameters = {
    readAheadKiB: '512',
    ioScheduler: 'mq-deadline',
    loopDirectIo: 'false',
  };
  for (const capability of [mountCapability('ext4'), blockCapability()]) {
    const volume = await node.makeVolume({ mutableParameters });
    const expected = { readAhead: '512', scheduler: 'mq-deadline', directIo: '0' };
    await node.stage(volume, capability);
    assert.deepEqual(await queueOf(volume), expected);
    await tamper(volume);
    await node.stage(volume, capability);
    assert.deepEqual(await queueOf(volume), expected);
    await node.unstage(volume);
    await node.stage(volume, capability);
    assert.deepEqual(await queueOf(volume), expected);
    await node.unstage(volume);
  }
});

rootTest('a released device does not keep its settings for the next user', async () => {
  const volume = await node.makeVolume({ mutableParameters: { ioScheduler: 'mq-deadline' } });
  await node.stage(volume, blockCapability());
  const file = `/sys/block/${basename(await node.attachedPath(volume))}/queue/scheduler`;
  assert.match(readFileSync(file, 'utf8'), /\[mq-deadline\]/);
  await node.unstage(volume);
  assert.match(readFileSync(file, 'utf8'), /\[none\]/);
});

rootTest(
  "a volume without settings gets the kernel's defaults, not its predecessor's",
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, blockCapability());
    const usual = await queueOf(volume);
    assert.equal(usual['scheduler'], 'none');
    assert.equal(usual['directIo'], '1');
    await tamper(volume);
    await node.stage(volume, blockCapability());
    assert.deepEqual(await queueOf(volume), usual);
    await node.unstage(volume);
  },
);

rootTest(
  'a scheduler that the kernel does not have for the device is refused, naming the others',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, blockCapability());
    const usual = await queueOf(volume);
    const settings = { readAheadKiB: 256, ioScheduler: 'cfq', loopDirectIo: false };
    const applied = applyBlockSettings(node.native, await node.attachedPath(volume), settings);
    await rejectsWith(applied, 'FAILED_PRECONDITION', /is not offered by this node's kernel.*none/);
    assert.deepEqual(await queueOf(volume), usual);
    await node.unstage(volume);
  },
);

rootTest(
  'a setting that cannot be applied fails NodeStageVolume and leaves nothing behind',
  async () => {
    const volume = await node.makeVolume({ mutableParameters: { loopDirectIo: 'false' } });
    const native = {
      run: async (...call: Parameters<typeof node.native.run>) => {
        if (call[0] !== 'setLoopDirectIo') return node.native.run(...call);
        throw new SystemError('EINVAL', 'LOOP_SET_DIRECT_IO', '/dev/x', 'as on a pool without it');
      },
    };
    const service = createNodeService({ ...node.deps, native } as NodeDependencies);
    const staged = service.unary.NodeStageVolume?.(
      received('NodeStageVolume', {
        volume_id: volume.volumeId,
        staging_target_path: node.stagingPath(volume.volumeId),
        volume_capability: blockCapability(),
      }),
      callContext(),
    );
    await rejectsWith(
      Promise.resolve(staged),
      'FAILED_PRECONDITION',
      /loopDirectIo false cannot be/,
    );
    assert.deepEqual(node.held(), NOTHING);
    assert.deepEqual(await node.catalogue.stagings(volume.volumeId), []);
  },
);

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

rootTest('the limits of a volume apply to its pod for as long as it is published', async () => {
  const mutableParameters = { readBytesPerSecond: '1048576', writeOperationsPerSecond: '100' };
  for (const capability of [mountCapability('ext4'), blockCapability()]) {
    const ioMax = makePod();
    const volume = await node.makeVolume({ mutableParameters });
    await node.stage(volume, capability);
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
    await node.unstage(volume);
  }
  assert.deepEqual(node.held(), NOTHING);
});

rootTest(
  'a change of settings reaches the device in use and all its pods, and can be reverted',
  async () => {
    const ioMax = makePod();
    const capability = mountCapability('ext4', 'SINGLE_NODE_MULTI_WRITER');
    const volume = await node.makeVolume();
    await node.stage(volume, capability);
    const device = await deviceNumber(volume);
    const usual = await queueOf(volume);
    await node.publish(volume, capability, { volume_context: POD });
    await node.publish(volume, capability, { target_path: node.targetPath('unnamed') });
    const mutableParameters = { readAheadKiB: '256', readOperationsPerSecond: '50' };
    await applyVolumeSettings(node.deps, { ...volume, mutableParameters });
    assert.equal((await queueOf(volume))['readAhead'], '256');
    assert.equal(readFileSync(ioMax, 'utf8'), `${device} rbps=max wbps=max riops=50 wiops=max`);
    writeFileSync(ioMax, '');
    await applyVolumeSettings(node.deps, volume);
    assert.deepEqual(await queueOf(volume), usual);
    assert.equal(readFileSync(ioMax, 'utf8'), `${device} rbps=max wbps=max riops=max wiops=max`);
    await node.unpublish(volume);
    await node.unpublish(volume, { target_path: node.targetPath('unnamed') });
    await node.unstage(volume);
    // Not attached: nothing to do, also where nothing could be done.
    await applyVolumeSettings(node.deps, { ...volume, mutableParameters });
  },
);

rootTest('limits that cannot be lifted fail the change, but not the unpublication', async () => {
  const ioMax = makePod();
  const volume = await node.makeVolume({ mutableParameters: { readBytesPerSecond: '4096' } });
  await node.stage(volume, blockCapability());
  await node.publish(volume, blockCapability(), { volume_context: POD });
  rmSync(ioMax);
  mkdirSync(ioMax);
  const mutableParameters = { readBytesPerSecond: 'max' };
  const lifted = applyVolumeSettings(node.deps, { ...volume, mutableParameters });
  await rejectsWith(lifted, 'INTERNAL', /could not be lifted: EISDIR/);
  await node.unpublish(volume);
  await node.unstage(volume);
});

rootTest('if one setting cannot be applied, none is', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, blockCapability());
  const usual = await queueOf(volume);
  const native = {
    run: async () => {
      throw new SystemError('EINVAL', 'LOOP_SET_DIRECT_IO', '/dev/x', 'as on a pool without it');
    },
  };
  const deps = { ...node.deps, native } as NodeDependencies;
  const mutableParameters = {
    readAheadKiB: '256',
    ioScheduler: 'mq-deadline',
    loopDirectIo: 'false',
  };
  const applied = applyVolumeSettings(deps, { ...volume, mutableParameters });
  await rejectsWith(applied, 'FAILED_PRECONDITION', /loopDirectIo false cannot be set.*EINVAL/);
  assert.deepEqual(await queueOf(volume), usual);
  await node.unstage(volume);
});

rootTest(
  'limits that cannot be set for a known pod fail the publication, and say why',
  async () => {
    const mutableParameters = { writeBytesPerSecond: '5000000' };
    const volume = await node.makeVolume({ mutableParameters });
    const capability = mountCapability('ext4');
    await node.stage(volume, capability);
    const publish = (): Promise<unknown> =>
      node.publish(volume, capability, { volume_context: POD });
    makePod(false);
    await rejectsWith(publish(), 'FAILED_PRECONDITION', /io controller of cgroup v2/);
    rmSync(node.workspace.path('cgroup', 'kubepods.slice'), { recursive: true });
    await rejectsWith(publish(), 'FAILED_PRECONDITION', /has no cgroup of that pod/);
    rmSync(node.workspace.path('cgroup'), { recursive: true });
    await rejectsWith(
      publish(),
      'FAILED_PRECONDITION',
      /is not a cgroup v2.*BLOCKDELTA_CGROUP_ROOT/,
    );
    assert.equal(node.held().mounts.length, 1, 'only the staging');
    assert.deepEqual(await node.catalogue.publications(volume.volumeId), []);
    // A pod that is not named cannot be limited, and one without limits needs no cgroup.
    await node.publish(volume, capability);
    await node.unpublish(volume);
    await node.catalogue.setMutableParameters(volume.volumeId, { writeBytesPerSecond: 'max' });
    await node.publish(volume, capability, { volume_context: POD });
    await node.unpublish(volume);
    await node.unstage(volume);
  },
);

rootTest('a malformed uid never becomes a path', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability());
  for (const uid of ['../../etc', 'a/b', 'x'.repeat(65), 'a b', '.']) {
    const volume_context = { 'csi.storage.k8s.io/pod.uid': uid };
    const answer = node.publish(volume, mountCapability(), { volume_context });
    await rejectsWith(answer, 'INVALID_ARGUMENT', /not a uid of a pod/);
  }
  await node.publish(volume, mountCapability(), {
    volume_context: { ...POD, 'csi.storage.k8s.io/ephemeral': 'false' },
  });
  await node.unpublish(volume);
  await node.unstage(volume);
});
