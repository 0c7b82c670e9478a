/** Streams over a real socket: what arrives, what ends them, and the cost of a slow or vanished client. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, constants } from 'node:http2';
import { createConnection } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type * as grpc from '@grpc/grpc-js';
import { CsiError } from '../../src/base/errors.js';
import type { AnyService, CallContext, MessageWriter } from '../../src/csi/service.js';
import type { CsiClient, Message } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { rejectsWith } from '../support/expect-status.js';
import { seededRandom } from '../support/random.js';
import {
  defer,
  fakeService,
  frame,
  type Row,
  rawClient,
  startServer,
  untilCutOff,
} from './server-fixture.js';

const CAPACITY = 2n ** 50n;

type Send = (writer: MessageWriter, context: CallContext) => Promise<void>;

function streaming(send: Send): AnyService {
  return fakeService('SnapshotMetadata', {
    streams: { GetMetadataAllocated: (_request, context, writer) => send(writer, context) },
  });
}

function rowsFrom(first: number, count: number): Row[] {
  return Array.from({ length: count }, (_, index) => [(first + index) * 8192, 4096] as const);
}

/** About 106 KB, the default maximum of a message. */
const LARGE = frame(CAPACITY, rowsFrom(0, 8192));

function open(client: CsiClient): grpc.ClientReadableStream<Message> {
  return client.open('GetMetadataAllocated', { snapshot_id: 's' });
}

/** Stops reading after the first message, as a busy client does. */
async function pauseAfterFirst(call: grpc.ClientReadableStream<Message>): Promise<void> {
  await new Promise<void>((resolve) =>
    call.once('data', () => {
      call.pause();
      resolve();
    }),
  );
}

/** Reads to the end of a stream and returns its status code. */
function endOf(call: grpc.ClientReadableStream<Message>): Promise<number> {
  call.resume();
  call.on('error', () => undefined);
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
    const made = await startServer(t, {
      plainStreams,
      services: [
        streaming(async (writer) => {
          for (const chunk of chunks) {
            // One buffer for all messages: it may be reused once send has resolved.
            const memory = new Uint8Array(chunk.length + 16);
            memory.set(chunk, 8);
            await writer.send(memory.subarray(8, 8 + chunk.length));
            memory.fill(0xff);
          }
        }),
      ],
    });
    const answer = await made.client.allocated('s');
    assert.equal(
      answer.messages,
      sizes.reduce((sum, size) => sum + size, 0),
    );
    assert.deepEqual(
      answer.ranges,
      rowsFrom(0, next).map(([offset, size]) => ({ offset: BigInt(offset), size: BigInt(size) })),
    );
    const [line] = made.log.filter((entry) => 'code' in entry);
    assert.equal(line?.['messages'], answer.messages);
    assert.equal(line?.['code'], 'OK');
    assert.equal(
      line?.['wireBytes'],
      chunks.reduce((sum, chunk) => sum + chunk.length, 0) - 5 * answer.messages,
    );
    assert.doesNotMatch(made.logText(), /slower way/);
  });
}

const BROKEN: readonly [string, Buffer][] = [
  ['ends within a prefix', LARGE.subarray(0, LARGE.length).subarray(0, 4)],
  ['ends within a message', LARGE.subarray(0, 100)],
  ['has bytes behind its last message', Buffer.concat([LARGE, Buffer.from([0, 0])])],
  ['claims to be compressed', Buffer.concat([Buffer.from([1]), LARGE.subarray(1)])],
];

for (const [what, chunk] of BROKEN) {
  test(`a chunk that ${what} is INTERNAL, and nothing of it is sent`, async (t) => {
    const made = await startServer(t, {
      services: [streaming((writer) => writer.send(chunk))],
    });
    const call = open(made.client);
    let received = 0;
    call.on('data', () => {
      received += 1;
    });
    assert.equal(await endOf(call), 13);
    assert.equal(received, 0);
  });
}

