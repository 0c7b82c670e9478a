/**
 * A group snapshot is one point in time in the order of writes. The tests use a writer that writes the
 * same number to one volume and then to another, while groups are taken and restored. The group has a
 * third, slow volume between the two, so that the writer would proceed if it were not blocked.
 */
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { Disturbance } from '../support/contents.js';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { assertOneMoment, OrderedWriter, readNumber } from '../support/ordered-writer.js';
import { type Random, seededRandom } from '../support/random.js';
import { refused, statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { makeSlowVolume } from '../support/slow-volume.js';
import { snapshotFiles } from '../support/snapshot-files.js';

const CUTS = isNightly ? 100 : 5;
const RESTLESS_CUTS = isNightly ? 20 : 2;
const RAW_CUTS = isNightly ? 100 : 8;

type Kind = 'block' | 'ext4' | 'xfs';
const SIZES: Readonly<Record<Kind, number>> = { block: 8 * MIB, ext4: 24 * MIB, xfs: 300 * MIB };
/** Of the volume in between: cloning them takes tens of milliseconds. */
const EXTENTS = 4000;
const BLOCK_BYTES = 4096;

const running = runPlugin('group-moment', { pools: { main: 'xfs' }, poolSizeMiB: 4096 });
const { orchestrator } = running;
let made = 0;

interface Place {
  kind: Kind;
  volume: HeldVolume;
  /** The file or device the number is in. */
  path: string;
}

const numberPath = (kind: Kind, target: string): string =>
  kind === 'block' ? target : join(target, 'number');

function newSlowVolume(): Promise<HeldVolume> {
  made += 1;
  return makeSlowVolume(orchestrator, `slow ${made}`, EXTENTS);
}

async function newPlace(kind: Kind, snapshotId?: string): Promise<Place> {
  made += 1;
  const volume = await orchestrator.create(`${kind} ${made}`, {
    capability: kind === 'block' ? blockCapability() : mountCapability(kind),
    sizeBytes: SIZES[kind],
    ...(snapshotId === undefined ? {} : { snapshotId }),
  });
  const path = numberPath(kind, await orchestrator.bringUp(volume));
  return { kind, volume, path };
}

async function remove(volume: HeldVolume): Promise<void> {
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
}

/** The number that a volume restored from the snapshot shows. */
async function restoredNumber(kind: Kind, snapshotId: string): Promise<number> {
  const place = await newPlace(kind, snapshotId);
  const number = readNumber(place.path);
  await remove(place.volume);
  return number;
}

interface Trial {
  kinds: readonly [Kind, Kind];
  cuts: number;
  pauseMs: number;
  random: Random;
}

/** Resolves to the number of groups taken. The others were FAILED_PRECONDITION. */
async function cutWhileWriting({ kinds, cuts, pauseMs, random }: Trial): Promise<number> {
  const places = [await newPlace(kinds[0]), await newPlace(kinds[1])] as const;
  const slow = await newSlowVolume();
  const writer = await OrderedWriter.start([places[0].path, places[1].path], random, pauseMs);
  let count = 0;
  try {
    for (let round = 0; round < cuts; round += 1) {
      const finishedBefore = writer.finished;
      // In either order: it must not matter.
      const volumes = [places[0].volume, slow, places[1].volume];
      const asked = round % 2 === 0 ? volumes : [...volumes].reverse();
      const cut = orchestrator.groupSnapshot(asked, `moment ${made} ${round}`);
      const status = await statusOf(cut);
      const begunAfter = writer.begun;
      if (status !== 'OK') {
        assert.equal(status, 'FAILED_PRECONDITION');
        continue;
      }
      count += 1;
      const group = await cut;
      const ids = asked === volumes ? group.snapshotIds : [...group.snapshotIds].reverse();
      const first = await restoredNumber(kinds[0], ids[0] ?? '');
      const second = await restoredNumber(kinds[1], ids[2] ?? '');
      assertOneMoment([first, second], { finishedBefore, begunAfter });
      await orchestrator.deleteGroup(group);
    }
  } finally {
    await writer.stop();
  }
  for (const volume of [...places.map((place) => place.volume), slow]) await remove(volume);
  assert.ok(writer.finished > cuts, 'the writer got on');
  return count;
}

const FROZEN: readonly (readonly [Kind, Kind])[] = [
  ['ext4', 'ext4'],
  ['xfs', 'ext4'],
  ['ext4', 'block'],
  ['block', 'xfs'],
];

for (const kinds of FROZEN) {
  test(`GA2: if a counter is written to ${kinds[0]} and then to ${kinds[1]}, no group has the second ahead of the first`, async () => {
    const random = seededRandom('moment');
    const count = await cutWhileWriting({ kinds, cuts: CUTS, pauseMs: 0, random });
    assert.equal(count, CUTS, 'at most one volume cannot be held still, so every group is cut');
  });
}

test('GA2: if a counter is written to two raw volumes in turn, no group has the second ahead of the first', async () => {
  const random = seededRandom('raw moment');
  const kinds = ['block', 'block'] as const;
  const count = await cutWhileWriting({ kinds, cuts: RAW_CUTS, pauseMs: 0, random });
  console.log(`# ${count} of ${RAW_CUTS} groups of raw volumes that are written to were cut`);
  assert.ok(count > 0, 'none was cut');
  assert.deepEqual(await orchestrator.snapshotIds(), []);
});

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

async function countRefusals(volumes: readonly HeldVolume[]): Promise<number> {
  let refusals = 0;
  for (let round = 0; round < RESTLESS_CUTS; round += 1) {
    const cut = orchestrator.groupSnapshot(volumes, `restless ${round}`);
    if ((await statusOf(cut)) === 'OK') {
      await orchestrator.deleteGroup(await cut);
    } else {
      refusals += 1;
      await refused(cut, 'FAILED_PRECONDITION', /being written to/);
    }
    assert.deepEqual(await orchestrator.snapshotIds(), []);
    assert.deepEqual(snapshotFiles(running.poolPath('main', 'snapshots')), []);
  }
  return refusals;
}

test('a group of constantly written raw volumes is taken, or FAILED_PRECONDITION and nothing is left behind', async () => {
  const volumes = [await newSlowVolume(), await newSlowVolume(), await newSlowVolume()];
  const writers = volumes.map(restless);
  try {
    const refusals = await countRefusals(volumes);
    console.log(`# ${refusals} of ${RESTLESS_CUTS} groups of restless volumes were refused`);
  } finally {
    for (const writer of writers) await writer.stop();
  }
  // At rest they can be cut.
  await orchestrator.deleteGroup(await orchestrator.groupSnapshot(volumes, 'at rest'));
  for (const volume of volumes) await remove(volume);
});
