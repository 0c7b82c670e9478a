/** Compares lists with the bytes of raw block volumes: every changed byte is listed. Measures over-reporting. */
import { BlockContent } from '../block-content.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { expect } from '../failure.js';
import { allocatedOf, deltaOf } from '../list-request.js';
import { describeList, expectSameBytesListed, readList } from '../lists.js';
import type { Snapshot, Volume } from '../objects.js';
import { expectSound, type Image, OverReport } from '../oracle.js';
import { coverage, totalBytes } from '../ranges.js';

const ROUNDS = 4;
const OPERATIONS = 120;

interface TakenSnapshot {
  readonly snapshot: Snapshot;
  readonly image: Image;
}

interface Rounds {
  readonly volume: Volume;
  readonly content: BlockContent;
  readonly snapshots: readonly TakenSnapshot[];
}

/** Makes a published raw block volume, which is changed and snapshotted in rounds. */
async function makeRounds(context: CheckContext, rounds: number): Promise<Rounds> {
  const { volumes, random } = context;
  const volume = await volumes.create({ access: 'block' });
  const path = await volumes.publish(volume);
  const content = new BlockContent(volume.sizeBytes);
  const snapshots: TakenSnapshot[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await content.change(path, random, OPERATIONS);
    snapshots.push({ snapshot: await volumes.snapshot(volume), image: content.image() });
  }
  content.noteLeftOut(context);
  return { volume, content, snapshots };
}

/** Checks every delta between snapshots that are `distances` apart. */
async function expectDeltas(
  context: CheckContext,
  snapshots: readonly TakenSnapshot[],
  distances: readonly number[],
): Promise<void> {
  const sums = new OverReport();
  for (const [index, base] of snapshots.entries()) {
    for (const distance of distances) {
      const target = snapshots[index + distance];
      if (target === undefined) continue;
      const { entries } = await readList(context, deltaOf(base.snapshot, target.snapshot));
      const subject = `GetMetadataDelta from snapshot ${index + 1} to ${index + distance + 1}`;
      const comparison = { base: base.image, target: target.image };
      sums.add(expectSound(subject, comparison, entries));
    }
  }
  sums.report(context);
}

async function deltaContent(context: CheckContext): Promise<void> {
  const { snapshots } = await makeRounds(context, ROUNDS);
  await expectDeltas(context, snapshots, [1]);
}

async function deltaChain(context: CheckContext): Promise<void> {
  const { snapshots } = await makeRounds(context, ROUNDS);
  await expectDeltas(context, snapshots, [1, 2, 3]);
}

async function allocatedContent(context: CheckContext): Promise<void> {
  const { snapshots, content } = await makeRounds(context, 2);
  const sums = new OverReport();
  for (const [index, { snapshot, image }] of snapshots.entries()) {
    const { entries } = await readList(context, allocatedOf(snapshot));
    const comparison = { base: content.initialImage(), target: image, zerosMayBeMissing: true };
    sums.add(expectSound(`GetMetadataAllocated of snapshot ${index + 1}`, comparison, entries));
  }
  sums.report(context);
}

async function emptyDelta(context: CheckContext): Promise<void> {
  const { twins } = await context.shared.history();
  const { entries } = await readList(context, deltaOf(...twins));
  const bytes = totalBytes(coverage(entries));
  context.figure('bytes reported although nothing was written', Number(bytes), 'bytes');
  expect(
    entries.length === 0,
    'GetMetadataDelta between snapshots with nothing written in between',
    'no entries',
    () => `${entries.length} entries of ${bytes} bytes`,
  );
}

async function emptyMessage(context: CheckContext): Promise<void> {
  const { twins } = await context.shared.history();
  for (const list of [deltaOf(...twins), allocatedOf(await context.shared.unrelated())]) {
    const { messages } = await readList(context, list);
    expect(
      messages.length > 0,
      `${list.rpc} with nothing to report`,
      'a message with block_metadata_type and volume_capacity_bytes',
      () => 'OK and no message, so the caller learns neither',
    );
  }
}

async function emptyAllocated(context: CheckContext): Promise<void> {
  const { entries } = await readList(context, allocatedOf(await context.shared.unrelated()));
  const bytes = Number(totalBytes(coverage(entries)));
  context.figure('bytes reported for a volume that was never written to', bytes, 'bytes');
}

async function idempotent(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    const first = await readList(context, list);
    const again = await readList(context, list);
    expectSameBytesListed(`${describeList(list)} a second time`, first.entries, again.entries);
  }
}

const DELTA = 'SnapshotMetadata: GetMetadataDelta';
const ALLOCATED = 'SnapshotMetadata: GetMetadataAllocated';

export const metadataContentChecks = checksOf(OF_LISTS, DELTA, [
  {
    id: 'delta.content',
    rule: 'SM24',
    title: 'every byte that was changed on a raw block volume is reported',
    also: ['block'],
    run: deltaContent,
  },
  {
    id: 'delta.chain',
    rule: 'SM24',
    title: 'every changed byte is reported between snapshots that are not adjacent, too',
    also: ['block'],
    run: deltaChain,
  },
  {
    id: 'allocated.content',
    section: ALLOCATED,
    rule: 'SM23',
    title: 'every byte that was written to a raw block volume is reported',
    also: ['block'],
    run: allocatedContent,
  },
  {
    id: 'metadata.empty-delta',
    rule: 'SM24',
    title: 'the delta is empty when nothing was written between the snapshots',
    level: 'should',
    run: emptyDelta,
  },
  {
    id: 'metadata.empty-allocated',
    section: ALLOCATED,
    rule: 'SM18',
    title: 'a volume that was never written to has a list',
    run: emptyAllocated,
  },
  {
    id: 'metadata.empty-message',
    rule: 'SM25',
    title: 'an empty list still carries type and capacity in one message',
    level: 'should',
    run: emptyMessage,
  },
  {
    id: 'metadata.idempotent',
    section: 'SnapshotMetadata: Metadata Format',
    rule: 'SM18',
    title: 'reading a list again returns the same bytes',
    level: 'should',
    run: idempotent,
  },
]);