test('SM19: an error during a stream arrives with code and message, after the messages sent before', async (t) => {
  const made = await startServer(t, {
    services: [
      streaming(async (writer) => {
        await writer.send(Buffer.concat([LARGE, LARGE]));
        throw CsiError.failedPrecondition('the base was replaced; make a full backup');
      }),
    ],
  });
  const call = open(made.client);
  const failure = await new Promise<grpc.ServiceError>((resolve) => {
    call.on('data', () => undefined);
    call.on('error', (error) => resolve(error as grpc.ServiceError));
  });
  assert.equal(failure.code, 9);
  assert.equal(failure.details, 'the base was replaced; make a full backup');
});

test('an error before the first message arrives with code and message', async (t) => {
  const made = await startServer(t, {
    services: [
      streaming(async () => {
        throw CsiError.notFound('snapshot s does not exist');
      }),
    ],
  });
  await rejectsWith(made.client.allocated('s'), 'NOT_FOUND', /snapshot s does not exist/);
});

/** Sends without end; records how it ended. */
function endless(chunk: Buffer = LARGE) {
  const ended = defer<unknown>();
  let sent = 0;
  const service = streaming(async (writer, context) => {
    try {
      for (;;) {
        await writer.send(chunk);
        sent += 1;
      }
    } catch (error) {
      ended.resolve(error);
      throw error;
    } finally {
      context.note({ sent });
    }
  });
  return { service, ended: ended.promise, sent: () => sent };
}

for (const paused of [true, false]) {
  test(`SM18: a cancel releases the handler of a ${paused ? 'paused' : 'running'} stream, which never ends with OK`, async (t) => {
    const sender = endless();
    const made = await startServer(t, { services: [sender.service] });
    const call = open(made.client);
    call.on('error', () => undefined);
    await pauseAfterFirst(call);
    if (!paused) call.resume();
    await delay(50);
    call.cancel();
    const error = (await sender.ended) as CsiError;
    assert.equal(error.code, 1);
    await eventually('the call is logged', () => made.log.some((line) => 'code' in line));
    const line = made.log.find((entry) => 'code' in entry);
    assert.equal(line?.['code'], 'CANCELLED');
  });

  test(`SM18: a deadline releases the handler of a ${paused ? 'paused' : 'running'} stream, which never ends with OK`, async (t) => {
    const sender = endless();
    const made = await startServer(t, { services: [sender.service] });
    const call = rawClient(t, made.endpoint, 'SnapshotMetadata')['GetMetadataAllocated']?.(
      { snapshot_id: 's' },
      { deadline: Date.now() + 300 },
    ) as grpc.ClientReadableStream<Message>;
    call.on('error', () => undefined);
    const status = new Promise<number>((resolve) =>
      call.once('status', (end) => resolve(end.code)),
    );
    await pauseAfterFirst(call);
    if (!paused) call.resume();
    assert.equal(await status, 4);
    const error = (await sender.ended) as CsiError;
    assert.equal(error.code, 4);
    await eventually('the call is logged', () => made.log.some((line) => 'code' in line));
    assert.equal(made.log.find((line) => 'code' in line)?.['code'], 'DEADLINE_EXCEEDED');
  });
}

for (const plainStreams of [false, true]) {
  const way = plainStreams ? 'through gRPC' : 'as frames';
  test(`a client that reads nothing is told of its deadline by a reset, ${way}`, async (t) => {
    const sender = endless();
    const made = await startServer(t, { plainStreams, services: [sender.service] });
    const session = connect('http://localhost', {
      createConnection: () => createConnection(made.socketPath),
    });
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
    await eventually('the call is logged', () => made.log.some((line) => 'code' in line));
    assert.equal(made.log.find((line) => 'code' in line)?.['code'], 'DEADLINE_EXCEEDED');
  });
}

test('SM20: a client that dies releases the handler', async (t) => {
  const sender = endless();
  const made = await startServer(t, { services: [sender.service] });
  const call = open(made.client);
  call.on('error', () => undefined);
  await pauseAfterFirst(call);
  made.client.close();
  call.cancel();
  assert.ok((await sender.ended) instanceof CsiError);
});

test('a handler that returns early because of a cancel does not make the stream OK', async (t) => {
  const made = await startServer(t, {
    services: [
      streaming(async (writer, context) => {
        await writer.send(LARGE);
        await untilCutOff(context);
      }),
    ],
  });
  const call = open(made.client);
  const end = endOf(call);
  call.once('data', () => call.cancel());
  assert.equal(await end, 1);
  await eventually('the call is logged', () => made.log.some((line) => 'code' in line));
  assert.equal(made.log.find((line) => 'code' in line)?.['code'], 'CANCELLED');
});

