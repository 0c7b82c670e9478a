/** Many snapshots of one volume, hundreds in a nightly run: taken, compared at random, and deleted to the last block. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { BLOCK_BYTES, TaggedBlocks } from '../support/tagged-blocks.js';
import { newSnapshot, newVolume } from '../support/thin-changes.js';
import { ThinRig } from '../support/thin-rig.js';
import { scanAll } from '../support/wire.js';
import { guestTest } from './guest.js';

const SNAPSHOTS = isNightly ? 400 : 30;
const PAIRS = isNightly ? 80 : 8;
const BLOCKS = 1024;

interface Taken {
  id: string;
  content: TaggedBlocks;
}

guestTest('many snapshots are compared correctly and leave nothing behind', live);

async function live(t: TestContext): Promise<void> {
  const random = seededRandom('many snapshots');
  const rig = await ThinRig.make('many', { dataIsZero: true, dataBytes: 1n << 34n });
  try {
    const { backend } = rig;
    const volumeId = newVolume();
    await backend.createVolume(volumeId, BigInt(BLOCKS * BLOCK_BYTES));
    const { devicePath } = await backend.attach(volumeId, { readOnly: false });
    const content = TaggedBlocks.zeros(BLOCKS);
    const snapshots: Taken[] = [];
    for (let round = 1; round <= SNAPSHOTS; round += 1) {
      for (let writes = random.below(3); writes >= 0; writes -= 1) {
        // A version, not a value: the disk below keeps nothing.
        await content.write(devicePath, random.below(BLOCKS), 1 + (round % 255));
      }
      const id = newSnapshot();
      await backend.createSnapshots([{ volumeId, snapshotId: id }]);
      snapshots.push({ id, content: content.copy() });
    }
    for (let pair = 0; pair < PAIRS; pair += 1)
      await compare(rig, random.pick(snapshots), random.pick(snapshots));
    t.diagnostic(`metadata: ${(await rig.status()).usedMetadataBlocks} blocks`);
    while (snapshots.length > 0) {
      const [gone] = snapshots.splice(random.below(snapshots.length), 1);
      await backend.deleteSnapshot(gone?.id ?? '');
    }
    await backend.deleteVolume(volumeId);
    assert.equal(await rig.deviceCount(), 0);
    assert.equal((await rig.status()).usedDataBlocks, 0n);
    await backend.stop();
    rig.assertSound();
  } finally {
    await rig.dispose();
  }
}

/** Both directions are right: which of the two is older does not matter for what differs. */
async function compare(rig: ThinRig, target: Taken, base: Taken): Promise<void> {
  const { ranges } = await scanAll(rig.native, await rig.backend.scanSource(target.id, base.id));
  const reported = new Set<number>();
  for (const { offset, size } of ranges) {
    for (let at = offset; at < offset + size; at += BigInt(BLOCK_BYTES)) {
      reported.add(Number(at / BigInt(BLOCK_BYTES)));
    }
  }
  for (const block of target.content.changedSince(base.content)) {
    assert.ok(reported.has(block), `block ${block} changed from ${base.id} to ${target.id}`);
  }
}
