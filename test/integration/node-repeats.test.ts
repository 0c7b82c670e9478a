/** Repeats, restarts of the plugin and a reboot of the node leave nothing behind. Over the real socket. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { FILE_SYSTEMS } from '../../src/host/file-systems.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const running = runPlugin('node-repeats', { pools: { default: 'xfs' }, poolSizeMiB: 4096 });
const { orchestrator } = running;

const SIZE = 320 * MIB;

/** Every mount and loop device of the volumes; the pool's own are left out. */
function held(): { mounts: string[]; loops: string[] } {
  const directory = running.workspace.directory;
  return {
    mounts: mountsBelow(directory).filter((path) => !path.endsWith('.pool')),
    loops: loopsBelow(running.poolPath('default')).sort(),
  };
}

const NOTHING = { mounts: [], loops: [] };
const capabilityOf = (kind: string): Message =>
  kind === 'block' ? blockCapability() : mountCapability(kind);

for (const [kind, repeats] of [
  ['ext4', 20],
  ['block', 20],
] as const) {
  test(`NS4, NQ3: ${kind}: ${repeats} repeats leave the same mounts as one call`, async () => {
    const capability = capabilityOf(kind);
    const volume = await orchestrator.create(`repeated-${kind}`, { capability, sizeBytes: SIZE });
    const repeat = async (call: (volume: HeldVolume) => Promise<unknown>): Promise<void> => {
      for (let time = 0; time < repeats; time += 1) await call(volume);
    };
    await orchestrator.bringUp(volume);
    const once = held();
    assert.equal(once.mounts.length, 2);
    await repeat((one) => orchestrator.publish(one));
    assert.deepEqual(held(), once);
    await repeat((one) => orchestrator.stage(one));
    assert.deepEqual(held(), once);
    await repeat((one) => orchestrator.unpublish(one));
    assert.deepEqual(held().mounts, [once.mounts[0]]);
    assert.equal(existsSync(volume.targetPath), false);
    for (let time = 0; time < 10; time += 1) await orchestrator.unstage(volume);
    assert.deepEqual(held(), NOTHING);
    await orchestrator.delete(volume);
  });
}

async function volumesOfAllKinds(label: string): Promise<HeldVolume[]> {
  const volumes: HeldVolume[] = [];
  for (const kind of [...FILE_SYSTEMS, 'block']) {
    const spec = { capability: capabilityOf(kind), sizeBytes: SIZE };
    const volume = await orchestrator.create(`${label}-${kind}`, spec);
    const target = await orchestrator.bringUp(volume);
    if (kind !== 'block') writeFileSync(`${target}/data`, volume.id, { flush: true });
    volumes.push(volume);
  }
  return volumes;
}

function assertData(volumes: readonly HeldVolume[]): void {
  for (const { id, capability, targetPath } of volumes) {
    if (capability['block'] !== undefined) continue;
    assert.equal(readFileSync(`${targetPath}/data`, 'utf8'), id);
  }
}

async function clear(volumes: readonly HeldVolume[]): Promise<void> {
  for (const volume of volumes) {
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
  assert.deepEqual(held(), NOTHING);
}

for (const way of ['restart', 'crash'] as const) {
  test(`after a ${way} of the plugin everything is still staged, and repeats succeed`, async () => {
    const volumes = await volumesOfAllKinds(way);
    const before = held();
    await running[way]();
    assert.deepEqual(held(), before);
    for (const volume of volumes) await orchestrator.bringUp(volume);
    assert.deepEqual(held(), before);
    assertData(volumes);
    await clear(volumes);
  });
}

test('after a reboot nothing is staged; staging again repairs and finds all data', async () => {
  const volumes = await volumesOfAllKinds('reboot');
  await running.plugin.kill();
  // What a reboot takes: mounts and loop devices. Files, records and directories stay.
  for (const path of held().mounts.reverse()) spawnSync('umount', [path]);
  for (const device of loopsBelow(running.poolPath('default')))
    spawnSync('losetup', ['-d', device]);
  assert.deepEqual(held(), NOTHING);
  await running.start();
  // The orchestrator may find its pods gone, and then cleans up what it remembers.
  const [lost, ...others] = volumes as [HeldVolume, ...HeldVolume[]];
  await orchestrator.takeDown(lost);
  assert.equal(existsSync(lost.targetPath), false);
  for (const volume of others) await orchestrator.bringUp(volume);
  await orchestrator.bringUp(lost);
  assert.equal(held().mounts.length, 2 * volumes.length);
  assertData(volumes);
  await clear(volumes);
});

test('a volume that grew while it was not staged is found grown', async () => {
  for (const kind of FILE_SYSTEMS) {
    const spec = { capability: capabilityOf(kind), sizeBytes: SIZE };
    const volume = await orchestrator.create(`offline-${kind}`, spec);
    await orchestrator.bringUp(volume);
    await orchestrator.takeDown(volume);
    const { controller, node } = running.client;
    const larger = { required_bytes: 2 * SIZE };
    await controller.ControllerExpandVolume({ volume_id: volume.id, capacity_range: larger });
    const target = await orchestrator.bringUp(volume);
    const { blocks, bsize } = statfsSync(target);
    assert.ok(blocks * bsize > 1.6 * SIZE, `${kind}: ${blocks * bsize}`);
    const request = { volume_id: volume.id, volume_path: target, capacity_range: larger };
    const { capacity_bytes } = await node.NodeExpandVolume(request);
    assert.equal(Number(capacity_bytes), 2 * SIZE);
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
});

for (const kind of FILE_SYSTEMS) {
  test(`CV9: ${kind}: a clone and a restored volume, larger than their source, are used beside it`, async () => {
    const capability = capabilityOf(kind);
    const source = await orchestrator.create(`source-${kind}`, { capability, sizeBytes: SIZE });
    const from = await orchestrator.bringUp(source);
    writeFileSync(`${from}/data`, 'copied', { flush: true });
    const snapshotId = await orchestrator.snapshot(source, `source-${kind}`);
    const larger = { capability, sizeBytes: 2 * SIZE };
    const copies = [
      await orchestrator.create(`clone-${kind}`, { ...larger, volumeId: source.id }),
      await orchestrator.create(`restored-${kind}`, { ...larger, snapshotId }),
    ];
    writeFileSync(`${from}/data`, 'source', { flush: true });
    for (const copy of copies) {
      const to = await orchestrator.bringUp(copy);
      assert.equal(readFileSync(`${to}/data`, 'utf8'), 'copied');
      const { blocks, bsize } = statfsSync(to);
      assert.ok(blocks * bsize > 1.6 * SIZE, `${blocks * bsize}`);
      writeFileSync(`${to}/data`, 'copy', { flush: true });
    }
    assert.equal(readFileSync(`${from}/data`, 'utf8'), 'source');
    await clear([...copies, source]);
    await orchestrator.deleteSnapshot(snapshotId);
  });
}
