/** The format of a list: order, sizes, type, capacity, and how it is divided into messages. */
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { CheckSkipped, expect } from '../failure.js';
import type { ListRequest } from '../list-request.js';
import { describeList, expectSameBytesListed, type MetadataList, readList } from '../lists.js';
import type { Entry } from '../ranges.js';

/** The default limit of gRPC clients. */
const MESSAGE_MAX_BYTES = 4 << 20;
const MAX_INT32 = 2 ** 31 - 1;

/** Yields both lists, in messages of the driver's choice and in small messages. */
async function* formsOf(
  context: CheckContext,
): AsyncGenerator<{ subject: string; read: MetadataList }, void, undefined> {
  for (const list of await context.shared.lists()) {
    for (const maxResults of [0, 3]) {
      const read = await readList(context, list, { maxResults });
      yield { subject: describeList(list, { maxResults }), read };
    }
  }
}

function expectAscending(subject: string, entries: readonly Entry[]): void {
  let end = -1n;
  let before = -1n;
  for (const { offset, size } of entries) {
    expect(
      offset > before && offset >= end,
      subject,
      'entries in ascending order that do not overlap',
      () => `an entry at ${offset} after one that ends at ${end}`,
    );
    before = offset;
    end = offset + size;
  }
}

async function order(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    const { entries } = await readList(context, list);
    context.figure(`entries in the shared list of ${list.rpc}`, entries.length, 'entries');
  }
  for await (const { subject, read } of formsOf(context)) {
    expectAscending(subject, read.entries);
  }
}

async function entrySize(context: CheckContext): Promise<void> {
  for await (const { subject, read } of formsOf(context)) {
    for (const { offset, size } of read.entries) {
      expect(size > 0n, subject, 'entries of at least one byte', () => `${size} at ${offset}`);
      const capacity = read.messages[0]?.capacityBytes ?? 0n;
      expect(
        offset >= 0n && offset + size <= capacity,
        subject,
        `entries within the capacity of ${capacity} bytes`,
        () => `${size} bytes at ${offset}`,
      );
    }
  }
}

async function constantType(context: CheckContext): Promise<void> {
  for await (const { subject, read } of formsOf(context)) {
    const types = read.messages.map(({ type }) => type);
    expect(
      types.every((type) => type === 'FIXED_LENGTH' || type === 'VARIABLE_LENGTH'),
      subject,
      'block_metadata_type in every message',
      () => types.find((type) => !type.endsWith('_LENGTH')) ?? 'none',
    );
    expect(new Set(types).size <= 1, subject, 'one block_metadata_type in all messages', () =>
      [...new Set(types)].join(' and '),
    );
  }
}

async function fixedLength(context: CheckContext): Promise<void> {
  let isFixed = false;
  for await (const { subject, read } of formsOf(context)) {
    if (read.messages[0]?.type !== 'FIXED_LENGTH') continue;
    isFixed = true;
    const sizes = new Set(read.entries.map(({ size }) => size));
    expect(sizes.size <= 1, subject, 'entries of one size', () => [...sizes].slice(0, 4).join(', '));
  }
  if (!isFixed) throw new CheckSkipped('the driver answers VARIABLE_LENGTH');
}

async function constantCapacity(context: CheckContext): Promise<void> {
  const { volume, target } = await context.shared.history();
  const size = BigInt(target.sizeBytes === 0 ? volume.sizeBytes : target.sizeBytes);
  for await (const { subject, read } of formsOf(context)) {
    for (const { capacityBytes } of read.messages) {
      expect(
        capacityBytes === size,
        subject,
        `volume_capacity_bytes ${size}, the snapshot's size, in every message`,
        () => `${capacityBytes}`,
      );
    }
  }
}

async function maxResults(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    const whole = await readList(context, list);
    for (const maxResults of [1, 2, 7, 1000]) {
      const subject = describeList(list, { maxResults });
      const read = await readList(context, list, { maxResults });
      const most = Math.max(0, ...read.messages.map(({ entries }) => entries.length));
      expect(most <= maxResults, subject, `at most ${maxResults} entries in a message`, () => `${most}`);
      expectSameBytesListed(subject, whole.entries, read.entries);
    }
  }
}

async function messageSize(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    await expectSmallMessages(context, list, 0);
    await expectSmallMessages(context, list, MAX_INT32);
  }
}

async function expectSmallMessages(context: CheckContext, list: ListRequest, maxResults: number): Promise<void> {
  const { messages } = await readList(context, list, { maxResults });
  const largest = Math.max(0, ...messages.map(({ wireBytes }) => wireBytes));
  const subject = describeList(list, { maxResults });
  if (maxResults === 0) context.figure(`largest message of ${list.rpc}`, largest, 'bytes');
  expect(
    largest <= MESSAGE_MAX_BYTES,
    subject,
    `messages of at most ${MESSAGE_MAX_BYTES} bytes, which is what clients accept`,
    () => `${largest}`,
  );
}

const SECTION = 'SnapshotMetadata: GetMetadataAllocated, GetMetadataDelta';

export const metadataFormatChecks = checksOf(OF_LISTS, 'SnapshotMetadata: Metadata Format', [
  {
    id: 'metadata.order',
    rule: 'SM13',
    title: 'entries ascend and do not overlap, within and across messages',
    run: order,
  },
  {
    id: 'metadata.entry-size',
    rule: 'SM14',
    title: 'no entry is empty, and every entry lies within the capacity',
    run: entrySize,
  },
  {
    id: 'metadata.constant-type',
    rule: 'SM15',
    title: 'block_metadata_type is set and the same in every message',
    run: constantType,
  },
  {
    id: 'metadata.fixed-length',
    rule: 'SM15',
    title: 'with FIXED_LENGTH all entries have the same size',
    run: fixedLength,
  },
  {
    id: 'metadata.constant-capacity',
    section: SECTION,
    rule: 'SM16',
    title: 'volume_capacity_bytes is the size of the target snapshot in every message',
    run: constantCapacity,
  },
  {
    id: 'metadata.max-results',
    section: SECTION,
    rule: 'SM7',
    title: 'no message exceeds max_results entries, and no entry is lost',
    run: maxResults,
  },
  {
    id: 'metadata.message-size',
    section: SECTION,
    rule: 'SM7',
    title: 'no message exceeds the 4 MiB that clients accept, whatever max_results allows',
    level: 'should',
    run: messageSize,
  },
]);
