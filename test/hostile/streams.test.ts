/** Clients that open many streams, drop them or do not read them: how others are served, and what such streams hold. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type * as grpc from '@grpc/grpc-js';
import type { Backend, SnapshotChanges } from '../../src/driver/backends/backend.js';
import { directScan } from '../../src/driver/backends/snapshot-scan.js';
import type { AsyncCatalogue } from '../../src/driver/catalogue/catalogue-client.js';
import { createSnapshotMetadataService } from '../../src/driver/metadata/snapshot-metadata.js';
import type { FillRequest } from '../../src/driver/native/addon.js';
import type { NativeFiller } from '../../src/driver/native/pool.js';
import { ScanThreads } from '../../src/driver/native/scan-threads.js';
import type { FillAnswer } from '../../src/driver/native/worker.js';
import { OperationLocks, snapshotKey } from '../../src/driver/volumes/operation-locks.js';
import type { Message } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { isNightly } from '../support/nightly.js';
import { snapshotRecord, volumeRecord } from '../support/records.js';
import { frame, type RawClient, rawClient, startServer, type TestServer } from '../support/server-fixture.js';

const SIZE_BYTES = 1n << 50n;
const STREAMS = isNightly ? 3000 : 100;
const THREADS = 2;
/** Entries of a message that the test does not spend its time on. */
const SMALL = 1024;

/** A filler that answers when the test wants it, with as many entries as were asked for. */
class HeldFiller implements NativeFiller {
  /** Each answers a chunk that was asked for. */
  readonly held: (() => void)[] = [];
  /** Of the buffers of all chunks that were ever asked for, bytes. */
  readonly sizes: number[] = [];
  #isOpen = false;

  get total(): number {
    return this.sizes.length;
  }

