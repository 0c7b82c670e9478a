/** Complete lifecycles of volumes: created, used, cloned, deleted, with restarts of the plugin. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { type FileHandle, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BlockContents, type Contents, FileContents } from '../support/contents.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

interface Kind {
  label: string;
  sizeBytes: number;
  capability: (mode?: string) => Message;
  contents: () => Contents;
}

const KINDS: readonly Kind[] = [
  {
    label: 'a raw block volume',
    sizeBytes: 8 * MIB,
    capability: (mode) => blockCapability(mode),
    contents: () => BlockContents.empty(8 * MIB),
  },
  {
    label: 'an ext4 volume',
    sizeBytes: 32 * MIB,
    capability: (mode) => mountCapability('ext4', mode),
    contents: () => new FileContents(),
  },
  {
    label: 'an xfs volume',
    sizeBytes: 300 * MIB,
    capability: (mode) => mountCapability('xfs', mode),
    contents: () => new FileContents(),
  },
];
const CYCLES = isNightly ? 100 : 15;

const running = runPlugin('lifecycle', { pools: { main: 'xfs' }, poolSizeMiB: 4096 });
const { orchestrator } = running;
const random = seededRandom('lifecycle');

interface Living {
  volume: HeldVolume;
  contents: Contents;
}

let names = 0;

async function newVolume(kind: Kind, snapshotId?: string, mode?: string): Promise<HeldVolume> {
  names += 1;
  return orchestrator.create(`${kind.label} ${names}`, {
    capability: kind.capability(mode),
    sizeBytes: kind.sizeBytes,
    ...(snapshotId === undefined ? {} : { snapshotId }),
  });
}

/** Publishes a volume and runs a workload on it. */
async function living(kind: Kind): Promise<Living> {
  const volume = await newVolume(kind);
  const contents = kind.contents();
  await orchestrator.bringUp(volume);
  await work(contents, volume);
  return { volume, contents };
}

async function work(contents: Contents, volume: HeldVolume): Promise<void> {
  for (let times = 0; times < 5; times += 1) await contents.work(volume.targetPath, random);
}

