/**
 * Repeats how products have lost data that had become zero, by discards or by zeros that were written. docs/lost-blocks.md tells of each
 * loss.
 */
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { LossHistory, UNIT } from '../loss-history.js';
import { CHUNK_BYTES } from '../oracle.js';

const PART = 128 << 10;

async function discardOfClean(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const bytes = history.at(1 / 4);
  await history.write([0, bytes], [history.at(3 / 4), UNIT]);
  const first = await history.snapshot();
  const second = await history.snapshot();
  await history.discard(0, bytes / 2);
  await history.expectAllDeltas([first, second, await history.snapshot()]);
}

async function writeInsideHole(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const bytes = history.at(1 / 2);
  await history.write([0, bytes], [history.at(3 / 4), UNIT]);
  const base = await history.snapshot();
  await history.discard(0, bytes);
  await history.write([bytes / 2, UNIT]);
  await history.expectAllDeltas([base, await history.snapshot()]);
}

async function rewrittenHole(context: CheckContext): Promise<void> {
  for (const isFlushedBetween of [false, true]) {
    const history = await LossHistory.start(context);
    await history.write([PART, PART], [history.at(3 / 4), UNIT]);
    const base = await history.snapshot();
    await history.edit(async ({ discard, write }) => {
      await discard(0, 4 * PART);
      if (isFlushedBetween) return;
      await write(0, history.bytes(PART));
      await write(3 * PART, history.bytes(PART));
    });
    if (isFlushedBetween) await history.write([0, PART], [3 * PART, PART]);
    await history.expectAllDeltas([base, await history.snapshot()]);
    await history.close();
  }
}

async function trailingHole(context: CheckContext): Promise<void> {
  for (const grows of context.advertised.expansion.size > 0 ? [false, true] : [false]) {
    const history = await LossHistory.start(context);
    const { sizeBytes } = history;
    await history.write([0, sizeBytes]);
    const base = await history.snapshot();
    if (grows) await history.grow(2 * sizeBytes);
    await history.discard((sizeBytes / 4) * 3, sizeBytes / 4);
    await history.expectAllDeltas([base, await history.snapshot()]);
    await history.close();
  }
}

async function ignoredDiscard(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const [start, beside] = [history.at(1 / 4), history.at(1 / 2)];
  await history.write([start, 1 << 20], [beside, CHUNK_BYTES], [history.at(3 / 4), UNIT]);
  const first = await history.snapshot();
  await history.discard(start, 1 << 20);
  const second = await history.snapshot();
  await history.write([start, 1 << 20]);
  const third = await history.snapshot();
  await history.zero(start, 1 << 20);
  const fourth = await history.snapshot();
  // A part of what the driver may track as one block: a device with larger blocks may leave it as it is.
  await history.edit(({ discard }) => discard(beside + 4 * UNIT, UNIT));
  await history.expectContent('the volume after a discard of 4 KiB');
  const fifth = await history.snapshot();
  await history.expectRestorable(fifth);
  await history.expectAllDeltas([first, second, third, fourth, fifth]);
}

async function zerosComeBack(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const start = history.at(1 / 4);
  await history.edit(({ write }) => write(start, Buffer.alloc(2 << 20, 0xaa)));
  const first = await history.snapshot();
  await history.zero(start, 1 << 20);
  await history.expectContent('the volume after zeros were written');
  await history.close();
  await history.open();
  await history.expectContent('the volume after it was staged again');
  const second = await history.snapshot();
  await history.expectDelta(first, second);
  await history.expectRestorable(second);
  await context.volumes.deleteSnapshot(first.snapshot);
  await history.expectContent('the volume after the older snapshot was deleted');
  await history.expectRestorable(second);
}

async function holesBesideShared(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const starts = Array.from({ length: Math.floor(history.at(1 / 2) / (2 * PART)) }, (_, index) => index * 2 * PART);
  await history.write(...starts.map((start) => [start, PART / 2] as const));
  const base = await history.snapshot();
  const taken = [base];
  // Each round rewrites blocks that the snapshots share, and writes into the hole behind them before anything is flushed.
  for (const offset of [UNIT, 4 * UNIT]) {
    await history.write(
      ...starts.flatMap((start) => [[start + offset, UNIT] as const, [start + PART / 2 + offset, UNIT] as const]),
    );
    taken.push(await history.snapshot());
  }
  await history.expectAllDeltas(taken);
}

export const lossOfZerosChecks = checksOf([...OF_LISTS, 'block'], 'Losses: discards and zeros', [
  {
    id: 'loss.ceph-clean-discard',
    rule: 'SM24',
    title: 'a discard of data that has not changed since the last snapshot is a change (Ceph, 2015)',
    run: discardOfClean,
  },
  {
    id: 'loss.zfs-write-in-hole',
    rule: 'SM24',
    title: 'a write into a large discarded range leaves the rest of the range a change (OpenZFS, 2015)',
    run: writeInsideHole,
  },
  {
    id: 'loss.zfs-rewritten-hole',
    rule: 'SM24',
    title: 'what is discarded beside blocks that are written before the next flush is a change (OpenZFS, 2016)',
    run: rewrittenHole,
  },
  {
    id: 'loss.btrfs-trailing-hole',
    rule: 'SM24',
    title: 'a discard up to the end of the volume is a change (btrfs, 2018)',
    run: trailingHole,
  },
  {
    id: 'loss.xfs-cow-hole',
    rule: 'SM24',
    title: 'what is written into a hole beside blocks that a snapshot shares is a change (XFS, 2024)',
    run: holesBesideShared,
  },
  {
    id: 'loss.elastio-discard',
    rule: 'SM24',
    title:
      'a discard and zeros are changes, and a small discard harms nothing beside it (elastio-snap, 2025; blksnap, 2026)',
    run: ignoredDiscard,
  },
  {
    id: 'loss.virtualbox-zeros',
    rule: 'SM24',
    title: 'zeros that are written over older data stay zeros, and are a change (VirtualBox, 2026)',
    run: zerosComeBack,
  },
]);
