/**
 * What a thin pool retains of deleted snapshots as change lists, on the real dm-thin: when a list takes the
 * place of a bookmark, what breaks a list, and what does not.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { refused } from '../support/refusal.js';
import { type ThinPoolOnDisks, type ThinSnapshot, type ThinVolume, poolTest as test } from './thin-pool-on-disks.js';

const namesIn = (pool: ThinPoolOnDisks, directory: string): string[] => readdirSync(join(pool.directory, directory));

/** Snapshots of an attached volume that has grown and changed in between. */
async function history(pool: ThinPoolOnDisks, count: number): Promise<{ volume: ThinVolume; cuts: ThinSnapshot[] }> {
  const volume = await pool.written(12);
  const cuts: ThinSnapshot[] = [];
  for (let round = 0; round < count; round += 1) {
    cuts.push(await pool.cutOne(volume));
    volume.write(round * 16 + 1, 2);
    volume.writeBlock(20 + round);
    volume.discardBlock(8 + (round % 4));
    if (round === 1) await pool.grow(volume, volume.image.sizeBytes * 2);
  }
  return { volume, cuts };
}

test('a snapshot with a later one is retained as a list, and only the newest as a bookmark', async (pool) => {
  const { volume, cuts } = await history(pool, 4);
  const newest = cuts[3] as ThinSnapshot;
  for (const [index, cut] of cuts.entries()) await pool.keepAndDelete(cut, cuts[index + 1]);
  assert.equal(namesIn(pool, 'lists').length, 3);
  assert.deepEqual(namesIn(pool, 'bases'), [newest.id]);
  const target = await pool.cutOne(volume);
  // Over the bookmark of the newest one, from which the request makes the last list.
  for (const base of cuts) await pool.soundDelta(base, target);
  const completed = await pool.backend.bases.retain(newest.id, target.id);
  assert.ok(completed !== null && !('pending' in completed));
  await pool.backend.snapshots.delete(newest.id);
  assert.deepEqual(namesIn(pool, 'bases'), []);
  await pool.restart();
  for (const base of cuts) await pool.soundDelta(base, target);
  const { usable, invalidated } = pool.backend.bases.all();
  assert.deepEqual(usable.map(({ snapshotId }) => snapshotId).sort(), cuts.map((c) => c.id).sort());
  assert.deepEqual(invalidated, []);
});

test('an unclean stop that invalidates bookmarks leaves lists to snapshots that exist', async (pool) => {
  const { volume, cuts } = await history(pool, 3);
  const [first, second, third] = cuts as [ThinSnapshot, ThinSnapshot, ThinSnapshot];
  await pool.keepAndDelete(first, second);
  await pool.keepAndDelete(second, third);
  await pool.powerCut(() => volume.discardBlock(2));
  assert.equal(await pool.lossOf(first), '');
  const target = await pool.cutOne(volume);
  for (const base of [first, second]) await pool.soundDelta(base, target);
  // Now the last step is a bookmark, and the next unclean stop breaks it and what leads to it.
  await pool.keepAndDelete(target);
  await pool.keepAndDelete(third, target);
  await pool.powerCut(() => volume.discardBlock(3));
  const next = await pool.cutOne(volume);
  assert.match(await pool.lossOf(target), /discards/);
  assert.match(await pool.lossOf(first), /comes after it and is deleted too.*discards/);
  await refused(pool.backend.changes.scan(next.id, first.id), 'NOT_FOUND', /discards/);
});
