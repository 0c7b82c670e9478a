/** Lists against the bytes: nothing that differs is missing. Over-reporting is measured. */
import { BlockContent } from '../block-content.js';
import { type Check, type CheckContext, expect } from '../check.js';
import { allocatedOf, deltaOf, describeList, expectSameBytesListed, readList } from '../lists.js';
import type { Snapshot, Volume } from '../objects.js';
import { expectSound, type Image, OverReport } from '../oracle.js';
import { coverage, totalBytes } from '../ranges.js';

const NEEDS = ['metadata', 'snapshots', 'volumes', 'publish'] as const;
const ROUNDS = 4;
const OPERATIONS = 120;

interface Cut {
  readonly snapshot: Snapshot;
  readonly image: Image;
}

interface Rounds {
  readonly volume: Volume;
  readonly content: BlockContent;
  readonly cuts: readonly Cut[];
}

/** A published raw block volume, changed and cut again and again. */
async function makeRounds(context: CheckContext, rounds: number): Promise<Rounds> {
  const { volumes, random } = context;
  const volume = await volumes.create({ access: 'block' });
  const path = await volumes.publish(volume);
  const content = new BlockContent(volume.sizeBytes);
  const cuts: Cut[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await content.change(path, random, OPERATIONS);
    cuts.push({ snapshot: await volumes.snapshot(volume), image: content.image() });
  }
  return { volume, content, cuts };
}

/** Every delta between cuts that lie `distances` apart. */
async function expectDeltas(
  context: CheckContext,
  cuts: readonly Cut[],
  distances: readonly number[],
): Promise<void> {
  const sums = new OverReport();
  for (const [index, base] of cuts.entries()) {
    for (const distance of distances) {
      const target = cuts[index + distance];
      if (target === undefined) continue;
      const { entries } = await readList(context, deltaOf(base.snapshot, target.snapshot));
      const subject = `GetMetadataDelta from cut ${index + 1} to ${index + distance + 1}`;
      const comparison = { base: base.image, target: target.image };
      sums.add(expectSound(subject, comparison, entries));
    }
  }
  addFigures(context, sums);
}

function addFigures(context: CheckContext, sums: OverReport): void {
  context.figure('differing bytes', sums.differingBytes, 'bytes');
  context.figure('reported bytes', sums.reportedBytes, 'bytes');
  context.figure('over-report factor', sums.factor, 'reported for one that differs');
}

async function deltaOracle(context: CheckContext): Promise<void> {
  const { cuts } = await makeRounds(context, ROUNDS);
  await expectDeltas(context, cuts, [1]);
}

async function deltaChain(context: CheckContext): Promise<void> {
  const { cuts } = await makeRounds(context, ROUNDS);
  await expectDeltas(context, cuts, [1, 2, 3]);
}

async function allocatedOracle(context: CheckContext): Promise<void> {
  const { cuts, content } = await makeRounds(context, 2);
  const sums = new OverReport();
  for (const [index, { snapshot, image }] of cuts.entries()) {
    const { entries } = await readList(context, allocatedOf(snapshot));
    const comparison = { base: content.initialImage(), target: image, zerosMayBeMissing: true };
    sums.add(expectSound(`GetMetadataAllocated of cut ${index + 1}`, comparison, entries));
  }
  addFigures(context, sums);
}

async function emptyDelta(context: CheckContext): Promise<void> {
  const { twins } = await context.common.history();
  const { entries } = await readList(context, deltaOf(...twins));
  const bytes = totalBytes(coverage(entries));
  context.figure('bytes reported though nothing was written', Number(bytes), 'bytes');
  expect(
    entries.length === 0,
    'GetMetadataDelta between snapshots with nothing written in between',
    'no entries',
    () => `${entries.length} entries of ${bytes} bytes`,
  );
}

async function emptyMessage(context: CheckContext): Promise<void> {
  const { twins } = await context.common.history();
  for (const list of [deltaOf(...twins), allocatedOf(await context.common.stranger())]) {
    const { messages } = await readList(context, list);
    expect(
      messages.length > 0,
      `${list.rpc} where there is nothing to report`,
      'a message with block_metadata_type and volume_capacity_bytes',
      () => 'OK and no message: the caller learns neither',
    );
  }
}

async function emptyAllocated(context: CheckContext): Promise<void> {
  const { entries } = await readList(context, allocatedOf(await context.common.stranger()));
  const bytes = Number(totalBytes(coverage(entries)));
  context.figure('bytes reported of a volume nobody wrote to', bytes, 'bytes');
}

async function idempotent(context: CheckContext): Promise<void> {
  for (const list of await context.common.lists()) {
    const first = await readList(context, list);
    const again = await readList(context, list);
    expectSameBytesListed(`${describeList(list)} a second time`, first.entries, again.entries);
  }
}

const DELTA = 'SnapshotMetadata: GetMetadataDelta';
const ALLOCATED = 'SnapshotMetadata: GetMetadataAllocated';

export const metadataDeltaChecks: readonly Check[] = [
  {
    id: 'delta.truth',
    section: DELTA,
    rule: 'SM24',
    title: 'every byte that was changed on a raw block volume is reported',
    level: 'must',
    needs: [...NEEDS, 'block'],
    run: deltaOracle,
  },
  {
    id: 'delta.chain',
    section: DELTA,
    rule: 'SM24',
    title: 'also between snapshots that are not neighbours',
    level: 'must',
    needs: [...NEEDS, 'block'],
    run: deltaChain,
  },
  {
    id: 'allocated.truth',
    section: ALLOCATED,
    rule: 'SM23',
    title: 'every byte that was written to a raw block volume is reported',
    level: 'must',
    needs: [...NEEDS, 'block'],
    run: allocatedOracle,
  },
  {
    id: 'metadata.empty-delta',
    section: DELTA,
    rule: 'SM24',
    title: 'nothing is reported where nothing was written',
    level: 'should',
    needs: NEEDS,
    run: emptyDelta,
  },
  {
    id: 'metadata.empty-allocated',
    section: ALLOCATED,
    rule: 'SM18',
    title: 'a volume nobody wrote to has a list',
    level: 'must',
    needs: NEEDS,
    run: emptyAllocated,
  },
  {
    id: 'metadata.empty-message',
    section: DELTA,
    rule: 'SM25',
    title: 'an empty list tells type and capacity in a message',
    level: 'should',
    needs: NEEDS,
    run: emptyMessage,
  },
  {
    id: 'metadata.idempotent',
    section: 'SnapshotMetadata: Metadata Format',
    rule: 'SM18',
    title: 'the same list is the same when it is asked for again',
    level: 'should',
    needs: NEEDS,
    run: idempotent,
  },
];
