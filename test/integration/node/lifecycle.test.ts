/** Complete lifecycles of volumes: created, used, cloned, deleted, with restarts of the plugin and of the node. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { type Contents, emptyContents, specOf, type VolumeKind } from '../../support/contents.js';
import { detachLoopForSure } from '../../support/loops.js';
import { isNightly } from '../../support/nightly.js';
import type { HeldVolume, VolumeSpec } from '../../support/orchestrator.js';
import { startReport } from '../../support/plugin-log.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';

const KINDS: readonly VolumeKind[] = ['block', 'ext4', 'xfs'];
const CYCLES = isNightly ? 100 : 3;

const running = runPlugin('lifecycle', { pools: { main: 'xfs' }, poolSizeMiB: 4096 });
const { orchestrator } = running;
const random = seededRandom('lifecycle');

interface Living {
  volume: HeldVolume;
  contents: Contents;
}

let names = 0;

async function newVolume(kind: VolumeKind, source: VolumeSpec = {}): Promise<HeldVolume> {
  names += 1;
  return orchestrator.create(`${kind} ${names}`, { ...specOf(kind), ...source });
}

/** Publishes a volume and runs a workload on it. */
async function living(kind: VolumeKind): Promise<Living> {
  const volume = await newVolume(kind);
  const contents = emptyContents(kind);
  await orchestrator.bringUp(volume);
  await work(contents, volume);
  return { volume, contents };
}

async function work(contents: Contents, volume: HeldVolume): Promise<void> {
  for (let times = 0; times < 5; times += 1) await contents.work(volume.targetPath, random);
}

for (const kind of isNightly ? KINDS : KINDS.slice(0, 2)) {
  test(`copies of a volume (${kind}) are used beside it, and its snapshots without it`, async () => {
    const { volume, contents } = await living(kind);
    // Snapshotted while mounted and written to: the copied file system was never unmounted.
    const disturbance = contents.disturb(volume.targetPath);
    const first = await orchestrator.snapshot(volume, `first of ${volume.id}`);
    await disturbance.stop();
    const then = contents.copy();
    await work(contents, volume);
    const second = await orchestrator.snapshot(volume, `second of ${volume.id}`);
    const copies: Living[] = [];
    for (const [source, wanted] of [
      [{ snapshotId: first }, then],
      [{ snapshotId: first }, then],
      [{ volumeId: volume.id }, contents],
    ] as const) {
      const copy = { volume: await newVolume(kind, source), contents: wanted.copy() };
      await orchestrator.bringUp(copy.volume);
      copies.push(copy);
    }
    for (const copy of copies) {
      await copy.contents.verify(copy.volume.targetPath);
      await work(copy.contents, copy.volume);
    }
    for (const each of [...copies, { volume, contents }]) {
      await each.contents.verify(each.volume.targetPath);
    }
    const delta = await running.client.delta(first, second);
    await orchestrator.remove(...copies.map((copy) => copy.volume), volume);
    assert.deepEqual(running.held(), NOTHING);
    assert.deepEqual(await running.client.delta(first, second), delta);
    for (const snapshotId of [second, first]) {
      const restored = await newVolume(kind, { snapshotId });
      const wanted = snapshotId === first ? then : contents;
      await wanted.verify(await orchestrator.bringUp(restored));
      await orchestrator.remove(restored);
      await orchestrator.deleteSnapshot(snapshotId);
    }
  });
}

for (const kind of ['block', 'ext4'] as const) {
  test(`NS4, NQ3: repeats on a volume (${kind}) leave the same mounts as one call`, async () => {
    const volume = await newVolume(kind);
    const repeat = async (call: (volume: HeldVolume) => Promise<unknown>): Promise<void> => {
      for (let time = 0; time < 5; time += 1) await call(volume);
    };
    await orchestrator.bringUp(volume);
    const once = running.held();
    assert.equal(once.mounts.length, 2);
    await repeat((one) => orchestrator.publish(one));
    assert.deepEqual(running.held(), once);
    await repeat((one) => orchestrator.stage(one));
    assert.deepEqual(running.held(), once);
    await repeat((one) => orchestrator.unpublish(one));
    assert.deepEqual(running.held().mounts, [once.mounts[0]]);
    assert.equal(existsSync(volume.targetPath), false);
    await repeat((one) => orchestrator.unstage(one));
    assert.deepEqual(running.held(), NOTHING);
    await orchestrator.delete(volume);
  });
}

