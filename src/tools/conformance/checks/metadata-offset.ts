/** starting_offset: a list from any position is the tail of the whole list. */
import { StatusCode } from '../../../base/errors.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { expect } from '../failure.js';
import type { ListRequest } from '../list-request.js';
import {
  describeList,
  expectListRefused,
  expectSameBytesListed,
  expectTail,
  type ListFields,
  readList,
  readToEnd,
  withList,
} from '../lists.js';
import { coverage, type Entry, tailFrom } from '../ranges.js';
import { describeRefusal } from '../refusal.js';

const MAX_INT64 = 2n ** 63n - 1n;

/** Yields each list in full, with its capacity. */
async function* wholeLists(
  context: CheckContext,
): AsyncGenerator<{ list: ListRequest; whole: readonly Entry[]; capacity: bigint }> {
  const { volume, target } = await context.shared.history();
  const capacity = BigInt(target.sizeBytes === 0 ? volume.sizeBytes : target.sizeBytes);
  for (const list of await context.shared.lists()) {
    const { entries } = await readList(context, list);
    expect(entries.length > 0, list.rpc, 'entries, as the volume was written to', () => 'none');
    yield { list, whole: coverage(entries), capacity };
  }
}

async function expectTails(
  context: CheckContext,
  offsetsOf: (whole: readonly Entry[], capacity: bigint) => bigint[],
): Promise<void> {
  for await (const { list, whole, capacity } of wholeLists(context)) {
    for (const startingOffset of new Set(offsetsOf(whole, capacity))) {
      // metadata.offset-end covers the end of the volume.
      if (startingOffset === capacity) continue;
      const { entries } = await readList(context, list, { startingOffset });
      expectTail(describeList(list, { startingOffset }), whole, entries, startingOffset);
    }
  }
}

/** Returns the first entry, an entry in the middle and the last entry. */
function samples(whole: readonly Entry[]): Entry[] {
  return [0, whole.length >> 1, whole.length - 1].map((index) => whole[index] as Entry);
}

function offsetAligned(context: CheckContext): Promise<void> {
  return expectTails(context, (whole, capacity) => [
    0n,
    ...samples(whole).flatMap(({ offset, size }) => [offset, offset + size]),
    (capacity / 2n / 4096n) * 4096n,
  ]);
}

function offsetInside(context: CheckContext): Promise<void> {
  return expectTails(context, (whole, capacity) => [
    1n,
    capacity - 1n,
    ...samples(whole).flatMap(({ offset, size }) => [
      offset + size / 2n,
      offset + 1n,
      offset + size - 1n,
      offset === 0n ? 0n : offset - 1n,
    ]),
    ...holes(whole),
    BigInt(context.random.below(Number(capacity))),
  ]);
}

/** Returns the middle of each gap before a sampled entry. */
function holes(whole: readonly Entry[]): bigint[] {
  return samples(whole).flatMap((entry) => {
    const before = whole[whole.indexOf(entry) - 1];
    if (before === undefined) return [];
    return [(before.offset + before.size + entry.offset) / 2n];
  });
}

async function offsetEnd(context: CheckContext): Promise<void> {
  for await (const { list, capacity } of wholeLists(context)) {
    const subject = describeList(list, { startingOffset: capacity });
    const { entries, end } = await readToEnd(context, list, { startingOffset: capacity });
    if (end.code === StatusCode.OUT_OF_RANGE) {
      context.note(`${list.rpc} refuses to resume at the end of the volume (OUT_OF_RANGE)`);
      continue;
    }
    expect(end.code === StatusCode.OK, subject, 'OK or OUT_OF_RANGE', () => describeRefusal(end));
    expect(entries.length === 0, subject, 'no entries', () => `${entries.length}`);
  }
}

async function offsetBeyond(context: CheckContext): Promise<void> {
  for await (const { list, capacity } of wholeLists(context)) {
    for (const startingOffset of [capacity + 1n, capacity + 4096n, capacity * 2n, MAX_INT64]) {
      await expectListRefused(context, list, { startingOffset }, [StatusCode.OUT_OF_RANGE]);
    }
  }
}

async function offsetNegative(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    for (const startingOffset of [-1n, -4096n, -MAX_INT64]) {
      await expectListRefused(context, list, { startingOffset }, [StatusCode.OUT_OF_RANGE]);
    }
  }
}

/** The most interruptions, spread over the list. */
const INTERRUPTIONS = 12;

