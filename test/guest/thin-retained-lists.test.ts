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
async function history(
  pool: ThinPoolOnDisks,
  count: number,
): Promise<{ volume: ThinVolume; snapshots: ThinSnapshot[] }> {
  const volume = await pool.written(12);
  const snapshots: ThinSnapshot[] = [];
  for (let round = 0; round < count; round += 1) {
    snapshots.push(await pool.takeOne(volume));
    volume.write(round * 16 + 1, 2);
    volume.writeBlock(20 + round);
    volume.discardBlock(8 + (round % 4));
    if (round === 1) await pool.grow(volume, volume.image.sizeBytes * 2);
  }
  return { volume, snapshots };
}

test('a snapshot with a later one is retained as a list, and only the newest as a bookmark', async (pool) => {
  const { volume, snapshots } = await history(pool, 4);
  const newest = snapshots[3] as ThinSnapshot;
  for (const [index, snapshot] of snapshots.entries()) await pool.retainAndDelete(snapshot, snapshots[index + 1]);
  assert.equal(namesIn(pool, 'lists').length, 3);
  assert.deepEqual(namesIn(pool, 'bases'), [newest.id]);
  const target = await pool.takeOne(volume);
  // Over the bookmark of the newest one, from which the request makes the last list.
  for (const base of snapshots) await pool.soundDelta(base, target);
  const completed = await pool.backend.bases.retain(newest.id, target.id);
  assert.ok(completed !== null && !('pending' in completed));
  await pool.backend.snapshots.delete(newest.id);
  assert.deepEqual(namesIn(pool, 'bases'), []);
  await pool.restart();
  for (const base of snapshots) await pool.soundDelta(base, target);
  const { usable, invalidated } = pool.backend.bases.all();
  assert.deepEqual(usable.map(({ snapshotId }) => snapshotId).sort(), snapshots.map(({ id }) => id).sort());
  assert.deepEqual(invalidated, []);
});

test('an unclean stop that invalidates bookmarks leaves lists to snapshots that exist', async (pool) => {
  const { volume, snapshots } = await history(pool, 3);
  const [first, second, third] = snapshots as [ThinSnapshot, ThinSnapshot, ThinSnapshot];
  await pool.retainAndDelete(first, second);
  await pool.retainAndDelete(second, third);
  await pool.powerCut(() => volume.discardBlock(2));
  assert.equal(await pool.lossOf(first), '');
  const target = await pool.takeOne(volume);
  for (const base of [first, second]) await pool.soundDelta(base, target);
  // Now the last step is a bookmark, and the next unclean stop breaks it and what leads to it.
  await pool.retainAndDelete(target);
  await pool.retainAndDelete(third, target);
  await pool.powerCut(() => volume.discardBlock(3));
  const next = await pool.takeOne(volume);
  assert.match(await pool.lossOf(target), /discards/);
  assert.match(await pool.lossOf(first), /comes after it and is deleted too.*discards/);
  await refused(pool.backend.changes.scan(next.id, first.id), 'NOT_FOUND', /discards/);
});