test('a restart or crash of the plugin under volumes in use does not disturb them', async () => {
  const used: (Living & { file: FileHandle; snapshotId?: string })[] = [];
  for (const kind of [...KINDS, 'btrfs'] as const) {
    const { volume, contents } = await living(kind);
    const isBlock = 'block' in volume.capability;
    const path = isBlock ? volume.targetPath : join(volume.targetPath, 'held');
    // Kept open throughout, as by a workload.
    used.push({ volume, contents, file: await open(path, isBlock ? 'r+' : 'w') });
  }
  const before = running.held();
  for (const how of ['restart', 'crash'] as const) {
    await running[how]();
    assert.deepEqual(startReport(running.plugin.log).differences, []);
    assert.deepEqual(running.held(), before);
    for (const { volume, contents } of used) {
      await work(contents, volume);
      await orchestrator.bringUp(volume);
      await contents.verify(volume.targetPath);
      await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION');
    }
    assert.deepEqual(running.held(), before);
  }
  for (const each of used) {
    await each.file.sync();
    await each.file.close();
    each.snapshotId = await orchestrator.snapshot(each.volume, `of ${each.volume.id}`);
    await work(each.contents, each.volume);
  }
  await running.crash();
  for (const { volume } of used) await orchestrator.unpublish(volume);
  await running.restart();
  for (const { volume } of used) await orchestrator.unstage(volume);
  assert.deepEqual(running.held(), NOTHING);
  for (const { volume, snapshotId = '' } of used) {
    await orchestrator.deleteSnapshot(snapshotId);
    await orchestrator.delete(volume);
  }
});

test('a reboot leaves nothing staged, and staging again repairs and finds all data', async () => {
  const used: Living[] = [];
  for (const kind of [...KINDS, 'btrfs'] as const) used.push(await living(kind));
  for (const { volume } of used) execFileSync('sync', ['-f', volume.stagingPath]);
  await running.plugin.kill();
  // What a reboot takes: mounts and loop devices. Files, records and directories stay.
  for (const path of running.held().mounts.reverse()) execFileSync('umount', [path]);
  for (const device of running.held().loops) await detachLoopForSure(device);
  assert.deepEqual(running.held(), NOTHING);
  await running.start();
  // The orchestrator may find its pods gone, and then cleans up what it remembers.
  const [lost, ...others] = used as [Living, ...Living[]];
  await orchestrator.takeDown(lost.volume);
  assert.equal(existsSync(lost.volume.targetPath), false);
  for (const { volume, contents } of [...others, lost]) {
    await contents.verify(await orchestrator.bringUp(volume));
  }
  assert.equal(running.held().mounts.length, 2 * used.length);
  await orchestrator.remove(...used.map(({ volume }) => volume));
  assert.deepEqual(running.held(), NOTHING);
});

test(`${CYCLES} rounds of stage, publish, unpublish and unstage leave nothing behind`, async () => {
  const volume = await newVolume('ext4');
  const contents = emptyContents('ext4');
  const cycle = async (): Promise<void> => {
    await orchestrator.bringUp(volume);
    await contents.work(volume.targetPath, random);
    await orchestrator.takeDown(volume);
  };
  for (let times = 0; times < 5; times += 1) await cycle();
  const before = openIn(running.plugin.process.pid);
  for (let times = 0; times < CYCLES; times += 1) await cycle();
  const after = openIn(running.plugin.process.pid);
  assert.deepEqual(running.held(), NOTHING);
  assert.ok(after.files <= before.files + 3, `${before.files} open files, then ${after.files}`);
  const threads = [before.threads, after.threads];
  assert.ok(after.threads <= before.threads + 3, `threads before and after: ${threads}`);
  assert.deepEqual(after.children, [], 'processes the plugin started and did not wait for');
  await contents.verify(await orchestrator.bringUp(volume));
  await orchestrator.remove(volume);
});

/** Each thread of Node.js has some of these, and threads are counted. */
function isOfThread(descriptor: string): boolean {
  try {
    return /^anon_inode:\[event/.test(readlinkSync(descriptor));
  } catch {
    return false;
  }
}

function openIn(pid: number | undefined): { files: number; threads: number; children: string[] } {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return {
    files: readdirSync(`/proc/${pid}/fd`).filter((each) => !isOfThread(`/proc/${pid}/fd/${each}`)).length,
    threads: readdirSync(`/proc/${pid}/task`).length,
    children: children === '' ? [] : children.split(' '),
  };
}