async function remove(...volumes: HeldVolume[]): Promise<void> {
  for (const volume of volumes) {
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
}

/** Asserts that no volume is mounted or attached. */
function assertNothingUp(): void {
  const { directory } = running.workspace;
  assert.deepEqual(mountsBelow(directory), [running.poolPath('main')]);
  assert.deepEqual(loopsBelow(directory).length, 1, 'the pool itself is on a loop device');
}

for (const kind of KINDS) {
  test(`${kind.label} keeps its content from publication to publication`, async () => {
    const { volume, contents } = await living(kind);
    for (let times = 0; times < 3; times += 1) {
      await orchestrator.takeDown(volume);
      assertNothingUp();
      await orchestrator.bringUp(volume);
      await contents.verify(volume.targetPath);
      await work(contents, volume);
    }
    await remove(volume);
    assertNothingUp();
  });

  test(`copies of ${kind.label} are mounted beside it and beside each other`, async () => {
    const { volume, contents } = await living(kind);
    // Snapshotted while mounted and written to: the copied file system was never unmounted.
    const disturbance = contents.disturb(volume.targetPath);
    const snapshotId = await orchestrator.snapshot(volume, `of ${volume.id}`);
    await disturbance.stop();
    const then = contents.copy();
    await work(contents, volume);
    const copies: Living[] = [];
    for (let times = 0; times < 2; times += 1) {
      const copy = { volume: await newVolume(kind, snapshotId), contents: then.copy() };
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
    await remove(...copies.map((copy) => copy.volume), volume);
    await orchestrator.deleteSnapshot(snapshotId);
    assertNothingUp();
  });

  test(`a snapshot of ${kind.label} stays usable when the volume is deleted`, async () => {
    const { volume, contents } = await living(kind);
    const first = await orchestrator.snapshot(volume, `first of ${volume.id}`);
    const then = contents.copy();
    await work(contents, volume);
    const second = await orchestrator.snapshot(volume, `second of ${volume.id}`);
    const delta = await running.client.delta(first, second);
    await remove(volume);
    assert.deepEqual(await running.client.delta(first, second), delta);
    for (const [snapshotId, wanted] of [
      [first, then],
      [second, contents],
    ] as const) {
      const restored = await newVolume(kind, snapshotId);
      await wanted.verify(await orchestrator.bringUp(restored));
      await remove(restored);
    }
    for (const snapshotId of [second, first]) await orchestrator.deleteSnapshot(snapshotId);
  });
}

for (const how of ['restart', 'crash'] as const) {
  test(`a ${how} of the plugin under volumes in use does not disturb their users`, async () => {
    const used: (Living & { file: FileHandle; snapshotId?: string })[] = [];
    for (const kind of KINDS) {
      const { volume, contents } = await living(kind);
      const isBlock = 'block' in volume.capability;
      const path = isBlock ? volume.targetPath : join(volume.targetPath, 'held');
      // Kept open throughout, as by a workload.
      used.push({ volume, contents, file: await open(path, isBlock ? 'r+' : 'w') });
    }
    await running[how]();
    assert.deepEqual(startReport(running.plugin.log).differences, []);
    for (const each of used) {
      const { volume, contents, file } = each;
      await file.sync();
      await file.close();
      await work(contents, volume);
      await orchestrator.stage(volume);
      await orchestrator.publish(volume);
      await contents.verify(volume.targetPath);
      await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION');
      each.snapshotId = await orchestrator.snapshot(volume, `after ${how} ${volume.id}`);
      await work(contents, volume);
    }
    await running[how]();
    for (const { volume } of used) await orchestrator.unpublish(volume);
    await running[how]();
    for (const { volume } of used) await orchestrator.unstage(volume);
    assertNothingUp();
    for (const { volume, snapshotId = '' } of used) {
      await orchestrator.deleteSnapshot(snapshotId);
      await orchestrator.delete(volume);
    }
  });
}

test('in a chain of clones every generation keeps its content', async () => {
  const kind = KINDS[1] as Kind;
  let { volume, contents } = await living(kind);
  const generations: { snapshotId: string; contents: Contents }[] = [];
  for (let generation = 0; generation < 4; generation += 1) {
    const snapshotId = await orchestrator.snapshot(volume, `generation ${generation}`);
    generations.push({ snapshotId, contents: contents.copy() });
    await remove(volume);
    volume = await newVolume(kind, snapshotId);
    contents = contents.copy();
    await orchestrator.bringUp(volume);
    await contents.verify(volume.targetPath);
    await work(contents, volume);
  }
  await remove(volume);
  for (const { snapshotId, contents: wanted } of generations.reverse()) {
    const restored = await newVolume(kind, snapshotId);
    await wanted.verify(await orchestrator.bringUp(restored));
    await remove(restored);
    await orchestrator.deleteSnapshot(snapshotId);
  }
});

test(`${CYCLES} rounds of stage, publish, unpublish and unstage leave nothing behind`, async () => {
  const kind = KINDS[1] as Kind;
  const volume = await newVolume(kind);
  const contents = kind.contents();
  const cycle = async (): Promise<void> => {
    await orchestrator.bringUp(volume);
    await contents.work(volume.targetPath, random);
    await orchestrator.takeDown(volume);
  };
  for (let times = 0; times < 5; times += 1) await cycle();
  const before = held(running.plugin.process.pid);
  for (let times = 0; times < CYCLES; times += 1) await cycle();
  const after = held(running.plugin.process.pid);
  assertNothingUp();
  assert.ok(after.files <= before.files + 3, `${before.files} open files, then ${after.files}`);
  assert.ok(
    after.threads <= before.threads + 3,
    `${before.threads} threads, then ${after.threads}`,
  );
  assert.deepEqual(after.children, [], 'processes the plugin started and did not wait for');
  await contents.verify(await orchestrator.bringUp(volume));
  await remove(volume);
});

function held(pid: number | undefined): { files: number; threads: number; children: string[] } {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return {
    files: readdirSync(`/proc/${pid}/fd`).length,
    threads: readdirSync(`/proc/${pid}/task`).length,
    children: children === '' ? [] : children.split(' '),
  };
}

test('a full volume fails its writers, and works again once space is freed', async () => {
  const kind = KINDS[1] as Kind;
  const { volume, contents } = await living(kind);
  const big = join(volume.targetPath, 'big');
  await assert.rejects(writeFile(big, Buffer.alloc(64 * MIB, 1)), /ENOSPC/);
  await writeFile(big, '');
  await work(contents, volume);
  await contents.verify(volume.targetPath);
  await remove(volume);
});
