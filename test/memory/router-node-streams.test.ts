/**
 * Streams of a node that keeps to no rule: whole messages pass unchanged, whatever the pieces are in which they come, and what
 * is no whole message becomes an error. The node is a bare HTTP/2 server, and so is the client's side.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createSecureServer,
  type Http2SecureServer,
  type ServerHttp2Stream,
} from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { framed, requestHeaders } from '../../src/base/csi/grpc-wire.js';
import { nodeKey } from '../../src/base/csi/handles.js';
import { StatusCode } from '../../src/base/errors.js';
import { formatHostPort } from '../../src/base/settings/tls.js';
import { SWEEP_AT_ONCE } from '../../src/router/router.js';
import { Authority, tlsSettings } from '../support/certificates.js';
import { eventually } from '../support/eventually.js';
import { loopbackAddress } from '../support/loopback.js';
import { encodeMessage } from '../support/raw-call.js';
import { startRouter } from '../support/router-here.js';
import { temporaryDirectory } from '../support/temporary.js';

const MIB = 1 << 20;
const OK = { 'grpc-status': '0' };
const PATH = '/csi.v1.SnapshotMetadata/GetMetadataAllocated';

type Way = 'as frames' | 'through gRPC';

const directory = temporaryDirectory();
/** What the node does with its next stream. */
let serve: (stream: ServerHttp2Stream) => void;
let node: Http2SecureServer;
/** One for each way in which a router sends messages. */
const routers: Awaited<ReturnType<typeof startRouter>>[] = [];
const sessions = new Map<Way, ClientHttp2Session>();

before(async () => {
  const authority = new Authority(directory);
  const { certificate, key, ca } = authority.issueNode('node', 'node-a');
  const [cert, own, trusted] = [certificate, key, ca].map((file) => readFileSync(file));
  node = createSecureServer({ cert, key: own, ca: trusted, requestCert: true, minVersion: 'TLSv1.3' });
  node.on('session', (each) => each.on('error', () => undefined));
  node.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    // A router also asks its nodes for their pulls, every ten seconds.
    if (headers[constants.HTTP2_HEADER_PATH] === PATH) serve(stream);
    else stream.close(constants.NGHTTP2_REFUSED_STREAM);
  });
  const address = loopbackAddress();
  node.listen(address.port, address.host);
  await once(node, 'listening');
  writeFileSync(
    join(directory, 'nodes.json'),
    JSON.stringify({ nodes: [{ id: 'node-a', address: formatHostPort(address) }] }),
  );
  const env = {
    BLOCKDELTA_ROUTE_NODES: `file:${join(directory, 'nodes.json')}`,
    ...tlsSettings(authority.issue('router', 'blockdelta-router')),
  };
  for (const [index, way] of (['as frames', 'through gRPC'] as const).entries()) {
    const socket = join(directory, `router-${index}.sock`);
    routers.push(await startRouter(`unix://${socket}`, env, undefined, way === 'through gRPC'));
    sessions.set(way, connect('http://localhost', { createConnection: () => connectSocket(socket) }));
  }
});

after(async () => {
  for (const session of sessions.values()) session.destroy();
  for (const router of routers) await router.close();
  node?.close();
});

/** Calls GetMetadataAllocated. The node answers with status 200 and then does as `answer` says. */
function call(answer: (stream: ServerHttp2Stream) => void, way: Way = 'as frames'): ClientHttp2Stream {
  serve = (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    answer(stream);
  };
  const request = sessions.get(way)?.request(requestHeaders(PATH, Infinity));
  assert.ok(request);
  const snapshot_id = `snap-${nodeKey('node-a')}-${randomUUID()}`;
  request.end(framed(encodeMessage('GetMetadataAllocatedRequest', { snapshot_id })));
  return request;
}

/** All bytes that the client gets, and the status. */
async function read(stream: ClientHttp2Stream): Promise<{ bytes: Buffer; code: number; message: string }> {
  let status: Record<string, unknown> = {};
  for (const event of ['response', 'trailers']) {
    stream.on(event, (headers) => {
      status = { ...status, ...headers };
    });
  }
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(piece as Buffer);
  const message = decodeURIComponent(String(status['grpc-message'] ?? ''));
  return { bytes: Buffer.concat(pieces), code: Number(status['grpc-status']), message };
}

/** Sends the bytes and then this status; none for null. */
function sending(bytes: Buffer, trailers: Record<string, string> | null = OK): (stream: ServerHttp2Stream) => void {
  return (stream) => {
    stream.on('wantTrailers', () => (trailers === null ? stream.close() : stream.sendTrailers(trailers)));
    stream.end(bytes);
  };
}

const whole = Buffer.concat([Buffer.from('one'), Buffer.alloc(0), Buffer.alloc(70_000, 7)].map(framed));

