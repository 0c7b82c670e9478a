/**
 * The real plugin on a thin pool, over its socket: the lifecycle of volumes whose device is
 * a device-mapper device, from creation to deletion.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, rmdirSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { minorOf } from '../../src/host/mountinfo.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { assertOneMoment, OrderedWriter, readNumber } from '../support/ordered-writer.js';
import { limitsOf, makePodCgroup } from '../support/pod-cgroup.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { RunningPlugin } from '../support/running-plugin.js';
import { readBlock, writeBlocks } from './dm-setup.js';
import { guestTest, isGuest } from './guest.js';

const BLOCK = 65536n;

const running = new RunningPlugin();
before(async () => {
  if (!isGuest) return;
  const env = { BLOCKDELTA_SCAN_THREADS: '1', BLOCKDELTA_DEVICE_THREADS: '2' };
  await running.setUp('thin-node', { pools: { default: 'thin' }, env });
});
after(() => running.tearDown());

/** The device of device-mapper's that is mounted or bound there. */
function deviceBehind(target: string): string {
  const { dev, rdev } = statSync(target);
  const number = rdev === 0 ? dev : rdev;
  const path = `/dev/dm-${minorOf(number)}`;
  assert.equal(statSync(path).rdev, number, target);
  return path;
}

/** Volumes that were brought up are taken down and deleted, and their devices are gone then. */
async function remove(...volumes: HeldVolume[]): Promise<void> {
  for (const volume of volumes) {
    await running.orchestrator.takeDown(volume);
    await running.orchestrator.delete(volume);
    assert.ok(!mappedNames().includes(`blockdelta-${volume.id}`), volume.name);
  }
}

function mappedNames(): string[] {
  const names = execFileSync('sh', ['-c', 'cat /sys/block/dm-*/dm/name 2>/dev/null || true']);
  return names.toString().split('\n');
}

for (const [fsType, sizeMiB, grownMiB] of [
  ['ext4', 32, 256],
  ['xfs', 320, 512],
] as const) {
  guestTest(`a thin volume with ${fsType} is used, grows mounted, and is used again`, async () => {
    const { orchestrator, client } = running;
    const capability = mountCapability(fsType);
    const spec = { capability, sizeBytes: sizeMiB * MIB };
    const volume = await orchestrator.create(`uses-${fsType}`, spec);
    const target = await orchestrator.bringUp(volume);
    deviceBehind(target);
    writeFileSync(join(target, 'file'), 'before');
    await orchestrator.expand(volume, grownMiB * MIB);
    await orchestrator.nodeExpand(volume);
    const { blocks, bsize } = statfsSync(target);
    assert.ok(blocks * bsize > grownMiB * MIB * 0.85, `${blocks} blocks of ${bsize} bytes`);
    writeFileSync(join(target, 'larger'), Buffer.alloc(1.2 * sizeMiB * MIB, 3));
    const stats = await client.node.NodeGetVolumeStats({
      volume_id: volume.id,
      volume_path: target,
      staging_target_path: volume.stagingPath,
    });
    assert.equal(stats['volume_condition']?.abnormal ?? false, false);
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
    assert.equal(readFileSync(join(target, 'file'), 'utf8'), 'before');
    await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION');
    await remove(volume);
  });
}

guestTest('a raw thin volume is written, read, grown, and published read-only', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('raw', { sizeBytes: 8 * MIB });
  const target = await orchestrator.bringUp(volume);
  const device = deviceBehind(target);
  await writeBlocks(target, 5, 3);
  await orchestrator.expand(volume, 16 * MIB);
  await orchestrator.nodeExpand(volume);
  assert.equal(Number(execFileSync('blockdev', ['--getsize64', target])), 16 * MIB);
  await writeBlocks(target, 6, 200);
  await orchestrator.unpublish(volume);
  await orchestrator.publish(volume, { readonly: true });
  await assert.rejects(writeBlocks(target, 7, 3));
  assert.equal(await readBlock(target, 3), 5);
  await orchestrator.takeDown(volume);
  assert.throws(() => statSync(device), { code: 'ENOENT' });
  await orchestrator.bringUp(volume);
  await writeBlocks(target, 8, 3);
  assert.equal(await readBlock(target, 200), 6);
  await remove(volume);
});

guestTest(
  'snapshots and retained bases give exact deltas, and snapshots can be restored',
  async () => {
    const { orchestrator, client } = running;
    const volume = await orchestrator.create('changes', { sizeBytes: 8 * MIB });
    const target = await orchestrator.bringUp(volume);
    await writeBlocks(target, 1, 2, 3);
    const first = await orchestrator.snapshot(volume, 'changes-1');
    await writeBlocks(target, 2, 4);
    await writeBlocks(target, 2, 9);
    const second = await orchestrator.snapshot(volume, 'changes-2');
    await writeBlocks(target, 3, 2);
    const allocated = await client.allocated(first);
    assert.equal(allocated.capacity, 8n << 20n);
    assert.deepEqual(allocated.ranges, [{ offset: 2n * BLOCK, size: 3n * BLOCK }]);
    const changed = [
      { offset: 4n * BLOCK, size: BLOCK },
      { offset: 9n * BLOCK, size: BLOCK },
    ];
    assert.deepEqual((await client.delta(first, second)).ranges, changed);
    await orchestrator.deleteSnapshot(first);
    assert.deepEqual((await client.delta(first, second)).ranges, changed);
    const spec = { snapshotId: second, sizeBytes: 16 * MIB };
    const restored = await orchestrator.create('changes-restored', spec);
    const copy = await orchestrator.bringUp(restored);
    const blocks = [2, 3, 4, 9, 150];
    assert.deepEqual(
      await Promise.all(blocks.map((block) => readBlock(copy, block))),
      [1, 1, 2, 2, 0],
    );
    await orchestrator.deleteSnapshot(second);
    await remove(volume, restored);
  },
);

