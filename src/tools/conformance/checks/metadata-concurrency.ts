/** Lists during other activity: concurrent streams, slow readers, snapshots created and deleted. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../../base/errors.js';
import type { MetadataStream } from '../bare-stream.js';
import { readImage } from '../block-content.js';
import { takePair } from '../changes.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { expect } from '../failure.js';
import { allocatedOf, deltaOf } from '../list-request.js';
import { expectSameBytesListed, expectWhole, NARROW_BYTES, readAround, readList, withList } from '../lists.js';
import type { Entry } from '../ranges.js';
import { describeRefusal } from '../refusal.js';

const CHANGES = { block: 60, mount: 20 };
/** The first pause of a slow reader; meanwhile the driver can buffer a short list. */
const FIRST_PAUSE_MS = 1000;
/** Pauses between later messages: how many, and how long. */
const PAUSES = 100;
const PAUSE_MS = 5;

async function twoStreams(context: CheckContext): Promise<void> {
  const lists = await context.shared.lists();
  const alone: (readonly Entry[])[] = [];
  for (const list of lists) alone.push((await readList(context, list)).entries);
  const together = [...lists.entries()].flatMap(([index, list]) =>
    [0, 3].map(async (maxResults) => {
      const { entries } = await readList(context, list, { maxResults });
      expectSameBytesListed(`${list.rpc} beside other streams`, alone[index] ?? [], entries);
    }),
  );
  await Promise.all(together);
}

async function slowReader(context: CheckContext): Promise<void> {
  for (const list of await context.shared.lists()) {
    const whole = await readList(context, list);
    const readSlowly = async (stream: MetadataStream) => {
      const entries: Entry[] = [];
      await delay(FIRST_PAUSE_MS, undefined, { signal: context.signal });
      for (let count = 0; ; count += 1) {
        const message = await stream.next();
        if (message === null) return { entries, end: stream.end };
        entries.push(...message.entries);
        if (count < PAUSES) await delay(PAUSE_MS, undefined, { signal: context.signal });
      }
    };
    const options = { windowBytes: NARROW_BYTES };
    const read = await withList(context, list, { maxResults: 2 }, readSlowly, options);
    expectWhole(`${list.rpc} read slowly`, whole.entries, read);
  }
}

async function busyVolume(context: CheckContext): Promise<void> {
  const { volumes, random, shared } = context;
  const pair = await takePair(volumes, shared.access, random, [CHANGES, CHANGES]);
  const list = deltaOf(pair.base, pair.target);
  const whole = await readList(context, list);
  const read = await readAround(context, list, async () => {
    await pair.change(CHANGES);
    await volumes.snapshot(pair.volume);
  });
  const subject = 'GetMetadataDelta while its volume is written to and snapshotted';
  expectWhole(subject, whole.entries, read);
}

async function readWhileStreaming(context: CheckContext): Promise<void> {
  const { volumes, shared } = context;
  const { target } = await shared.history();
  const list = allocatedOf(target);
  const whole = await readList(context, list);
  const read = await readAround(context, list, async () => {
    const size = target.sizeBytes === 0 ? {} : { sizeBytes: target.sizeBytes };
    const spec = { access: shared.access, snapshotId: target.id, ...size };
    const restored = await volumes.create(spec);
    const path = await volumes.publish(restored);
    if (shared.access === 'block') await readImage(path, restored.sizeBytes);
  });
  const subject = 'GetMetadataAllocated while a volume is restored from the snapshot and read';
  expectWhole(subject, whole.entries, read);
}

async function deleteWhileStreaming(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const { volume } = await shared.history();
  const snapshot = await volumes.snapshot(volume);
  const list = allocatedOf(snapshot);
  const whole = await readList(context, list);
  const read = await readAround(context, list, async () => {
    const { refusal } = await driver.attempt('DeleteSnapshot', { snapshot_id: snapshot.id });
    const busy: readonly number[] = [StatusCode.FAILED_PRECONDITION, StatusCode.ABORTED];
    if (refusal === null) return volumes.forgetSnapshot(snapshot);
    expect(
      busy.includes(refusal.code),
      'DeleteSnapshot of a snapshot that is being listed',
      'OK, FAILED_PRECONDITION or ABORTED',
      () => describeRefusal(refusal),
    );
  });
  if (read.end.code !== StatusCode.OK) return;
  const subject = 'GetMetadataAllocated, ended OK, of a snapshot that was deleted during the stream';
  expectSameBytesListed(subject, whole.entries, read.entries);
}

const SECTION = 'SnapshotMetadata: GetMetadataAllocated, GetMetadataDelta';

export const metadataConcurrencyChecks = checksOf(OF_LISTS, SECTION, [
  {
    id: 'metadata.two-streams',
    rule: 'SM18',
    title: 'concurrent streams return what each returns alone',
    run: twoStreams,
  },
  {
    id: 'metadata.slow-reader',
    rule: 'SM18',
    title: 'a slow reader gets the whole list',
    run: slowReader,
  },
  {
    id: 'metadata.busy-volume',
    rule: 'SM27',
    title: 'writes and a new snapshot during a stream do not change the list',
    run: busyVolume,
  },
  {
    id: 'metadata.read-while-streaming',
    rule: 'SM27',
    title: 'a volume restored from a snapshot can be read while the snapshot is listed',
    run: readWhileStreaming,
  },
  {
    id: 'metadata.delete-while-streaming',
    section: 'Controller: DeleteSnapshot',
    rule: 'SM28',
    title: 'deleting a snapshot during its stream never makes an incomplete list end OK',
    run: deleteWhileStreaming,
  },
]);
