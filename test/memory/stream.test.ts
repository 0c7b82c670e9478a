/** Streams over a real socket: what arrives, what ends them, and the cost of a slow or vanished client. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, constants } from 'node:http2';
import { createConnection } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type * as grpc from '@grpc/grpc-js';
import type { CallContext, MessageWriter } from '../../src/base/csi/service.js';
import { CsiError } from '../../src/base/errors.js';
import type { CsiClient, Message } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { seededRandom } from '../support/random.js';
import {
  CAPACITY,
  defer,
  endless,
  frame,
  LARGE,
  type LogLine,
  metadataService,
  rawClient,
  rowsFrom,
  startServer,
  type TestServer,
  untilCutOff,
} from '../support/server-fixture.js';

type Send = (writer: MessageWriter, context: CallContext) => Promise<void>;

function start(t: TestContext, send: Send, plainStreams = false): Promise<TestServer> {
  const service = metadataService((_request, context, writer) => send(writer, context));
  return startServer(t, { plainStreams, services: [service] });
}

/** The log line of the end of the call. */
async function logged(made: TestServer): Promise<LogLine> {
  const find = () => made.log.find((line) => 'code' in line);
  await eventually('the call is logged', () => find() !== undefined);
  return find() ?? assert.fail();
}

function open(client: CsiClient): grpc.ClientReadableStream<Message> {
  const call = client.open('GetMetadataAllocated', { snapshot_id: 's' });
  call.on('error', () => undefined);
  return call;
}

/** Stops reading after the first message, as a busy client does. */
async function pauseAfterFirst(call: grpc.ClientReadableStream<Message>): Promise<void> {
  await new Promise((resolve) => call.once('data', () => resolve(call.pause())));
}

/** Reads to the end of a stream and returns its status code. */
function endOf(call: grpc.ClientReadableStream<Message>): Promise<number> {
  call.resume();
  return new Promise((resolve) => call.once('status', (status) => resolve(status.code)));
}

for (const plainStreams of [false, true]) {
  const way = plainStreams ? 'through gRPC' : 'as frames';
  test(`chunks of any number of messages arrive message by message and whole, ${way}`, async (t) => {
    const random = seededRandom('chunks');
    const sizes = Array.from({ length: 40 }, () => random.pick([0, 1, 2, 3, 100, 2000]));
    let next = 0;
    const chunks = sizes.map((messages) => {
      const frames = Array.from({ length: messages }, () => {
        const rows = rowsFrom(next, random.below(4));
        next += rows.length;
        return frame(CAPACITY, rows);
      });
      return Buffer.concat(frames);
    });
    const send: Send = async (writer) => {
      for (const chunk of chunks) {
        // One buffer for all messages: it may be reused once send has resolved.
        const memory = new Uint8Array(chunk.length + 16);
        memory.set(chunk, 8);
        await writer.send(memory.subarray(8, 8 + chunk.length));
        memory.fill(0xff);
      }
    };
    const made = await start(t, send, plainStreams);
    const answer = await made.client.allocated('s');
    const rows = rowsFrom(0, next);
    assert.deepEqual(
      answer.ranges,
      rows.map(([offset, size]) => ({ offset: BigInt(offset), size: BigInt(size) })),
    );
    const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
    assert.equal(answer.messages, sum(sizes));
    const { code, messages, wireBytes } = await logged(made);
    const bytes = sum(chunks.map(({ length }) => length)) - 5 * answer.messages;
    assert.deepEqual([code, messages, wireBytes], ['OK', answer.messages, bytes]);
    assert.doesNotMatch(made.logText(), /slower way/);
  });

  test(`a client that reads nothing is told of its deadline by a reset, ${way}`, async (t) => {
    const sender = endless(LARGE);
    const made = await start(t, sender.send, plainStreams);
    const session = connect('http://localhost', { createConnection: () => createConnection(made.socketPath) });
    t.after(() => session.destroy());
    const request = session.request({
      ':method': 'POST',
      ':path': '/csi.v1.SnapshotMetadata/GetMetadataAllocated',
      'content-type': 'application/grpc',
      'grpc-timeout': '200m',
      te: 'trailers',
    });
    request.on('error', () => undefined);
    request.end(Buffer.from([0, 0, 0, 0, 3, 0x0a, 1, 0x73]));
    // It never reads, so its window stays full, and a status behind the messages cannot reach it.
    const closed = once(request, 'close');
    await sender.ended;
    await closed;
    assert.equal(request.rstCode, constants.NGHTTP2_CANCEL);
    assert.equal((await logged(made))['code'], 'DEADLINE_EXCEEDED');
  });
}

/** Reads, and counts messages. */
function count(call: grpc.ClientReadableStream<Message>): () => number {
  let received = 0;
  call.on('data', () => {
    received += 1;
  });
  return () => received;
}

const BROKEN: readonly [string, Buffer][] = [
  ['ends within a prefix', LARGE.subarray(0, 4)],
  ['ends within a message', LARGE.subarray(0, 100)],
  ['has bytes behind its last message', Buffer.concat([LARGE, Buffer.from([0, 0])])],
  ['claims to be compressed', Buffer.concat([Buffer.from([1]), LARGE.subarray(1)])],
];

