/** Streams that end early: by the client, by their deadline. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';
import { type Check, type CheckContext, ConformanceFailure, expect } from '../check.js';
import { describeRefusal, type ListRequest } from '../driver.js';
import {
  allocatedOf,
  drain,
  expectSameBytesListed,
  type MetadataList,
  readList,
} from '../lists.js';
import { coverage, difference } from '../ranges.js';

const NEEDS = ['metadata', 'snapshots', 'volumes', 'publish'] as const;
const CANCELS = 8;
/** How long a driver may need to notice that nobody listens. */
const RELEASE_MS = 10_000;
const PAUSE_MS = 100;
const DEADLINE_MS = 300;
/** From then on a stream counts as one that ends without a status of the driver's own. */
const SILENCE_MS = 1_500;
/** So little that a driver cannot send a list before its deadline unless it is very short. */
const NARROW_BYTES = 256;

/** Only a whole list may end OK. */
function expectNotCutShort(subject: string, whole: MetadataList, read: MetadataList): void {
  if (read.end.code !== StatusCode.OK) return;
  const lost = difference(coverage(whole.entries), coverage(read.entries));
  expect(
    lost.length === 0,
    subject,
    'an error, since not everything was sent',
    () => `OK after ${read.entries.length} of ${whole.entries.length} entries`,
  );
}

async function cancel(context: CheckContext): Promise<void> {
  for (const list of await context.common.lists()) {
    const whole = await readList(context, list);
    for (let count = 0; count < CANCELS; count += 1) await cancelOne(context, list, whole);
    const { entries } = await readList(context, list);
    expectSameBytesListed(`${list.rpc} after cancelled ones`, whole.entries, entries);
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
    expectNotCutShort(`${list.rpc}, cancelled`, whole, { ...rest, entries });
  } finally {
    await stream.close();
  }
}

/** A stream that nobody listens to must not hold its snapshot. */
async function expectReleased(context: CheckContext): Promise<void> {
  const { volumes, driver, common } = context;
  const { volume } = await common.history();
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
  for (const list of await context.common.lists()) {
    const whole = await readList(context, list);
    await expireOne(context, list, whole);
    const { entries } = await readList(context, list);
    expectSameBytesListed(`${list.rpc} after one whose deadline passed`, whole.entries, entries);
  }
}

/** Nothing is read until the deadline has passed; then whatever the driver has to say. */
async function expireOne(
  context: CheckContext,
  list: ListRequest,
  whole: MetadataList,
): Promise<void> {
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
    expectNotCutShort(`${list.rpc} whose deadline passes`, whole, read);
    if (isSilent) context.note(`${list.rpc} ends without a status when its deadline passes`);
    if (read.end.code === StatusCode.OK) {
      context.note(`the whole list of ${list.rpc} was under way before its deadline`);
    }
  } finally {
    clearTimeout(silence);
    await stream.close();
  }
}

// The heading goes on: for processing a snapshot metadata gRPC stream.
const STREAM = 'SnapshotMetadata: Special considerations';

export const metadataCancelChecks: readonly Check[] = [
  {
    id: 'metadata.cancel',
    section: STREAM,
    rule: 'SM20',
    title: 'a cancelled stream does not end OK, holds nothing, and the next one is right',
    level: 'must',
    needs: NEEDS,
    run: cancel,
  },
  {
    id: 'metadata.deadline',
    section: STREAM,
    rule: 'SM18',
    title: 'a stream whose deadline passes does not end OK before everything is sent',
    level: 'must',
    needs: NEEDS,
    run: deadline,
  },
];
