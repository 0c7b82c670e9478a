/** Streams that end early: cancelled by the client, or at their deadline. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../../base/errors.js';
import type { MetadataStream } from '../bare-stream.js';
import { writeComb } from '../block-content.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { CheckSkipped, ConformanceFailure, expect } from '../failure.js';
import { allocatedOf, type ListRequest } from '../list-request.js';
import {
  drain,
  expectSameBytesListed,
  type MetadataList,
  NARROW_BYTES,
  readAround,
  readList,
  withList,
} from '../lists.js';
import { coverage, difference, totalBytes } from '../ranges.js';
import { describeRefusal } from '../refusal.js';

const CANCELS = 8;
/** How long a driver may take to notice that the client has gone. */
const RELEASE_MS = 10_000;
const PAUSE_MS = 100;
const DEADLINE_MS = 300;
/** After this time, the stream counts as one that ends without a status from the driver. */
const SILENCE_MS = 1_500;
const COMB_BLOCK_BYTES = 4096;

function expectNotTruncated(subject: string, whole: MetadataList, read: MetadataList): void {
  if (read.end.code !== StatusCode.OK) return;
  const lost = difference(coverage(whole.entries), coverage(read.entries));
  expect(
    lost.length === 0,
    subject,
    'an error, as not every entry was sent',
    () => `OK with ${totalBytes(lost)} of ${totalBytes(coverage(whole.entries))} listed bytes missing`,
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

async function cancelOne(context: CheckContext, list: ListRequest, whole: MetadataList): Promise<void> {
  const read = await readAround(context, list, (stream) => stream.cancel());
  expectNotTruncated(`${list.rpc}, cancelled`, whole, read);
}

/** A cancelled stream must not keep its snapshot from being deleted. */
async function expectReleased(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const { volume } = await shared.history();
  const snapshot = await volumes.snapshot(volume);
  const options = { windowBytes: NARROW_BYTES };
  const list = allocatedOf(snapshot);
  await withList(context, list, { maxResults: 1 }, (stream) => stream.next(), options);
  const deadline = Date.now() + RELEASE_MS;
  for (;;) {
    const { refusal } = await driver.outcome('DeleteSnapshot', { snapshot_id: snapshot.id });
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

/** Lists every second block of a volume: more than servers buffer for a client that reads nothing. */
async function longList(context: CheckContext): Promise<ListRequest> {
  const { volumes, random } = context;
  const volume = await volumes.create({ access: 'block' });
  const path = await volumes.publish(volume);
  await writeComb(path, volume.sizeBytes, random.bytes(COMB_BLOCK_BYTES));
  const snapshot = await volumes.snapshot(volume);
  await volumes.unpublish(volume);
  return allocatedOf(snapshot);
}

/** Reads nothing until the deadline has passed, then all that the driver sends. Returns false if that is the whole list. */
async function expireOne(context: CheckContext, list: ListRequest, whole: MetadataList): Promise<boolean> {
  let isSilent = false;
  const readLate = async (stream: MetadataStream): Promise<MetadataList> => {
    await delay(DEADLINE_MS * 2, undefined, { signal: context.signal });
    const silence = setTimeout(() => {
      isSilent = true;
      stream.cancel();
    }, SILENCE_MS);
    return drain(stream).finally(() => clearTimeout(silence));
  };
  const options = { windowBytes: NARROW_BYTES, deadlineMs: DEADLINE_MS };
  const read = await withList(context, list, { maxResults: 1 }, readLate, options);
  expectNotTruncated(`${list.rpc} whose deadline passes`, whole, read);
  if (isSilent) context.note(`${list.rpc} ends without a status when its deadline passes`);
  if (read.end.code !== StatusCode.OK) return true;
  context.note(`${list.rpc} sent the whole list before its deadline`);
  return false;
}

// The full heading continues with "for processing a snapshot metadata gRPC stream".
const STREAM = 'SnapshotMetadata: Special considerations';

export const metadataCancelChecks = checksOf(OF_LISTS, STREAM, [
  {
    id: 'metadata.cancel',
    rule: 'SM20',
    title: 'a cancelled stream does not end OK, releases its snapshot, and the next list is complete',
    run: cancel,
  },
  {
    id: 'metadata.deadline',
    rule: 'SM18',
    title: 'a stream whose deadline passes does not end OK before everything is sent',
    run: deadline,
  },
]);
