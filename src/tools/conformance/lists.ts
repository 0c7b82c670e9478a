/** Reads whole lists, and compares lists of the same snapshots. */
import { StatusCode } from '../../base/errors.js';
import type { MetadataMessage, MetadataStream, MetadataStreamOptions, StreamEnd } from './bare-stream.js';
import type { CheckContext } from './check.js';
import { CheckSkipped, ConformanceFailure, expect } from './failure.js';
import type { ListRequest } from './list-request.js';
import { coverage, describeRanges, difference, type Entry, tailFrom } from './ranges.js';
import { describeRefusal, statusName } from './refusal.js';

export interface MetadataList {
  readonly messages: readonly MetadataMessage[];
  readonly entries: readonly Entry[];
  readonly end: StreamEnd;
}

export interface ListFields {
  readonly startingOffset?: bigint;
  readonly maxResults?: number;
}

export function describeList(list: ListRequest, fields: ListFields = {}): string {
  const parts = [
    ...(fields.startingOffset === undefined ? [] : [`starting_offset ${fields.startingOffset}`]),
    ...(fields.maxResults === undefined ? [] : [`max_results ${fields.maxResults}`]),
  ];
  return parts.length === 0 ? list.rpc : `${list.rpc} with ${parts.join(' and ')}`;
}

/** Opens a list for as long as `use` reads it. */
export async function withList<T>(
  { driver }: Pick<CheckContext, 'driver'>,
  list: ListRequest,
  fields: ListFields,
  use: (stream: MetadataStream) => Promise<T>,
  options?: MetadataStreamOptions,
): Promise<T> {
  const stream = driver.openList(list, fields, options);
  try {
    return await use(stream);
  } finally {
    await stream.close();
  }
}

/** Reads to the end of the stream, whatever its status. */
export async function drain(stream: MetadataStream): Promise<MetadataList> {
  const messages: MetadataMessage[] = [];
  for (;;) {
    const message = await stream.next();
    if (message === null) break;
    messages.push(message);
  }
  return { messages, entries: messages.flatMap(({ entries }) => entries), end: stream.end };
}

/** Reads a whole list, whatever its status. */
export function readToEnd(
  context: Pick<CheckContext, 'driver'>,
  list: ListRequest,
  fields: ListFields = {},
): Promise<MetadataList> {
  return withList(context, list, fields, drain);
}

/** Small enough that a driver can send only a very short list ahead of its reader. */
export const NARROW_BYTES = 256;

/** Reads a whole list, whatever its status. The driver must wait after the first message until `interrupt` has ended. */
export function readAround(
  context: Pick<CheckContext, 'driver'>,
  list: ListRequest,
  interrupt: (stream: MetadataStream) => Promise<void> | void,
): Promise<MetadataList> {
  const read = async (stream: MetadataStream): Promise<MetadataList> => {
    const first = await stream.next();
    await interrupt(stream);
    const rest = await drain(stream);
    return { ...rest, entries: [...(first?.entries ?? []), ...rest.entries] };
  };
  return withList(context, list, { maxResults: 1 }, read, { windowBytes: NARROW_BYTES });
}

/** Fails unless a list that was read under some condition ended OK with the bytes of the whole list. */
export function expectWhole(
  subject: string,
  whole: readonly Entry[],
  { entries, end }: Pick<MetadataList, 'entries' | 'end'>,
): void {
  expect(end.code === StatusCode.OK, subject, 'OK', () => describeRefusal(end));
  expectSameBytesListed(subject, whole, entries);
}

/** Statuses that do not judge the request: the client makes them itself, or a repetition may end differently. */
const NO_JUDGEMENT: readonly number[] = [
  StatusCode.CANCELLED,
  StatusCode.DEADLINE_EXCEEDED,
  StatusCode.UNAVAILABLE,
  StatusCode.ABORTED,
];

/**
 * Reads a list that must end OK.
 * @throws SharedFailure if the driver also refuses the shared list of the same RPC
 */
export async function readList(
  context: CheckContext,
  list: ListRequest,
  fields: ListFields = {},
): Promise<MetadataList> {
  const read = await readToEnd(context, list, fields);
  if (read.end.code === StatusCode.OK) return read;
  if (read.messages.length === 0) {
    // If the shared volumes cannot be made, nothing is known about other lists.
    const general = await generalRefusal(context, list).catch(() => null);
    if (general !== null) throw general;
  }
  throw new ConformanceFailure(describeList(list, fields), 'OK', describeRefusal(read.end));
}

function generalRefusal(context: CheckContext, { rpc }: ListRequest) {
  return context.shared.generalRefusal(rpc, (correct) => refusalOf(context, correct));
}

/** Returns null if the driver sends a first message or ends OK, undefined if its status does not judge the request. */
async function refusalOf(context: CheckContext, list: ListRequest): Promise<string | null | undefined> {
  return withList(context, list, {}, async (stream) => {
    if ((await stream.next()) !== null || stream.end.code === StatusCode.OK) return null;
    if (NO_JUDGEMENT.includes(stream.end.code)) return undefined;
    return `${describeList(list)}: ${describeRefusal(stream.end)}`;
  });
}

/**
 * For checks of wrong requests. A refusal proves nothing if the driver also refuses correct requests, as some drivers
 * do for volumes with a file system.
 *
 * @throws CheckSkipped in that case
 */
export async function skipUnlessServed(context: CheckContext, list: ListRequest): Promise<void> {
  const general = await generalRefusal(context, list);
  if (general !== null) throw new CheckSkipped(general.message);
}

/** Requests a list that must be refused before the first message. */
export async function expectListRefused(
  context: CheckContext,
  list: ListRequest,
  fields: ListFields,
  codes: readonly number[],
): Promise<void> {
  await skipUnlessServed(context, list);
  const subject = describeList(list, fields);
  const expected = codes.map(statusName).join(' or ');
  await withList(context, list, fields, async (stream) => {
    expect((await stream.next()) === null, subject, expected, () => 'a list');
    const found = stream.end;
    expect(codes.includes(found.code), subject, expected, () =>
      found.code === StatusCode.OK ? 'OK and no message' : describeRefusal(found),
    );
  });
}

/** Fails unless both lists cover the same bytes. */
export function expectSameBytesListed(subject: string, wanted: readonly Entry[], found: readonly Entry[]): void {
  const [all, got] = [coverage(wanted), coverage(found)];
  const lost = difference(all, got);
  expect(lost.length === 0, subject, 'the bytes of the whole list', () => `it lacks ${describeRanges(lost)}`);
  const added = difference(got, all);
  expect(added.length === 0, subject, 'the bytes of the whole list', () => `it also names ${describeRanges(added)}`);
}

/**
 * Fails unless a list from an offset is the tail of the whole list. Only the first entry may begin before the offset,
 * and this entry must end after the offset.
 */
export function expectTail(subject: string, whole: readonly Entry[], tail: readonly Entry[], start: bigint): void {
  const [first] = tail;
  if (first !== undefined) {
    expect(first.offset + first.size > start, subject, `a first entry that ends after ${start}`, () =>
      describeRanges([first]),
    );
  }
  const early = tail.slice(1).filter(({ offset }) => offset < start);
  expect(early.length === 0, subject, `no entry but the first before ${start}`, () => describeRanges(early));
  expectSameBytesListed(subject, tailFrom(coverage(whole), start), tailFrom(coverage(tail), start));
}