test('messages arrive byte for byte, whatever the pieces are in which the node sends them', async () => {
  const small = Array.from({ length: 500 }, (_, index) => framed(Buffer.alloc(index % 40, index)));
  const bytes = Buffer.concat([whole, framed(Buffer.alloc(3 * MIB, 3)), ...small, whole]);
  for (const way of sessions.keys()) {
    for (const size of [997, 16_384, 100_003, bytes.length]) {
      const inPieces = (stream: ServerHttp2Stream): void => {
        stream.on('wantTrailers', () => stream.sendTrailers(OK));
        for (let at = 0; at < bytes.length; at += size) stream.write(bytes.subarray(at, at + size));
        stream.end();
      };
      const found = await read(call(inPieces, way));
      assert.ok(found.bytes.equals(bytes), `pieces of ${size}, ${way}`);
      assert.equal(found.code, 0);
    }
  }
});

test('what is no whole message does not reach the client, and neither does a status that the node has not sent', async () => {
  const torn = framed(Buffer.alloc(100_000, 1)).subarray(0, 50_000);
  const compressed = framed(Buffer.from('x'));
  compressed[0] = 1;
  const long = framed(Buffer.alloc(1));
  long.writeUInt32BE(64 * MIB + 1, 1);
  const longest = Buffer.from(long);
  longest.writeUInt32BE(0xffffffff, 1);
  const lost = /was lost during the call/;
  const cases: [string, (stream: ServerHttp2Stream) => void, number, RegExp][] = [
    ['a torn message', sending(Buffer.concat([whole, torn])), StatusCode.UNAVAILABLE, lost],
    ['a torn prefix', sending(Buffer.concat([whole, torn.subarray(0, 3)])), StatusCode.UNAVAILABLE, lost],
    ['no status', sending(whole, null), StatusCode.UNAVAILABLE, lost],
    ['a status that is none', sending(whole, { 'grpc-status': 'x' }), StatusCode.UNAVAILABLE, lost],
    ['compressed', sending(Buffer.concat([whole, compressed, whole])), StatusCode.INTERNAL, /compressed or over/],
    ['too long', sending(Buffer.concat([whole, long, whole])), StatusCode.INTERNAL, /compressed or over/],
    ['the longest', sending(Buffer.concat([whole, longest])), StatusCode.INTERNAL, /compressed or over/],
    [
      'a reset',
      (stream) => stream.write(Buffer.concat([whole, torn]), () => stream.close(constants.NGHTTP2_INTERNAL_ERROR)),
      StatusCode.UNAVAILABLE,
      lost,
    ],
    [
      'an error of the node',
      sending(whole, { 'grpc-status': '10', 'grpc-message': 'again %C3%A4' }),
      StatusCode.ABORTED,
      /^again ä$/,
    ],
  ];
  for (const [title, answer, code, message] of cases) {
    const found = await read(call(answer));
    assert.deepEqual([found.code, whole.subarray(0, found.bytes.length).equals(found.bytes)], [code, true], title);
    assert.match(found.message, message, title);
    // Bytes of a message that is no message may cost the messages that came in the same piece.
    if (code !== StatusCode.INTERNAL) assert.equal(found.bytes.length, whole.length, title);
  }
});

test('a client that does not read stops the node within two MiB, and gets everything once it reads', async () => {
  const message = framed(Buffer.alloc(50_000, 5));
  const wanted = 64 * MIB;
  for (const way of sessions.keys()) {
    let sent = 0;
    const endless = (stream: ServerHttp2Stream): void => {
      stream.on('wantTrailers', () => stream.sendTrailers(OK));
      const next = (): void => {
        sent += message.length;
        if (sent >= wanted) stream.end(message);
        else stream.write(message, next);
      };
      next();
    };
    const request = call(endless, way);
    await once(request, 'response');
    let before = -1;
    await eventually('the node waits', async () => {
      const isStill = sent === before;
      before = sent;
      await delay(250);
      return isStill && sent === before;
    });
    assert.ok(sent < 2 * MIB, `the node has sent ${sent} bytes, ${way}`);
    const { bytes, code } = await read(request);
    assert.deepEqual([bytes.length, code], [sent, 0], way);
  }
});

test('V8 has the flag that the router sets', () => {
  const options = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' });
  assert.ok(options.includes(SWEEP_AT_ONCE.replace('--no-', '--')));
});

test('a client that cancels ends the stream of the node', async () => {
  const ended = new Promise<number>((resolve) => {
    const request = call((stream) => {
      stream.on('close', () => resolve(stream.rstCode));
      stream.write(whole);
    });
    request.once('data', () => request.close(constants.NGHTTP2_CANCEL));
  });
  assert.equal(await ended, constants.NGHTTP2_CANCEL);
});