for (const [what, chunk] of BROKEN) {
  test(`a chunk that ${what} is INTERNAL, and nothing of it is sent`, async (t) => {
    const { client } = await start(t, (writer) => writer.send(chunk));
    const call = open(client);
    const received = count(call);
    assert.equal(await endOf(call), 13);
    assert.equal(received(), 0);
  });
}

for (const sent of [0, 2]) {
  test(`SM19: an error arrives with code and message after ${sent} messages`, async (t) => {
    const { client } = await start(t, async (writer) => {
      if (sent > 0) await writer.send(Buffer.concat([LARGE, LARGE]));
      throw CsiError.failedPrecondition('the base was replaced; make a full backup');
    });
    const call = open(client);
    const received = count(call);
    const [failure] = (await once(call, 'error')) as [grpc.ServiceError];
    assert.equal(failure.code, 9);
    assert.equal(failure.details, 'the base was replaced; make a full backup');
    assert.equal(received(), sent);
  });
}

for (const pace of ['paused', 'running']) {
  test(`SM18, SM20: a cancel releases the handler of a ${pace} stream, which is never OK`, async (t) => {
    const sender = endless(LARGE);
    const made = await start(t, sender.send);
    const call = open(made.client);
    await pauseAfterFirst(call);
    if (pace === 'running') call.resume();
    // What a client that dies does, too.
    else made.client.close();
    await delay(50);
    call.cancel();
    assert.equal((await sender.ended).code, 1);
    assert.equal((await logged(made))['code'], 'CANCELLED');
  });

  test(`SM18: a deadline releases the handler of a ${pace} stream, which is never OK`, async (t) => {
    const sender = endless(LARGE);
    const made = await start(t, sender.send);
    const call = rawClient(t, made.endpoint, 'SnapshotMetadata')['GetMetadataAllocated']?.(
      { snapshot_id: 's' },
      { deadline: Date.now() + 300 },
    ) as grpc.ClientReadableStream<Message>;
    call.on('error', () => undefined);
    const status = new Promise<number>((resolve) => call.once('status', (end) => resolve(end.code)));
    await pauseAfterFirst(call);
    if (pace === 'running') call.resume();
    assert.equal(await status, 4);
    assert.equal((await sender.ended).code, 4);
    assert.equal((await logged(made))['code'], 'DEADLINE_EXCEEDED');
  });
}

test('a handler that returns early because of a cancel does not make the stream OK', async (t) => {
  const made = await start(t, async (writer, context) => {
    await writer.send(LARGE);
    await untilCutOff(context);
  });
  const call = open(made.client);
  const end = endOf(call);
  call.once('data', () => call.cancel());
  assert.equal(await end, 1);
  assert.equal((await logged(made))['code'], 'CANCELLED');
});

test('a paused client stops the sender, however small the messages, in little memory', async (t) => {
  const tiny = frame(CAPACITY, [[0, 4096]]);
  for (const chunk of [LARGE, Buffer.concat(Array.from({ length: 65_536 }, () => tiny))]) {
    const sender = endless(chunk);
    const { client } = await start(t, sender.send);
    const call = open(client);
    await pauseAfterFirst(call);
    const before = process.memoryUsage().rss;
    await delay(500);
    // Unpaused, thousands go in this time.
    assert.ok(sender.sent() < 40, `${sender.sent()} chunks of ${chunk.length} bytes were taken`);
    const grown = process.memoryUsage().rss - before;
    assert.ok(grown < 64 * 1024 * 1024, `grew by ${grown} bytes`);
    call.cancel();
    await sender.ended;
  }
});

test('a slow client receives the whole list', async (t) => {
  const rounds = 30;
  const made = await start(t, async (writer) => {
    for (let round = 0; round < rounds; round += 1) await writer.send(LARGE);
  });
  let received = 0;
  for await (const message of open(made.client) as AsyncIterable<Message>) {
    await delay(5);
    received += (message['block_metadata'] as unknown[]).length;
  }
  assert.equal(received, rounds * 8192);
  const { messages, wireBytes, waits } = await logged(made);
  assert.deepEqual([messages, wireBytes], [rounds, rounds * (LARGE.length - 5)]);
  assert.ok((waits as number) > 0);
});

test('a thousand waits leave no event listeners behind', async (t) => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): number => warnings.push(warning);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const chunk = frame(CAPACITY, rowsFrom(0, 10));
  const { client } = await start(t, async (writer) => {
    for (let round = 0; round < 1000; round += 1) await writer.send(chunk);
  });
  assert.equal((await client.allocated('s')).messages, 1000);
  await delay(10);
  assert.deepEqual(warnings, []);
});

test('sends after the end of a call and concurrent sends are refused', async (t) => {
  const late = defer<MessageWriter>();
  const { client } = await start(t, async (writer) => {
    const first = writer.send(LARGE);
    await assert.rejects(writer.send(LARGE), /before the previous call had ended/);
    await first;
    late.resolve(writer);
  });
  assert.equal((await client.allocated('s')).messages, 1);
  const writer = await late.promise;
  await delay(10);
  await assert.rejects(writer.send(LARGE), /the call has ended/);
});
