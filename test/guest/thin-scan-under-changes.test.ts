/**
 * Lists that begin and run while the pool's metadata changes: the volume is written to, discarded, copied and
 * the copies deleted. A model of the contents is the judge.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { sharedThreads } from '../support/shared-threads.js';
import { BLOCK_BYTES, TaggedBlocks } from '../support/tagged-blocks.js';
import { newSnapshot, newVolume } from '../support/thin-changes.js';
import { ThinRig } from '../support/thin-rig.js';
import { scanAll } from '../support/wire.js';
import { guestTest } from './guest.js';

const BLOCKS = 1024;
const WRITES = 60;
/** At least; both go on until the other has enough. */
const SCANS = isNightly ? 40 : 10;
const ROUNDS = isNightly ? 10 : 4;

const run = promisify(execFile);

guestTest('lists are right while the metadata changes under them', underChanges);

async function underChanges(t: TestContext): Promise<void> {
  const random = seededRandom('scans under changes');
  const rig = await ThinRig.make('changes', { dataBytes: 1n << 29n, native: sharedThreads() });
  try {
    const { backend } = rig;
    const volumeId = newVolume();
    await backend.createVolume(volumeId, BigInt(BLOCKS * BLOCK_BYTES));
    const { devicePath } = await backend.attach(volumeId, { readOnly: false });
    const content = TaggedBlocks.zeros(BLOCKS);
    const write = async (tag: number, writes: number): Promise<void> => {
      for (let left = writes; left > 0; left -= 1) {
        await content.write(devicePath, random.below(BLOCKS), tag);
      }
    };
    const cut = async (): Promise<string> => {
      const snapshotId = newSnapshot();
      await backend.createSnapshots([{ volumeId, snapshotId }]);
      return snapshotId;
    };
    await write(1, WRITES);
    const base = { id: await cut(), content: content.copy() };
    await write(2, WRITES);
    const target = { id: await cut(), content: content.copy() };
    const expected = target.content.changedSince(base.content);

    let isOver = false;
    let rounds = 0;
    const changing = (async () => {
      for (; !isOver; rounds += 1) {
        await write(3 + (rounds % 200), 4);
        const from = random.below(BLOCKS - 32) * BLOCK_BYTES;
        await run('blkdiscard', ['-o', String(from), '-l', String(32 * BLOCK_BYTES), devicePath]);
        await backend.deleteSnapshot(await cut());
      }
    })();
    let changesEnd = false;
    const changed = changing.finally(() => {
      changesEnd = true;
    });
    const starts: number[] = [];
    try {
      while ((starts.length < SCANS || rounds < ROUNDS) && !changesEnd) {
        const started = performance.now();
        const source = await backend.scanSource(target.id, base.id);
        starts.push(performance.now() - started);
        const { ranges } = await scanAll(rig.native, source);
        assert.deepEqual(
          blocksOf(ranges),
          [...expected].sort((a, b) => a - b),
        );
      }
    } finally {
      isOver = true;
      await changed;
    }
    starts.sort((a, b) => a - b);
    const [median, longest] = [starts[starts.length >> 1], starts.at(-1)];
    t.diagnostic(
      `${starts.length} lists in ${rounds} rounds of changes; a source takes ${median?.toFixed(1)} ms, at most ${longest?.toFixed(1)} ms`,
    );
    await backend.deleteSnapshot(base.id);
    await assert.rejects(
      backend.scanSource(target.id, base.id).then((source) => scanAll(rig.native, source)),
    );
  } finally {
    await rig.dispose();
  }
}

function blocksOf(ranges: readonly { offset: bigint; size: bigint }[]): number[] {
  const blocks: number[] = [];
  for (const { offset, size } of ranges) {
    for (let at = offset; at < offset + size; at += BigInt(BLOCK_BYTES)) {
      blocks.push(Number(at / BigInt(BLOCK_BYTES)));
    }
  }
  return blocks;
}
