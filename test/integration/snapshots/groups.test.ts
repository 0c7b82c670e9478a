/**
 * Group snapshots of volumes that are written to. Each is one point in time in the order of writes: a writer writes the
 * same number to one volume and then to another, and the group has a third, slow volume between the two, so that the
 * writer would proceed if it were not blocked. And their members have lists like other snapshots.
 */
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { BLOCK_OPERATIONS, BlockWriter } from '../../support/block-writer.js';
import { SIZES, specOf, type VolumeKind } from '../../support/contents.js';
import { Disturbance } from '../../support/disturbance.js';
import { soundLists, type TakenSnapshot } from '../../support/metadata-check.js';
import { isNightly } from '../../support/nightly.js';
import type { HeldVolume, VolumeSpec } from '../../support/orchestrator.js';
import { assertOneMoment, OrderedWriter, readNumber } from '../../support/ordered-writer.js';
import { seededRandom } from '../../support/random.js';
import { refused, statusOf } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { snapshotFiles } from '../../support/snapshot-files.js';
import { SnapshotImage } from '../../support/snapshot-image.js';

const FROZEN_GROUPS = isNightly ? 100 : 2;
const RAW_GROUPS = isNightly ? 100 : 2;
const RESTLESS_GROUPS = isNightly ? 20 : 2;

/** Of the volume in between: cloning them takes tens of milliseconds. */
const EXTENTS = 4000;
const BLOCK_BYTES = 4096;

const running = runPlugin('groups', { pools: { main: 'xfs', other: 'btrfs' }, poolSizeMiB: 3072 });
const { orchestrator } = running;
let made = 0;

/** A raw volume whose clone takes long: every other block of it is written, so that each is an extent. */
async function newSlowVolume(): Promise<HeldVolume> {
  made += 1;
  const volume = await orchestrator.create(`slow ${made}`, { sizeBytes: 2 * EXTENTS * BLOCK_BYTES });
  const device = await open(await orchestrator.bringUp(volume), 'r+');
  const block = Buffer.alloc(BLOCK_BYTES, 1);
  for (let index = 0; index < EXTENTS; index += 1) {
    await device.write(block, 0, BLOCK_BYTES, 2 * index * BLOCK_BYTES);
  }
  await device.sync();
  await device.close();
  return volume;
}

/** With the file or device that the number is in. */
async function newPlace(kind: VolumeKind, source: VolumeSpec = {}) {
  made += 1;
  const volume = await orchestrator.create(`${kind} ${made}`, { ...specOf(kind), ...source });
  const target = await orchestrator.bringUp(volume);
  return { volume, path: kind === 'block' ? target : join(target, 'number') };
}

/** The number that a volume restored from the snapshot shows. */
async function restoredNumber(kind: VolumeKind, snapshotId = ''): Promise<number> {
  const { volume, path } = await newPlace(kind, { snapshotId });
  const number = readNumber(path);
  await orchestrator.remove(volume);
  return number;
}

/** Chance alone decides whether a group of raw volumes that are written to is taken. */
const MOST_ROUNDS = 300;

/** Asks for so many groups, and goes on until one is taken. Resolves to how many were; the others were FAILED_PRECONDITION. */
async function takeWhileWriting(kinds: readonly [VolumeKind, VolumeKind], groups: number): Promise<number> {
  const places = [await newPlace(kinds[0]), await newPlace(kinds[1])] as const;
  const slow = await newSlowVolume();
  const writer = await OrderedWriter.start([places[0].path, places[1].path]);
  let count = 0;
  try {
    for (let round = 0; round < groups || (count === 0 && round < MOST_ROUNDS); round += 1) {
      const finishedBefore = writer.finished;
      // In either order: it must not matter.
      const volumes = [places[0].volume, slow, places[1].volume];
      const asked = round % 2 === 0 ? volumes : [...volumes].reverse();
      const asking = orchestrator.groupSnapshot(asked, `moment ${made} ${round}`);
      const status = await statusOf(asking);
      const begunAfter = writer.begun;
      if (status !== 'OK') {
        assert.equal(status, 'FAILED_PRECONDITION');
        continue;
      }
      count += 1;
      const group = await asking;
      const ids = asked === volumes ? group.snapshotIds : [...group.snapshotIds].reverse();
      const first = await restoredNumber(kinds[0], ids[0]);
      const second = await restoredNumber(kinds[1], ids[2]);
      assertOneMoment([first, second], { finishedBefore, begunAfter });
      await orchestrator.deleteGroup(group);
    }
  } finally {
    await writer.stop();
  }
  await orchestrator.remove(places[0].volume, places[1].volume, slow);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  assert.ok(writer.finished > groups, 'the writer got on');
  return count;
}

