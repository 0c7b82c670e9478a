/**
 * What a thin pool retains of deleted snapshots as change lists, on the real dm-thin: when a list takes the
 * place of a bookmark, what breaks a list, and what does not.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { rejectsWith } from '../support/expect-status.js';
import {
  poolTest,
  type ThinPoolOnDisks,
  type WorldSnapshot,
  type WorldVolume,
} from './thin-pool-on-disks.js';

const PASS = {};

const namesIn = (world: ThinPoolOnDisks, directory: string): string[] =>
  readdirSync(join(world.rig.directory, directory));

/** Snapshots of an attached volume that has grown and changed in between. */
async function history(
  world: ThinPoolOnDisks,
  count: number,
): Promise<{ volume: WorldVolume; cuts: WorldSnapshot[] }> {
  const volume = await world.written(12);
  const cuts: WorldSnapshot[] = [];
  for (let round = 0; round < count; round += 1) {
    cuts.push(await world.cutOne(volume));
    volume.write(round * 16 + 1, 2);
    volume.writeBlock(20 + round);
    volume.discardBlock(8 + (round % 4));
    if (round === 1) await world.grow(volume, volume.image.sizeBytes * 2);
  }
  return { volume, cuts };
}

function at<Item>(items: readonly Item[], index: number): Item {
  const item = items.at(index);
  assert.ok(item !== undefined);
  return item;
}

async function assertSoundFromAll(
  world: ThinPoolOnDisks,
  bases: readonly WorldSnapshot[],
  target: WorldSnapshot,
): Promise<void> {
  for (const base of bases) await world.soundDelta(base, target);
}

poolTest(
  'a snapshot with a later one is retained as a list, and only the newest as a bookmark',
  PASS,
  async (world) => {
    const { volume, cuts } = await history(world, 4);
    for (const [index, cut] of cuts.entries()) await world.keepAndDelete(cut, cuts[index + 1]);
    assert.equal(namesIn(world, 'lists').length, 3);
    assert.deepEqual(namesIn(world, 'bases'), [at(cuts, 3).id]);
    const target = await world.cutOne(volume);
    // Over the bookmark of the newest one, from which the request makes the last list.
    await assertSoundFromAll(world, cuts, target);
    const completed = await world.backend.retainBase(at(cuts, 3).id, target.id);
    assert.equal(completed?.pending, undefined);
    assert.deepEqual(namesIn(world, 'bases'), []);
    await world.rig.restart();
    await assertSoundFromAll(world, cuts, target);
    const { usable, invalidated } = await world.backend.retainedBases();
    assert.deepEqual(
      usable.map(({ snapshotId }) => snapshotId).sort(),
      cuts.map((c) => c.id).sort(),
    );
    assert.deepEqual(invalidated, []);
  },
);

poolTest(
  'an unclean stop that invalidates bookmarks leaves lists to snapshots that exist',
  PASS,
  async (world) => {
    const { volume, cuts } = await history(world, 3);
    const [first, second, third] = [at(cuts, 0), at(cuts, 1), at(cuts, 2)];
    await world.keepAndDelete(first, second);
    await world.keepAndDelete(second, third);
    await world.powerCut(() => volume.discardBlock(2));
    assert.equal(await world.lossOf(first), null);
    const target = await world.cutOne(volume);
    await assertSoundFromAll(world, [first, second], target);
    // Now the last step is a bookmark, and the next unclean stop breaks it and what leads to it.
    await world.keepAndDelete(target);
    await world.keepAndDelete(third, target);
    await world.powerCut(() => volume.discardBlock(3));
    const next = await world.cutOne(volume);
    assert.match((await world.lossOf(target)) ?? '', /discards/);
    assert.match((await world.lossOf(first)) ?? '', /comes after it and is deleted too.*discards/);
    await rejectsWith(world.backend.scanSource(next.id, first.id), 'NOT_FOUND', /discards/);
  },
);