guestTest('a mounted thin volume is cloned while it is written to', async () => {
  const { orchestrator } = running;
  const capability = mountCapability('ext4');
  const volume = await orchestrator.create('cloned', { capability, sizeBytes: 32 * MIB });
  const target = await orchestrator.bringUp(volume);
  writeFileSync(join(target, 'number'), Buffer.alloc(4096));
  writeFileSync(join(target, 'unsynced'), 'not written back yet');
  const spec = { capability, sizeBytes: 64 * MIB, volumeId: volume.id };
  const clone = await orchestrator.create('clone', spec);
  writeFileSync(join(target, 'unsynced'), 'later');
  const copy = await orchestrator.bringUp(clone);
  assert.equal(readFileSync(join(copy, 'unsynced'), 'utf8'), 'not written back yet');
  const { blocks, bsize } = statfsSync(copy);
  assert.ok(blocks * bsize > 50 * MIB, 'the file system has the size of the clone');
  await remove(volume, clone);
});

guestTest('a group snapshot of mounted and raw thin volumes is one point in time', async () => {
  const { orchestrator } = running;
  const capability = mountCapability('ext4');
  const mounted = await orchestrator.create('group-1', { capability, sizeBytes: 32 * MIB });
  const raw = await orchestrator.create('group-2', { sizeBytes: 8 * MIB });
  const file = join(await orchestrator.bringUp(mounted), 'number');
  const device = await orchestrator.bringUp(raw);
  const writer = await OrderedWriter.start([file, device], seededRandom('a group'), 0);
  await delay(200);
  const finishedBefore = writer.finished;
  const group = await orchestrator.groupSnapshot([mounted, raw], 'group');
  const begunAfter = writer.begun;
  await writer.stop();
  const [first = '', second = ''] = group.snapshotIds;
  const copies = [
    await orchestrator.create('group-copy-1', {
      capability,
      sizeBytes: 32 * MIB,
      snapshotId: first,
    }),
    await orchestrator.create('group-copy-2', { snapshotId: second }),
  ] as const;
  const numbers = [
    readNumber(join(await orchestrator.bringUp(copies[0]), 'number')),
    readNumber(await orchestrator.bringUp(copies[1])),
  ] as const;
  assertOneMoment(numbers, { finishedBefore, begunAfter });
  await orchestrator.deleteGroup(group);
  await remove(mounted, raw, ...copies);
});

guestTest(
  'two xfs of one uuid are mounted at once: a volume and its restored snapshot',
  async () => {
    const { orchestrator } = running;
    const spec = { capability: mountCapability('xfs'), sizeBytes: 320 * MIB };
    const volume = await orchestrator.create('uuid', spec);
    const target = await orchestrator.bringUp(volume);
    writeFileSync(join(target, 'file'), 'not written back yet');
    const snapshotId = await orchestrator.snapshot(volume, 'uuid');
    writeFileSync(join(target, 'file'), 'later');
    const restored = await orchestrator.create('uuid-restored', { ...spec, snapshotId });
    const copy = await orchestrator.bringUp(restored);
    assert.equal(readFileSync(join(copy, 'file'), 'utf8'), 'not written back yet');
    await remove(volume, restored);
    await orchestrator.deleteSnapshot(snapshotId);
  },
);

guestTest('the device and the pod of a thin volume get the requested settings', async () => {
  const { orchestrator, client } = running;
  const podUid = '0b7c1f5e-3a52-4c1f-9d0e-6a4f2d9b1c77';
  const cgroup = makePodCgroup('kubepods', `pod${podUid}`);
  const settings = { readAheadKiB: '512', readBytesPerSecond: '1048576' };
  const { volume: made } = await client.controller.CreateVolume({
    ...createRequest('settings'),
    mutable_parameters: settings,
  });
  const volume = orchestrator.hold('settings', made as Message, blockCapability());
  await orchestrator.stage(volume);
  const target = await orchestrator.publish(volume, { podUid });
  const device = deviceBehind(target);
  const readAhead = (): string =>
    readFileSync(`/sys/block/${device.slice('/dev/'.length)}/queue/read_ahead_kb`, 'utf8').trim();
  assert.equal(readAhead(), '512');
  assert.match(limitsOf(cgroup, target), /^rbps=1048576 wbps=max/);
  await orchestrator.modify(volume, { readAheadKiB: '256', readBytesPerSecond: 'max' });
  assert.equal(readAhead(), '256');
  assert.doesNotMatch(limitsOf(cgroup, target), /rbps=1/);
  await remove(volume);
  rmdirSync(cgroup);
});

guestTest('publications outlive a kill of the plugin, and its successor removes them', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('outlives');
  const target = await orchestrator.bringUp(volume);
  const device = deviceBehind(target);
  await running.crash();
  await writeBlocks(target, 4, 1);
  assert.equal(deviceBehind(await orchestrator.publish(volume)), device);
  assert.equal(await readBlock(target, 1), 4);
  await remove(volume);
});

guestTest('without volumes the plugin leaves no device behind when it exits', async () => {
  await running.plugin.stop();
  const left = mappedNames().filter((name) => name.startsWith('blockdelta-'));
  assert.deepEqual(left, []);
});
