/** Lists among many snapshots of one volume, hundreds in a nightly run, and while the metadata changes under them. */
import assert from 'node:assert/strict';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { sharedThreads } from '../support/shared-threads.js';
import { PAGES_A_BLOCK, poolTest, type WorldSnapshot } from './thin-pool-on-disks.js';

const SNAPSHOTS = isNightly ? 400 : 30;
const PAIRS = isNightly ? 80 : 8;
const BLOCKS = 1024;
const SIZE = BLOCKS * 65_536;

poolTest(
  'many snapshots are compared correctly and leave nothing behind',
  { dataIsZero: true, dataBytes: 1n << 34n },
  async (world, t) => {
    const random = seededRandom('many snapshots');
    const { backend, rig } = world;
    const volume = await world.written(0, SIZE);
    const snapshots: WorldSnapshot[] = [];
    for (let round = 1; round <= SNAPSHOTS; round += 1) {
      for (let writes = random.below(3); writes >= 0; writes -= 1) {
        volume.writeBlock(random.below(BLOCKS));
      }
      snapshots.push(await world.cutOne(volume));
    }
    // In both directions: which of the two is older does not matter for what differs.
    for (let pair = 0; pair < PAIRS; pair += 1)
      await world.soundDelta(random.pick(snapshots), random.pick(snapshots));
    t.diagnostic(`metadata: ${(await rig.status()).usedMetadataBlocks} blocks`);
    while (snapshots.length > 0) {
      const [gone] = snapshots.splice(random.below(snapshots.length), 1);
      await backend.deleteSnapshot(gone?.id ?? '');
    }
    await world.remove(volume);
    assert.equal(await rig.deviceCount(), 0);
    assert.equal((await rig.status()).usedDataBlocks, 0n);
    await backend.stop();
    rig.assertSound();
  },
);

const WRITES = 60;
/** At least; both go on until the other has enough. */
const SCANS = isNightly ? 40 : 10;
const ROUNDS = isNightly ? 10 : 4;

poolTest(
  'lists are right while the metadata changes under them',
  { dataBytes: 1n << 29n, native: sharedThreads },
  async (world, t) => {
    const random = seededRandom('scans under changes');
    const volume = await world.written(0, SIZE);
    const write = (writes: number): void => {
      for (let left = writes; left > 0; left -= 1) volume.writeBlock(random.below(BLOCKS));
    };
    write(WRITES);
    const base = await world.cutOne(volume);
    write(WRITES);
    const target = await world.cutOne(volume);
    const pages = target.image.changedSince(base.image);
    const expected = [...new Set(pages.map((page) => Math.floor(page / PAGES_A_BLOCK)))];

    let isOver = false;
    let rounds = 0;
    const changing = (async () => {
      for (; !isOver; rounds += 1) {
        write(4);
        volume.discard(random.below(BLOCKS - 32) * PAGES_A_BLOCK, 32 * PAGES_A_BLOCK);
        await world.backend.deleteSnapshot((await world.cutOne(volume)).id);
      }
    })();
    let changesEnd = false;
    const changed = changing.finally(() => {
      changesEnd = true;
    });
    let scans = 0;
    try {
      for (; (scans < SCANS || rounds < ROUNDS) && !changesEnd; scans += 1)
        assert.deepEqual(await world.reported(base, target), expected);
    } finally {
      isOver = true;
      await changed;
    }
    t.diagnostic(`${scans} lists in ${rounds} rounds of changes`);
    await world.backend.deleteSnapshot(base.id);
    await assert.rejects(world.reported(base, target));
  },
);