async function resume(context: CheckContext): Promise<void> {
  for await (const { list, whole, capacity } of wholeLists(context)) {
    const maxResults = Math.max(1, Math.ceil(whole.length / INTERRUPTIONS));
    for (let messages = 1; messages <= INTERRUPTIONS; messages += 1) {
      const { entries, isWhole } = await readStart(context, list, { maxResults }, messages);
      // Nothing is left to resume.
      if (isWhole || endOf(entries) >= capacity) break;
      await expectContinuation(context, list, whole, entries);
    }
    await resumeAtRandom(context, list, whole, capacity);
  }
}

/** The offset at which a list resumes; 0 before its first entry. */
function endOf(entries: readonly Entry[]): bigint {
  const last = entries.at(-1);
  return last === undefined ? 0n : last.offset + last.size;
}

/** Reads the first few messages and closes the stream, as a client whose connection breaks. */
function readStart(
  context: CheckContext,
  list: ListRequest,
  fields: ListFields,
  messages: number,
): Promise<{ entries: Entry[]; isWhole: boolean }> {
  return withList(context, list, fields, async (stream) => {
    const entries: Entry[] = [];
    for (let count = 0; count < messages; count += 1) {
      const message = await stream.next();
      if (message === null) return { entries, isWhole: true };
      entries.push(...message.entries);
    }
    return { entries, isWhole: false };
  });
}

async function expectContinuation(
  context: CheckContext,
  list: ListRequest,
  whole: readonly Entry[],
  start: readonly Entry[],
): Promise<void> {
  if (start.length === 0) return;
  const startingOffset = endOf(start);
  const { entries } = await readList(context, list, { startingOffset });
  const subject = `${list.rpc} interrupted at ${startingOffset} and resumed there`;
  expectSameBytesListed(subject, whole, [...start, ...tailFrom(coverage(entries), startingOffset)]);
}

/** Reads the whole list over many streams, each of which resumes where the previous one was closed. */
async function resumeAtRandom(
  context: CheckContext,
  list: ListRequest,
  whole: readonly Entry[],
  capacity: bigint,
): Promise<void> {
  const got: Entry[] = [];
  let startingOffset = 0n;
  for (;;) {
    const entries = Math.ceil(whole.length / INTERRUPTIONS / (1 + context.random.below(4)));
    const fields = { startingOffset, maxResults: Math.max(1, entries) };
    const read = await readStart(context, list, fields, 1 + context.random.below(3));
    got.push(...read.entries);
    const position = endOf(got);
    // Without progress the loop would never end.
    if (read.isWhole || position >= capacity || position <= startingOffset) break;
    startingOffset = position;
  }
  expectSameBytesListed(`${list.rpc} interrupted and resumed many times`, whole, got);
}

const SECTION = 'SnapshotMetadata: GetMetadataAllocated, GetMetadataDelta';
const ERRORS = 'SnapshotMetadata: GetMetadataAllocated Errors, GetMetadataDelta Errors';
// The full heading continues with "for processing a snapshot metadata gRPC stream".
const STREAM = 'SnapshotMetadata: Special considerations';

export const metadataOffsetChecks = checksOf(OF_LISTS, SECTION, [
  {
    id: 'metadata.offset-aligned',
    rule: 'SM17',
    title: 'a list from the start or end of an entry is the tail of the whole list',
    run: offsetAligned,
  },
  {
    id: 'metadata.offset-inside',
    rule: 'SM22',
    title: 'a list from inside an entry, from a hole or from an unaligned byte is the tail of the whole list',
    run: offsetInside,
  },
  {
    id: 'metadata.offset-end',
    rule: 'SM5',
    title: 'starting_offset at the end of the volume: an empty list or OUT_OF_RANGE',
    run: offsetEnd,
  },
  {
    id: 'metadata.offset-beyond',
    section: ERRORS,
    rule: 'SM4',
    title: 'starting_offset beyond the end of the volume: OUT_OF_RANGE',
    run: offsetBeyond,
  },
  {
    id: 'metadata.offset-negative',
    section: ERRORS,
    rule: 'SM3',
    title: 'a negative starting_offset: OUT_OF_RANGE',
    run: offsetNegative,
  },
  {
    id: 'metadata.resume',
    section: STREAM,
    rule: 'SM21',
    title: 'an interrupted list resumes after its last entry without a gap',
    run: resume,
  },
]);
