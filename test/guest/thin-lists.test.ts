/** Lists among many snapshots of one volume, hundreds in a nightly run, and while the metadata changes under them. */
import assert from 'node:assert/strict';
import { Disturbance } from '../support/disturbance.js';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { sharedThreads } from '../support/shared-threads.js';
import { PAGES_A_BLOCK, poolTest, type ThinSnapshot } from './thin-pool-on-disks.js';

const SNAPSHOTS = isNightly ? 200 : 6;
const PAIRS = isNightly ? 40 : 3;
const BLOCKS = 1024;
const SIZE = BLOCKS * 65_536;

poolTest(
  'many snapshots are compared correctly and leave nothing behind',
  async (pool) => {
    const random = seededRandom('many snapshots');
    const { backend } = pool;
    const volume = await pool.written(0, SIZE);
    const snapshots: ThinSnapshot[] = [];
    for (let round = 1; round <= SNAPSHOTS; round += 1) {
      for (let writes = random.below(3); writes >= 0; writes -= 1) {
        volume.writeBlock(random.below(BLOCKS));
      }
      snapshots.push(await pool.takeOne(volume));
    }
    // In both directions: which of the two is older does not matter for what differs.
    for (let pair = 0; pair < PAIRS; pair += 1) await pool.soundDelta(random.pick(snapshots), random.pick(snapshots));
    console.log(`# metadata: ${(await pool.status()).usedMetadataBlocks} blocks`);
    while (snapshots.length > 0) {
      const [gone] = snapshots.splice(random.below(snapshots.length), 1);
      await backend.snapshots.delete(gone?.id ?? '');
    }
    await pool.remove(volume);
    assert.equal(await pool.deviceCount(), 0);
    assert.equal((await pool.status()).usedDataBlocks, 0n);
    await backend.stop();
    pool.assertSound();
  },
  { dataIsZero: true, dataBytes: 1n << 34n },
);

const WRITES = 60;
/** At least; both go on until the other has enough. */
const SCANS = isNightly ? 40 : 2;
const ROUNDS = isNightly ? 10 : 1;

poolTest(
  'lists are right while the metadata changes',
  async (pool) => {
    const random = seededRandom('scans under changes');
    const volume = await pool.written(0, SIZE);
    const write = (writes: number): void => {
      for (let left = writes; left > 0; left -= 1) volume.writeBlock(random.below(BLOCKS));
    };
    write(WRITES);
    const base = await pool.takeOne(volume);
    write(WRITES);
    const target = await pool.takeOne(volume);
    const pages = target.image.changedSince(base.image);
    const expected = [...new Set(pages.map((page) => Math.floor(page / PAGES_A_BLOCK)))];

    const changes = new Disturbance(async () => {
      write(4);
      volume.discard(random.below(BLOCKS - 32) * PAGES_A_BLOCK, 32 * PAGES_A_BLOCK);
      await pool.backend.snapshots.delete((await pool.takeOne(volume)).id);
    });
    let scans = 0;
    try {
      for (; (scans < SCANS || changes.rounds < ROUNDS) && !changes.hasEnded; scans += 1)
        assert.deepEqual(await pool.reported(base, target), expected);
    } finally {
      await changes.stop();
    }
    console.log(`# ${scans} lists in ${changes.rounds} rounds of changes`);
    await pool.backend.snapshots.delete(base.id);
    await assert.rejects(pool.reported(base, target));
  },
  { dataBytes: 1n << 29n, native: sharedThreads },
);