test('a paused client stops the sender within a few messages', async (t) => {
  const sender = endless();
  const made = await startServer(t, { services: [sender.service] });
  const call = open(made.client);
  call.on('error', () => undefined);
  await pauseAfterFirst(call);
  await delay(500);
  // Unpaused, thousands go in this time.
  assert.ok(sender.sent() < 40, `${sender.sent()} chunks of ${LARGE.length} bytes were taken`);
  call.cancel();
  await sender.ended;
});

test('a paused client costs bounded memory, however small the messages', async (t) => {
  const tiny = frame(CAPACITY, [[0, 4096]]);
  const chunk = Buffer.concat(Array.from({ length: 65_536 }, () => tiny));
  const sender = endless(chunk);
  const made = await startServer(t, { services: [sender.service] });
  const call = open(made.client);
  call.on('error', () => undefined);
  await pauseAfterFirst(call);
  const before = process.memoryUsage().rss;
  await delay(500);
  const grown = process.memoryUsage().rss - before;
  assert.ok(grown < 64 * 1024 * 1024, `grew by ${grown} bytes`);
  call.cancel();
  await sender.ended;
});

test('a slow client receives the whole list', async (t) => {
  const rounds = 30;
  const made = await startServer(t, {
    services: [
      streaming(async (writer) => {
        for (let round = 0; round < rounds; round += 1) await writer.send(LARGE);
      }),
    ],
  });
  let received = 0;
  for await (const message of open(made.client) as AsyncIterable<Message>) {
    await delay(5);
    received += (message['block_metadata'] as unknown[]).length;
  }
  assert.equal(received, rounds * 8192);
  const line = made.log.find((entry) => 'code' in entry);
  assert.equal(line?.['messages'], rounds);
  assert.equal(line?.['wireBytes'], rounds * (LARGE.length - 5));
  assert.ok((line?.['waits'] as number) > 0);
});

test('a thousand waits leave no event listeners behind', async (t) => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): number => warnings.push(warning);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const chunk = frame(CAPACITY, rowsFrom(0, 10));
  const made = await startServer(t, {
    services: [
      streaming(async (writer) => {
        for (let round = 0; round < 1000; round += 1) await writer.send(chunk);
      }),
    ],
  });
  assert.equal((await made.client.allocated('s')).messages, 1000);
  await delay(10);
  assert.deepEqual(warnings, []);
});

test('sends after the end of a call and concurrent sends are refused', async (t) => {
  const late = defer<MessageWriter>();
  const made = await startServer(t, {
    services: [
      streaming(async (writer) => {
        const first = writer.send(LARGE);
        await assert.rejects(writer.send(LARGE), /before the previous call had ended/);
        await first;
        late.resolve(writer);
      }),
    ],
  });
  assert.equal((await made.client.allocated('s')).messages, 1);
  const writer = await late.promise;
  await delay(10);
  await assert.rejects(writer.send(LARGE), /the call has ended/);
});

test('many concurrent streams, cancelled at random moments, are all released', async (t) => {
  const random = seededRandom('cuts');
  let running = 0;
  const made = await startServer(t, {
    services: [
      streaming(async (writer) => {
        running += 1;
        try {
          for (let round = 0; round < 200; round += 1) await writer.send(LARGE);
        } finally {
          running -= 1;
        }
      }),
    ],
  });
  const calls = Array.from({ length: 20 }, async () => {
    const call = open(made.client);
    const end = endOf(call);
    await delay(random.below(100));
    if (random.below(2) === 0) call.pause();
    await delay(random.below(100));
    call.cancel();
    return end;
  });
  const codes = await Promise.all(calls);
  await eventually('all handlers ended', () => running === 0);
  for (const line of made.log.filter((entry) => entry['code'] === 'OK')) {
    assert.equal(line['messages'], 200, 'an OK without the whole list');
  }
  assert.ok(codes.every((code) => code === 0 || code === 1));
  assert.deepEqual(await made.server.stop(), { forced: false, unfinished: 0 });
});