  fill(request: FillRequest, buffer: ArrayBuffer): Promise<FillAnswer> {
    this.sizes.push(buffer.byteLength);
    return new Promise((resolve) => {
      const answer = (): void => {
        this.held.splice(this.held.indexOf(answer), 1);
        resolve(answerTo(request, buffer));
      };
      this.held.push(answer);
      if (this.#isOpen) answer();
    });
  }

  /** From now on everything is answered at once. */
  open(): void {
    this.#isOpen = true;
    for (const answer of [...this.held]) answer();
  }
}

/** Messages by their numbers of entries. Nobody reads where those are. */
const messages = new Map<number, Buffer>();
function messageOf(entries: number): Buffer {
  const known = messages.get(entries);
  if (known !== undefined) return known;
  const rows = Array.from({ length: entries }, (_, index) => [index * 8192, 4096] as const);
  const made = frame(SIZE_BYTES, rows);
  messages.set(entries, made);
  return made;
}

function answerTo(request: FillRequest, buffer: ArrayBuffer): FillAnswer {
  const each = Math.min(request.maxEntriesPerMessage, request.maxEntries);
  const messages = Math.min(request.maxEntries, 8192) / each;
  const entries = messages * each;
  const message = messageOf(each);
  const bytes = Buffer.concat(new Array<Buffer>(messages).fill(message));
  new Uint8Array(buffer).set(bytes);
  const nextOffset = request.offset + BigInt(entries) * 8192n;
  return {
    buffer,
    result: {
      ok: true,
      messages,
      bytes: bytes.length,
      entries,
      extents: entries,
      entryBytes: 1n,
      nextOffset,
      nextRangeStart: nextOffset,
      done: false,
      rescans: 0,
      unprovedBytes: 0n,
      nodes: 0,
    },
  };
}

interface Attacked extends TestServer {
  filler: HeldFiller;
  locks: OperationLocks;
}

async function start(t: TestContext, limits: { maxStreams?: number; streamStallMs?: number } = {}): Promise<Attacked> {
  const filler = new HeldFiller();
  const locks = new OperationLocks();
  const volume = volumeRecord();
  const source = { kind: 'extents', sizeBytes: SIZE_BYTES, target: new BigUint64Array(), base: null } as const;
  const changes: Pick<SnapshotChanges, 'scan' | 'neededFor'> = {
    neededFor: () => null,
    scan: async () => directScan(source, { targetBytes: SIZE_BYTES }),
  };
  const catalogue: Pick<AsyncCatalogue, 'snapshotById'> = {
    snapshotById: async (snapshotId) => ({
      ...snapshotRecord(volume, { snapshotId, sizeBytes: SIZE_BYTES, state: 'ready' }),
      sequence: 1n,
    }),
  };
  const service = createSnapshotMetadataService({
    catalogue: catalogue as AsyncCatalogue,
    scanThreads: new ScanThreads(filler, THREADS),
    backendOf: () => ({ changes }) as Backend,
    locks,
  });
  return Object.assign(await startServer(t, { services: [service], limits }), { filler, locks });
}

type Stream = grpc.ClientReadableStream<Message>;

/** Opens a stream and reads nothing of it until the test asks. */
function open(client: RawClient, snapshot_id: string, max_results = 0): Stream {
  const call = client['GetMetadataAllocated']?.({ snapshot_id, max_results }) as Stream;
  call.on('error', () => undefined);
  call.pause();
  return call;
}

/** Reads one message and then nothing more. */
function leaveUnread(call: Stream): Stream {
  call.once('data', () => call.pause());
  return call.resume();
}

function statusOf(call: Stream): Promise<grpc.StatusObject> {
  call.resume();
  return new Promise((resolve) => call.once('status', resolve));
}

async function opened(made: Attacked, count: number): Promise<void> {
  await eventually('the streams are open', () => started(made) >= count);
}

/** So many streams of one client, which reads none of them. */
async function openMany(client: RawClient, made: Attacked, count: number): Promise<Stream[]> {
  const calls = Array.from({ length: count }, (_, index) => open(client, `snap-${index}`));
  await opened(made, count);
  return calls;
}

const started = (made: TestServer): number => made.log.filter((line) => line['msg'] === 'call started').length;
const ended = (made: TestServer): number => made.log.filter((line) => 'code' in line).length;

/** A client with a connection of its own. */
const connect = (t: TestContext, made: TestServer): RawClient =>
  rawClient(t, made.endpoint, 'SnapshotMetadata', { 'grpc.use_local_subchannel_pool': 1 });

/** Waits until it does not change between two reads. */
async function settled(figure: () => number): Promise<void> {
  let last = -1;
  while (figure() !== last) {
    last = figure();
    await delay(500);
  }
}

test('H11: queued chunks of cancelled streams are dropped before they use a thread', async (t) => {
  const made = await start(t, { maxStreams: 200 });
  const calls = await openMany(connect(t, made), made, 100);
  for (const call of calls) call.cancel();
  // Those that no thread has are over at once, though no chunk has been filled.
  await eventually('the others have ended', () => ended(made) >= calls.length - THREADS);
  assert.equal(made.filler.total, THREADS);
  made.filler.open();
  await eventually('all have ended', () => ended(made) === calls.length);
  assert.equal(made.filler.total, THREADS);
});

test('H11: a stream gets the next thread, however many streams of another client are waiting', async (t) => {
  const made = await start(t, { maxStreams: 200 });
  const good = connect(t, made);
  await openMany(connect(t, made), made, 100);
  await eventually('the threads are busy', () => made.filler.held.length === THREADS);
  const stream = open(good, 'good');
  await opened(made, 101);
  const first = new Promise((resolve) => stream.once('data', resolve));
  for (let turn = 0; turn < 2; turn += 1) made.filler.held[0]?.();
  stream.resume();
  // One of the two next chunks is its own: of the hundred others, one at most comes before it.
  await eventually('two more are asked for', () => made.filler.total >= THREADS + 2);
  for (const answer of [...made.filler.held]) answer();
  await first;
  assert.ok(made.filler.total <= 2 * THREADS + 3, `${made.filler.total} chunks were asked for`);
});

test('H11: an unread stream is scanned for a few small chunks, without read-ahead', async (t) => {
  const made = await start(t);
  made.filler.open();
  leaveUnread(open(connect(t, made), 'unread'));
  await settled(() => made.filler.total);
  // What the client's library reads ahead, 16 messages, and a window.
  assert.ok(made.filler.total <= 5, `${made.filler.total} chunks`);
  for (const bytes of made.filler.sizes.slice(0, 3)) assert.ok(bytes < 128 << 10, `${bytes}`);
});

test('H11: a stream whose client does not read is ended, and releases its snapshot', async (t) => {
  const made = await start(t, { streamStallMs: 500 });
  made.filler.open();
  const call = leaveUnread(open(connect(t, made), 'pinned'));
  await opened(made, 1);
  // As DeleteSnapshot takes it; refused as long as the stream has it.
  await eventually('the stream has ended', () => ended(made) === 1);
  made.locks.acquire([snapshotKey('pinned')])();
  const [line] = made.log.filter((entry) => 'code' in entry);
  assert.equal(line?.['code'], 'ABORTED');
  const status = await statusOf(call);
  assert.equal(status.code, 10);
  assert.match(status.details, /read nothing for .* starting_offset/);
});

test('H11: a client that reads slowly is not treated as one that does not read', async (t) => {
  const made = await start(t, { streamStallMs: 2000 });
  made.filler.open();
  const call = open(connect(t, made), 'slow');
  let messages = 0;
  call.on('data', () => {
    messages += 1;
    call.pause();
    setTimeout(() => call.resume(), 50);
  });
  call.resume();
  // Longer than a stall takes.
  while (messages < 60) await delay(50);
  assert.equal(ended(made), 0);
  call.cancel();
});

for (const connections of isNightly ? [1, 10] : [10]) {
  test(`H11: ${STREAMS} unread streams by ${connections} connections do not block other clients`, async (t) => {
    const made = await start(t, { maxStreams: 32 });
    made.filler.open();
    const good = connect(t, made);
    const each = STREAMS / connections;
    for (let index = 0; index < connections; index += 1) {
      const hostile = connect(t, made);
      for (let stream = 0; stream < each; stream += 1) {
        leaveUnread(open(hostile, `snap-${index}-${stream}`, SMALL));
      }
    }
    await opened(made, 32);
    for (let attempt = 0; attempt < 5; attempt += 1) {
      const stream = open(good, 'good', SMALL);
      let messages = 0;
      stream.on('data', () => {
        messages += 1;
      });
      stream.resume();
      await eventually('it is read', () => messages >= 20);
      stream.cancel();
    }
    const refused = made.log.filter((line) => line['code'] === 'RESOURCE_EXHAUSTED');
    for (const line of refused) assert.match(String(line['error']), /streams are open/);
  });
}

test('H11: a stream over the limit is RESOURCE_EXHAUSTED while its client reads its other streams', async (t) => {
  const made = await start(t, { maxStreams: 4 });
  const client = connect(t, made);
  const calls = await openMany(client, made, 4);
  const status = await statusOf(open(client, 'one more'));
  assert.equal(status.code, 8);
  assert.match(status.details, /4 streams are open, which is the limit/);
  for (const call of calls) call.cancel();
});

test('H11: the client with the most streams loses one at the limit to a client with fewer', async (t) => {
  const made = await start(t, { maxStreams: 4 });
  const few = connect(t, made);
  const calls = await openMany(connect(t, made), made, 4);
  const statuses = Promise.race(calls.map(statusOf));
  open(few, 'other');
  const status = await statuses;
  assert.equal(status.code, 8);
  assert.match(status.details, /this one was ended for a new one/);
  assert.equal(ended(made), 1);
});
