/**
 * Repeats how products have lost changes at the edges of ranges, volumes, pages and requests. docs/lost-blocks.md tells of each loss.
 */
import { StatusCode } from '../../../base/errors.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { expect } from '../failure.js';
import { allocatedOf, deltaOf, type ListRequest } from '../list-request.js';
import { describeList, expectListRefused, expectSameBytesListed, expectTail, readList, readToEnd } from '../lists.js';
import { LossHistory, UNIT } from '../loss-history.js';
import { volumeSizeOf } from '../options.js';
import { CHUNK_BYTES, expectSound } from '../oracle.js';
import { describeRefusal } from '../refusal.js';

const MIB = 1 << 20;

async function growthMark(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const before = history.sizeBytes;
  await history.write([0, UNIT]);
  const first = await history.snapshot();
  await history.grow(2 * before);
  await history.write([0, UNIT], [before - UNIT, UNIT], [before, UNIT], [history.sizeBytes - UNIT, UNIT]);
  const second = await history.snapshot();
  await history.write([16 * UNIT, UNIT]);
  await history.expectAllDeltas([first, second, await history.snapshot()]);
}

async function growthBetween(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const before = history.sizeBytes;
  await history.write([history.at(1 / 2), UNIT]);
  const first = await history.snapshot();
  await history.grow(2 * before);
  await history.write([before - UNIT, 2 * UNIT], [history.at(3 / 4), UNIT]);
  const second = await history.snapshot();
  await history.expectAllocated(first);
  await history.expectDelta(first, second);
  for (const each of [first, second]) await history.expectRestorable(each);
  // A list between two snapshots ends although the volume is larger by now.
  await history.grow(3 * before);
  await history.expectDelta(first, second);
}

/** More than the pages of the products in which this loss was found have. A run with small volumes has fewer. */
const MANY_RANGES = { small: 2_001, large: 10_001 };
const SMALL_BYTES = 32 * MIB;
const STEP = 2 * UNIT;

async function onePage(context: CheckContext): Promise<void> {
  const isSmall = volumeSizeOf(context.options, 'block') < SMALL_BYTES;
  const ranges = isSmall ? MANY_RANGES.small : MANY_RANGES.large;
  const history = await LossHistory.start(context, ranges * STEP);
  const places = [1, 3, 5, 7, 9].map((part) => [history.at(part / 10), UNIT] as const);
  await history.write(...places);
  const first = await history.snapshot();
  await history.write(...places);
  const second = await history.snapshot();
  for (const list of [deltaOf(first.snapshot, second.snapshot), allocatedOf(second.snapshot)]) {
    const whole = await readList(context, list);
    for (const maxResults of [1, 2]) {
      const { entries } = await readList(context, list, { maxResults });
      expectSameBytesListed(describeList(list, { maxResults }), whole.entries, entries);
    }
  }
  await history.expectDelta(first, second);
  await history.edit(async ({ write }) => {
    for (let range = 0; range < ranges; range += 1) await write(range * STEP, history.bytes(UNIT));
  });
  await history.expectAllDeltas([first, second, await history.snapshot()]);
}

async function offsetInside(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const bytes = Math.min(16 * MIB, history.sizeBytes);
  await history.write([0, bytes]);
  const first = await history.snapshot();
  await history.write([0, bytes]);
  const second = await history.snapshot();
  const offsets = [UNIT, MIB, 4 * MIB - UNIT, 4 * MIB, 4 * MIB + 512].filter((offset) => offset < bytes);
  for (const list of [deltaOf(first.snapshot, second.snapshot), allocatedOf(second.snapshot)]) {
    await expectTails(context, list, offsets);
  }
  await history.expectDelta(first, second);
}

async function expectTails(context: CheckContext, list: ListRequest, offsets: readonly number[]): Promise<void> {
  const whole = await readList(context, list);
  for (const offset of offsets) {
    const fields = { startingOffset: BigInt(offset) };
    const { entries } = await readList(context, list, fields);
    expectTail(describeList(list, fields), whole.entries, entries, BigInt(offset));
  }
}

