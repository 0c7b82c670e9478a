/** Streams that end early: cancelled by the client, or at their deadline. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../../base/errors.js';
import { writeComb } from '../block-content.js';
import { type CheckContext, checksOf } from '../check.js';
import { CheckSkipped, ConformanceFailure, expect } from '../failure.js';
import { allocatedOf, type ListRequest } from '../list-request.js';
import { drain, expectSameBytesListed, type MetadataList, readList } from '../lists.js';
import { coverage, difference, totalBytes } from '../ranges.js';
import { describeRefusal } from '../refusal.js';

const NEEDS = ['metadata', 'snapshots', 'volumes', 'publish'] as const;
const CANCELS = 8;
/** How long a driver may take to notice that the client has gone. */
const RELEASE_MS = 10_000;
const PAUSE_MS = 100;
const DEADLINE_MS = 300;
/** After this the stream counts as one that ends without a status from the driver. */
const SILENCE_MS = 1_500;
/** Small enough that a driver can send only a very short list before its deadline. */
const NARROW_BYTES = 256;
const COMB_BLOCK_BYTES = 4096;

/** Fails if an incomplete list ended OK. */
function expectNotTruncated(subject: string, whole: MetadataList, read: MetadataList): void {
  if (read.end.code !== StatusCode.OK) return;
  const lost = difference(coverage(whole.entries), coverage(read.entries));
  expect(
    lost.length === 0,
    subject,
    'an error, as not every entry was sent',
    () =>
      `OK with ${totalBytes(lost)} of ${totalBytes(coverage(whole.entries))} listed bytes missing`,
  );
}

async function cancel(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    const whole = await readList(context, list);
    for (let count = 0; count < CANCELS; count += 1) await cancelOne(context, list, whole);
    const { entries } = await readList(context, list);
    expectSameBytesListed(`${list.rpc} after cancelled streams`, whole.entries, entries);
  }
  await expectReleased(context);
}

async function cancelOne(
  context: CheckContext,
  list: ListRequest,
  whole: MetadataList,
): Promise<void> {
  const stream = context.driver.openList(list, { maxResults: 1 }, { windowBytes: NARROW_BYTES });
  try {
    const first = await stream.next();
    stream.cancel();
    const rest = await drain(stream);
    const entries = [...(first?.entries ?? []), ...rest.entries];
    expectNotTruncated(`${list.rpc}, cancelled`, whole, { ...rest, entries });
  } finally {
    await stream.close();
  }
}

/** A cancelled stream must not keep its snapshot from being deleted. */
async function expectReleased(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const { volume } = await shared.history();
  const snapshot = await volumes.snapshot(volume);
  const stream = driver.openList(
    allocatedOf(snapshot),
    { maxResults: 1 },
    { windowBytes: NARROW_BYTES },
  );
  await stream.next();
  await stream.close();
  const deadline = Date.now() + RELEASE_MS;
  for (;;) {
    const { refusal } = await driver.settle('DeleteSnapshot', { snapshot_id: snapshot.id });
    if (refusal === null) return volumes.forgetSnapshot(snapshot);
    if (Date.now() > deadline || refusal.code !== StatusCode.FAILED_PRECONDITION) {
      throw new ConformanceFailure(
        'DeleteSnapshot after a stream of the snapshot was cancelled',
        'OK',
        describeRefusal(refusal),
      );
    }
    await delay(PAUSE_MS, undefined, { signal: context.signal });
  }
}

async function deadline(context: CheckContext): Promise<void> {
  const lists: ListRequest[] = [...(await context.shared.lists())];
  if (context.shared.access === 'block') lists.push(await longList(context));
  let cutOff = 0;
  for (const list of lists) {
    const whole = await readList(context, list);
    if (await expireOne(context, list, whole)) cutOff += 1;
    const { entries } = await readList(context, list);
    expectSameBytesListed(`${list.rpc} after one whose deadline passed`, whole.entries, entries);
  }
  if (cutOff > 0) return;
  throw new CheckSkipped('the driver had handed over each list before its deadline');
}

/** Every second block of a volume: more than servers hold in their buffers for a client that reads nothing. */
async function longList(context: CheckContext): Promise<ListRequest> {
  const { volumes, random } = context;
  const volume = await volumes.create({ access: 'block' });
  const path = await volumes.publish(volume);
  await writeComb(path, volume.sizeBytes, random.bytes(COMB_BLOCK_BYTES));
  const snapshot = await volumes.snapshot(volume);
  await volumes.unpublish(volume);
  return allocatedOf(snapshot);
}

/** Reads nothing until the deadline has passed, then everything the driver sends. False: that is the whole list. */
async function expireOne(
  context: CheckContext,
  list: ListRequest,
  whole: MetadataList,
): Promise<boolean> {
  const stream = context.driver.openList(
    list,
    { maxResults: 1 },
    { windowBytes: NARROW_BYTES, deadlineMs: DEADLINE_MS },
  );
  let isSilent = false;
  const silence = setTimeout(
    () => {
      isSilent = true;
      stream.cancel();
    },
    DEADLINE_MS * 2 + SILENCE_MS,
  );
  try {
    await delay(DEADLINE_MS * 2, undefined, { signal: context.signal });
    const read = await drain(stream);
    expectNotTruncated(`${list.rpc} whose deadline passes`, whole, read);
    if (isSilent) context.note(`${list.rpc} ends without a status when its deadline passes`);
    if (read.end.code === StatusCode.OK) {
      context.note(`${list.rpc} sent the whole list before its deadline`);
    }
    return read.end.code !== StatusCode.OK;
  } finally {
    clearTimeout(silence);
    await stream.close();
  }
}

// The heading goes on: for processing a snapshot metadata gRPC stream.
const STREAM = 'SnapshotMetadata: Special considerations';

export const metadataCancelChecks = checksOf(NEEDS, [
  {
    id: 'metadata.cancel',
    section: STREAM,
    rule: 'SM20',
    title:
      'a cancelled stream does not end OK, releases its snapshot, and the next list is complete',
    run: cancel,
  },
  {
    id: 'metadata.deadline',
    section: STREAM,
    rule: 'SM18',
    title: 'a stream whose deadline passes does not end OK before everything is sent',
    run: deadline,
  },
]);
