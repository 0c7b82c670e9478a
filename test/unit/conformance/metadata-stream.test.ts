import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { framed } from '../../../src/base/csi/grpc-wire.js';
import { clientServices } from '../../../src/base/csi/proto.js';
import { StatusCode } from '../../../src/base/errors.js';
import { MetadataStream } from '../../../src/tools/conformance/bare-stream.js';
import type { Message } from '../../support/csi-client.js';
import { temporaryDirectory } from '../../support/temporary.js';

const socketPath = join(temporaryDirectory(), 'server.sock');

const RPC = 'GetMetadataAllocated';
const METHOD = clientServices().SnapshotMetadata[RPC];
const HEADERS = { ':status': 200, 'content-type': 'application/grpc' };

type Behaviour = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

/** Opens a stream to a server with this behaviour; both are closed when `use` has ended. */
async function withStream<T>(behaviour: Behaviour, use: (stream: MetadataStream) => Promise<T>): Promise<T> {
  const server = createServer();
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    behaviour(stream, headers);
  });
  server.listen(socketPath);
  await once(server, 'listening');
  const stream = new MetadataStream({
    signal: new AbortController().signal,
    socketPath,
    rpc: RPC,
    path: METHOD?.path ?? '',
    request: METHOD?.requestSerialize({ snapshot_id: 'one' }) ?? Buffer.alloc(0),
    onRefusal: () => undefined,
  });
  try {
    return await use(stream);
  } finally {
    await stream.close();
    server.close();
  }
}

function frameOf(message: Message): Buffer {
  return framed(METHOD?.responseSerialize(message) ?? Buffer.alloc(0));
}

const MESSAGE = {
  block_metadata_type: 'VARIABLE_LENGTH',
  volume_capacity_bytes: '1048576',
  block_metadata: [{ byte_offset: '4096', size_bytes: '512' }],
};

function answer(stream: ServerHttp2Stream, bytes: Buffer, trailers: Record<string, string>): void {
  stream.respond(HEADERS, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.end(bytes);
}

async function endOf(stream: MetadataStream): Promise<[number, number, string]> {
  let messages = 0;
  while ((await stream.next()) !== null) messages += 1;
  return [messages, stream.end.code, stream.end.message];
}

test('messages are reassembled, however they are split on the way', async () => {
  const bytes = Buffer.concat([frameOf(MESSAGE), frameOf({}), frameOf(MESSAGE)]);
  const behaviour: Behaviour = async (stream) => {
    stream.respond(HEADERS, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    for (const byte of bytes) {
      stream.write(Buffer.from([byte]));
      await delay(0);
    }
    stream.end();
  };
  await withStream(behaviour, async (stream) => {
    const first = await stream.next();
    assert.deepEqual(first?.entries, [{ offset: 4096n, size: 512n }]);
    assert.equal(first?.type, 'VARIABLE_LENGTH');
    assert.equal(first?.capacityBytes, 1048576n);
    assert.equal(first?.wireBytes, frameOf(MESSAGE).length - 5);
    const bare = await stream.next();
    assert.deepEqual([bare?.type, bare?.capacityBytes], ['UNKNOWN', 0n], 'what is not set is seen');
    assert.notEqual(await stream.next(), null);
    assert.equal(await stream.next(), null);
    assert.equal(stream.end.code, StatusCode.OK);
  });
});

test('a refusal has its code, its message and whether it has details', async () => {
  const rows: [Record<string, string>, string, boolean][] = [
    [{ 'grpc-message': 'caf%C3%A9 100%25' }, 'café 100%', false],
    [{ 'grpc-message': '100% wrong' }, '100% wrong', false],
    [{ 'grpc-status-details-bin': 'AAAA' }, '', true],
  ];
  for (const [headers, message, hasDetails] of rows) {
    const trailers = { 'grpc-status': '5', ...headers };
    const onlyTrailers: Behaviour = (stream) => stream.respond({ ...HEADERS, ...trailers }, { endStream: true });
    const behind: Behaviour = (stream) => answer(stream, frameOf(MESSAGE), trailers);
    for (const behaviour of [onlyTrailers, behind]) {
      await withStream(behaviour, async (stream) => {
        await endOf(stream);
        assert.deepEqual(stream.end, { rpc: RPC, code: 5, message, hasDetails });
      });
    }
  }
});

test('no broken end looks like OK', async () => {
  const whole = frameOf(MESSAGE);
  /** Ends so behind a message. */
  const cut =
    (end: (stream: ServerHttp2Stream) => void): Behaviour =>
    (stream) => {
      stream.respond(HEADERS);
      stream.write(whole);
      end(stream);
    };
  const { UNAVAILABLE, INTERNAL } = StatusCode;
  const half: Behaviour = (stream) => answer(stream, whole.subarray(0, -1), { 'grpc-status': '0' });
  const breaks = ({ session }: ServerHttp2Stream) => setTimeout(() => session?.destroy(), 20);
  for (const [what, code, behaviour] of [
    ['reset by the driver', UNAVAILABLE, cut((stream) => stream.close(2))],
    ['a connection that breaks', UNAVAILABLE, cut(breaks)],
    ['an end without a status', UNAVAILABLE, cut((stream) => stream.end())],
    ['OK in the middle of a message', INTERNAL, half],
  ] as const) {
    const [, found, message] = await withStream(behaviour, endOf);
    assert.equal(found, code, `${what}: ${message}`);
  }
});

test('bytes that are not a message fail the check with a description', async () => {
  const frame = Buffer.from([0, 0, 0, 0, 2, 0x1a, 0x7f]);
  const behaviour: Behaviour = (stream) => answer(stream, frame, { 'grpc-status': '0' });
  await assert.rejects(withStream(behaviour, endOf), {
    message: /expected messages of GetMetadataAllocatedResponse, found 2 bytes that do not decode/,
  });
});