async function offsetRounding(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const first = await history.snapshot();
  await history.increment(9_000);
  const second = await history.snapshot();
  const list = deltaOf(first.snapshot, second.snapshot);
  const { entries } = await readList(context, list, { startingOffset: 6_144n });
  expectSound(`${list.rpc} from byte 6144`, { base: first.image, target: second.image }, entries);
  const end = BigInt(history.sizeBytes);
  const atEnd = await readToEnd(context, list, { startingOffset: end });
  const isRefused = atEnd.end.code === StatusCode.OUT_OF_RANGE;
  const isEmpty = atEnd.end.code === StatusCode.OK && atEnd.entries.length === 0;
  const subject = describeList(list, { startingOffset: end });
  expect(isRefused || isEmpty, subject, 'an empty list, or OUT_OF_RANGE', () => describeRefusal(atEnd.end));
  for (const startingOffset of [end + 1n, -1n]) {
    await expectListRefused(context, list, { startingOffset }, [StatusCode.OUT_OF_RANGE]);
  }
}

async function lastRange(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const end = history.sizeBytes;
  await history.write([end - 2 * UNIT, 2 * UNIT]);
  const first = await history.snapshot();
  await history.write([end - UNIT, UNIT]);
  const second = await history.snapshot();
  await history.write([history.at(1 / 2), UNIT]);
  const third = await history.snapshot();
  await history.write([0, UNIT], [end - UNIT, UNIT]);
  await history.expectAllDeltas([first, second, third, await history.snapshot()]);
}

async function longRange(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, history.sizeBytes]);
  const base = await history.snapshot();
  await history.write([CHUNK_BYTES, UNIT], [history.sizeBytes - 2 * CHUNK_BYTES, UNIT]);
  await history.expectAllDeltas([base, await history.snapshot()]);
}

async function neighbours(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const blocks = [1, 2, 3, 4, 5];
  // One after the other, so that the driver finds places for them in this order.
  const rewrite = async (order: readonly number[]): Promise<void> => {
    for (const block of order) await history.write([block * CHUNK_BYTES, CHUNK_BYTES]);
  };
  await rewrite(blocks);
  const snapshots = [await history.snapshot()];
  for (const order of [[3, 2, 5], [2], context.random.shuffled(blocks).slice(0, 3)]) {
    await rewrite(order);
    snapshots.push(await history.snapshot());
  }
  await history.expectAllDeltas(snapshots);
}

export const lossOfRangesChecks = checksOf([...OF_LISTS, 'block'], 'Losses: edges, growth and pages', [
  {
    id: 'loss.vmware-growth',
    rule: 'SM24',
    title: 'writes after growth are changes, on both sides of the old end and in the next delta (VMware, 2014)',
    also: ['expand'],
    run: growthMark,
  },
  {
    id: 'loss.vsphere-one-page',
    rule: 'SM24',
    title:
      'a list has all its messages, whatever max_results and the number of ranges are (vSphere CSI driver, 2026; CDI, 2024)',
    run: onePage,
  },
  {
    id: 'loss.ceph-offset',
    rule: 'SM24',
    title: 'a list from an offset inside an object has the places of the whole list (Ceph, 2022)',
    run: offsetInside,
  },
  {
    id: 'loss.thin-delta-last-range',
    rule: 'SM24',
    title: 'the last block of a volume is a change like any other, alone and with others (thin_delta, 2015)',
    run: lastRange,
  },
  {
    id: 'loss.thin-delta-long-range',
    rule: 'SM24',
    title: 'small changes in a volume that was written in one pass are changes (thin_delta, 2016)',
    run: longRange,
  },
  {
    id: 'loss.thin-delta-neighbours',
    rule: 'SM24',
    title: 'neighbours that are rewritten in another order are told apart (thin_delta, 2023)',
    run: neighbours,
  },
  {
    id: 'loss.virtnbdbackup-growth',
    rule: 'SM24',
    title: 'a delta across growth is not cut at the old end, and each snapshot keeps its size (virtnbdbackup, 2023)',
    also: ['expand'],
    run: growthBetween,
  },
  {
    id: 'loss.host-path-offset',
    rule: 'SM24',
    title:
      'an offset inside a block does not shift what is listed, and offsets beyond the end are refused (csi-driver-host-path)',
    run: offsetRounding,
  },
]);
