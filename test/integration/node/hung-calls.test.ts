/**
 * Calls that hang in the kernel: NodeExpandVolume of file systems that another program has frozen. They end before
 * their deadlines, and while the kernel still works on them, all other calls are served, also for these volumes.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { runCommand } from '../../support/command.js';
import { mountCapability } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { freeze } from '../../support/freeze.js';
import { type HeldVolume, MIB, untilReleased } from '../../support/orchestrator.js';
import { refused, statusOf } from '../../support/refusal.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';

const HUNG = 8;
/** Threads that were not started before: a second one for look-ups, and for work on the pool. */
const SPARE = 2;
const SIZE = 320 * MIB;
const LARGER = 384 * MIB;
/** A call that hangs ends a second before, unless the plugin has no processor for its answer. */
const DEADLINE_MS = 5000;
const LATE = ['ABORTED', 'DEADLINE_EXCEEDED'];

const running = runPlugin('hung-calls', { pools: { main: 'xfs' }, poolSizeMiB: 8192 });
const { orchestrator } = running;

/** By its staging directory, where it is mounted longest. */
const thaw = ({ stagingPath }: HeldVolume): unknown =>
  spawnSync('fsfreeze', ['--unfreeze', stagingPath], { stdio: 'ignore' });
const tasks = (): number => readdirSync(`/proc/${running.plugin.process.pid}/task`).length;
const bytesOf = ({ stagingPath }: HeldVolume): number => {
  const { blocks, bsize } = statfsSync(stagingPath);
  return blocks * bsize;
};

/** In use, larger than its file system, and frozen. */
async function frozen(name: string): Promise<HeldVolume> {
  const spec = { capability: mountCapability('xfs'), sizeBytes: SIZE };
  const volume = await orchestrator.create(name, spec);
  await orchestrator.bringUp(volume);
  await orchestrator.expand(volume, LARGER);
  freeze(volume.targetPath);
  after(() => thaw(volume));
  return volume;
}

const nodeExpand = (volume: HeldVolume, options = {}): Promise<unknown> =>
  running.client.node.NodeExpandVolume({ volume_id: volume.id, volume_path: volume.targetPath }, options);

async function hangs(volume: HeldVolume): Promise<void> {
  const advice = /has not grown to 402653184 bytes: most likely another program.*fsfreeze --unfreeze/;
  const call = nodeExpand(volume, { deadlineMs: DEADLINE_MS });
  const status = await statusOf(call);
  assert.ok(LATE.includes(status), status);
  if (status === 'ABORTED') await refused(call, status, advice);
}

/** Everything that a node does for a volume, from its creation to its deletion. */
async function wholeLife(name: string, capability = mountCapability('xfs')): Promise<void> {
  const volume = await orchestrator.create(name, { capability, sizeBytes: SIZE });
  const target = await orchestrator.bringUp(volume);
  writeFileSync(join(target, 'file'), name);
  const snapshot = await orchestrator.snapshot(volume);
  const { ranges } = await running.client.metadata('GetMetadataAllocated', { snapshot_id: snapshot });
  assert.ok(ranges.length > 0);
  await orchestrator.expand(volume, LARGER);
  await orchestrator.nodeExpand(volume);
  const spec = { capability, sizeBytes: LARGER };
  const clone = await orchestrator.create(`clone of ${name}`, { ...spec, volumeId: volume.id });
  const restored = await orchestrator.create(`restored ${name}`, { ...spec, snapshotId: snapshot });
  await orchestrator.bringUp(restored);
  await orchestrator.remove(restored, volume);
  await orchestrator.delete(clone);
  await orchestrator.deleteSnapshot(snapshot);
}

test('the plugin serves all other calls while calls for eight volumes hang in the kernel, and goes on with these after the thaw', async () => {
  const volumes: HeldVolume[] = [];
  for (let index = 0; index < HUNG; index += 1) volumes.push(await frozen(`frozen ${index}`));
  await wholeLife('before');
  const before = tasks();

  await Promise.all(volumes.map(hangs));

  const { identity, node, controller } = running.client;
  assert.equal((await identity.Probe({}))['ready'].value, true);
  await wholeLife('meanwhile');
  assert.equal((await orchestrator.volumeIds()).length, HUNG);
  await controller.GetCapacity({});
  assert.equal((await identity.Probe({}))['ready'].value, true);
  for (const { id, targetPath } of volumes) {
    const stats = await node.NodeGetVolumeStats({ volume_id: id, volume_path: targetPath });
    assert.equal(stats['usage'].length, 2);
  }
  // The volume is not locked any more, but the kernel still works on it, and no second thread waits for it.
  const again = /an earlier call has not ended \(growFileSystem of vol-\S+ for \d+ s\)/;
  for (const volume of volumes) await refused(nodeExpand(volume), 'ABORTED', again);
  const more = tasks() - before;
  assert.ok(more <= HUNG + SPARE, `${more} threads more`);
  const sizes = volumes.map(bytesOf);

  for (const volume of volumes) thaw(volume);
  const haveGrown = (): boolean =>
    volumes.every((volume, index) => bytesOf(volume) - (sizes[index] ?? 0) === LARGER - SIZE);
  await eventually('all have grown', haveGrown);
  for (const volume of volumes) await untilReleased(() => nodeExpand(volume));
  await orchestrator.remove(...volumes);
  assert.deepEqual(running.held(), NOTHING);
});

test('a volume whose growth hangs is unpublished, and unstaged, which thaws it', async (t) => {
  const volume = await frozen('frozen and released');
  const size = bytesOf(volume);
  await hangs(volume);
  const { stdout } = await runCommand(t, ['doctor'], running.settings);
  assert.match(stdout, /1 threads of the plugin wait in the kernel for a file system to be thawed/);
  await orchestrator.unpublish(volume);
  await orchestrator.unstage(volume);
  assert.deepEqual(running.held(), NOTHING);
  await orchestrator.bringUp(volume);
  assert.equal(bytesOf(volume) - size, LARGER - SIZE);
  await orchestrator.remove(volume);
});