const KINDS: readonly (readonly [VolumeKind, VolumeKind])[] = [
  ['xfs', 'ext4'],
  ['ext4', 'block'],
  ['block', 'xfs'],
  ['block', 'block'],
];

for (const kinds of isNightly ? KINDS : [...KINDS.slice(0, 1), ...KINDS.slice(-1)]) {
  test(`GA2: no group has a later number on ${kinds[1]} than on ${kinds[0]}, which is written first`, async () => {
    const isRaw = kinds[0] === kinds[1];
    const groups = isRaw ? RAW_GROUPS : FROZEN_GROUPS;
    const count = await takeWhileWriting(kinds, groups);
    // Where at most one volume cannot be held still, every group is taken.
    assert.ok(count === groups || (isRaw && count > 0), `${count} of ${groups} were taken`);
  });
}

/** Writes the same block of a device again and again, durably. */
function restless({ targetPath }: HeldVolume): Disturbance {
  const block = Buffer.alloc(BLOCK_BYTES, 1);
  return new Disturbance(async () => {
    const device = await open(targetPath, 'r+');
    await device.write(block, 0, BLOCK_BYTES, 0);
    await device.datasync();
    await device.close();
  });
}

test('a group of constantly written raw volumes is taken, or FAILED_PRECONDITION and nothing is left behind', async () => {
  const volumes = [await newSlowVolume(), await newSlowVolume(), await newSlowVolume()];
  const writers = volumes.map(restless);
  try {
    for (let round = 0; round < RESTLESS_GROUPS; round += 1) {
      const asking = orchestrator.groupSnapshot(volumes, `restless ${round}`);
      if ((await statusOf(asking)) === 'OK') await orchestrator.deleteGroup(await asking);
      else await refused(asking, 'FAILED_PRECONDITION', /being written to/);
      assert.deepEqual(await orchestrator.snapshotIds(), []);
      assert.deepEqual(snapshotFiles(running.poolPath('main', 'snapshots')), []);
    }
  } finally {
    for (const writer of writers) await writer.stop();
  }
  // Volumes at rest can be taken.
  await orchestrator.deleteGroup(await orchestrator.groupSnapshot(volumes, 'at rest'));
  await orchestrator.remove(...volumes);
});

for (const pool of isNightly ? ['main', 'other'] : ['other']) {
  test(`the lists of members of groups and of single snapshots miss nothing in pool ${pool}`, async () => {
    const random = seededRandom(`groups in ${pool}`);
    const [sizeBytes] = SIZES.block;
    const make = async (name: string) => {
      const volume = await orchestrator.create(name, { sizeBytes, parameters: { pool } });
      const writer = new BlockWriter(await orchestrator.bringUp(volume), sizeBytes, random);
      return { volume, writer, taken: [] as TakenSnapshot[] };
    };
    const pair = [await make('first'), await make('second')] as const;
    const volumes = pair.map(({ volume }) => volume);
    const keep = (index: 0 | 1, id = ''): void => {
      const { taken } = pair[index];
      const file = running.poolPath(pool, 'snapshots', id);
      const image = SnapshotImage.read(file, sizeBytes, taken.at(-1)?.image ?? null);
      taken.push({ id, image });
    };
    const groups = [];
    for (const name of ['one', 0, 'two', 1, 'three'] as const) {
      for (const { writer } of pair) writer.randomOperations(40, BLOCK_OPERATIONS);
      if (typeof name === 'number') {
        keep(name, await orchestrator.snapshot(pair[name].volume, `alone ${name}`));
      } else {
        const group = await orchestrator.groupSnapshot(volumes, name);
        groups.push(group);
        for (const index of [0, 1] as const) keep(index, group.snapshotIds[index]);
      }
    }
    for (const { taken, writer } of pair) {
      writer.close();
      assert.equal(taken.length, 4);
      await soundLists(running.client, taken);
    }
    for (const group of groups) await orchestrator.deleteGroup(group);
    for (const id of await orchestrator.snapshotIds()) await orchestrator.deleteSnapshot(id);
    await orchestrator.remove(...volumes);
  });
}
