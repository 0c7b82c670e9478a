/** Silent connections and requests that never complete: what they cost, whom they block, and how a stop handles them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, type ClientHttp2Stream, connect as http2Connect } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { DecodedMessage } from '../../src/server/calls/request-decoder.js';
import { CsiClient } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { isNightly } from '../support/nightly.js';
import { encodeMessage, RawConnection } from '../support/raw-call.js';
import { refused } from '../support/refusal.js';
import { defer, rawClient, startServer, type TestServer, unaryService } from '../support/server-fixture.js';

const FACTOR = isNightly ? 10 : 1;
const MIB = 1 << 20;
const REQUEST_BYTES = 3 * MIB;
/** Nothing here may take so long; what does, ends with `forced`. */
const GRACE_MS = 60_000;
const READY = 2;

const identity = unaryService('Identity', { Probe: async () => ({ ready: { value: true } }) });

/** A client of its own that has made a call, and is idle now. */
async function idleClient(t: TestContext, made: TestServer): Promise<CsiClient> {
  const client = new CsiClient(made.endpoint);
  t.after(() => client.close());
  await client.identity.Probe({});
  return client;
}

/** A connection that says what it is given, and nothing else; it never ends its side. */
async function rawSocket(t: TestContext, made: TestServer, says?: Buffer): Promise<Socket> {
  const socket = connect({ path: made.socketPath, allowHalfOpen: true });
  socket.on('error', () => undefined);
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  if (says !== undefined) socket.write(says);
  return socket;
}

/** A Node service whose NodeGetInfo answers when `going` resolves. */
function waitingNode() {
  const going = defer();
  const node = unaryService('Node', {
    NodeGetInfo: async () => {
      await going.promise;
      return { node_id: 'n' };
    },
  });
  return { going, node };
}

/** The beginning of HTTP/2, with an empty SETTINGS frame. */
const PREFACE = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);

function session(t: TestContext, made: TestServer): ClientHttp2Session {
  const opened = http2Connect('http://localhost', { createConnection: () => connect(made.socketPath) });
  opened.on('error', () => undefined);
  t.after(() => opened.destroy());
  return opened;
}

function request(of: ClientHttp2Session, path = '/csi.v1.Identity/Probe'): ClientHttp2Stream {
  const stream = of.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' });
  stream.on('error', () => undefined);
  return stream;
}

/** A whole request, of an empty message. */
const emptyRequest = (of: ClientHttp2Session, path?: string) => request(of, path).end(Buffer.alloc(5));

/** The length prefix of a request, without the request. */
function halfSent(of: ClientHttp2Session): ClientHttp2Stream {
  const stream = request(of);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(REQUEST_BYTES, 1);
  stream.write(prefix);
  return stream;
}

/** Resolves when the session is closed, also with an error. */
const closing = (of: ClientHttp2Session): Promise<void> => new Promise((resolve) => of.once('close', resolve));

/** Other clients are served while these sessions do something, and when they were all closed for it. */
async function servesOthers(t: TestContext, made: TestServer, hostile: readonly ClientHttp2Session[]): Promise<void> {
  // Before anything is waited for: one that has closed does not say so again.
  const closed = hostile.map((each) => each.destroyed || closing(each));
  const client = await idleClient(t, made);
  await Promise.all(closed);
  await client.identity.Probe({});
}

test('H21: a stop does not wait for idle clients, whether they respond or not', async (t) => {
  const made = await startServer(t, { services: [identity], graceMs: GRACE_MS });
  const client = await idleClient(t, made);
  const silent = await rawSocket(t, made);
  const deaf = await rawSocket(t, made, PREFACE);
  // Once it has answered there is a session, which would wait for the other side to end.
  await once(deaf, 'data');
  const closed = Promise.all([once(silent, 'end'), once(deaf, 'end')]);
  silent.resume();
  assert.deepEqual(await made.server.stop(), { forced: false, unfinished: 0 });
  await closed;
  await refused(client.identity.Probe({}, { deadlineMs: 60_000 }), 'UNAVAILABLE');
});

test('H21: a stop closes idle connections while it waits for a call on another', async (t) => {
  const { going, node } = waitingNode();
  const made = await startServer(t, { services: [identity, node], graceMs: GRACE_MS });
  const caller = new RawConnection(made.endpoint);
  t.after(() => caller.close());
  const call = caller.unary('/csi.v1.Node/NodeGetInfo', Buffer.alloc(0));
  await eventually('the call runs', () => made.log.some((line) => line['msg'] === 'call started'));
  const idle = await rawSocket(t, made, PREFACE);
  await once(idle, 'data');
  const events: string[] = [];
  const closed = once(idle, 'end').then(() => events.push('idle closed'));
  const stopped = made.server.stop().then((result) => {
    events.push('stopped');
    return result;
  });
  await closed;
  going.resolve();
  assert.ok((await call).length > 0);
  assert.deepEqual(await stopped, { forced: false, unfinished: 0 });
  assert.deepEqual(events, ['idle closed', 'stopped']);
});

test('H12: silent connections stay within the limit, and idle clients stay connected', async (t) => {
  const limits = { maxConnections: 8 };
  const made = await startServer(t, { services: [identity], limits });
  const client = rawClient(t, made.endpoint, 'Identity');
  const probe = promisify((done: (error: Error) => void) => client['Probe']?.({}, done));
  await probe();
  const silent: Socket[] = [];
  // One after the other: the kernel's queue of connections to accept is no longer than 511.
  while (silent.length < 300 * FACTOR) silent.push(await rawSocket(t, made));
  for (const socket of silent) socket.resume();
  const closed = (): number => silent.filter(({ readableEnded }) => readableEnded).length;
  await eventually('the others are closed', () => closed() >= silent.length - 7);
  assert.equal(client.getChannel().getConnectivityState(false), READY);
  await probe();
});

test('H12: a silent client is disconnected after a timeout, one that has made a call is not', async (t) => {
  const made = await startServer(t, { services: [identity], requestMs: 300 });
  const idle = session(t, made);
  await once(idle, 'remoteSettings');
  const silent = await rawSocket(t, made);
  silent.resume();
  await once(silent, 'end');
  assert.equal(idle.closed, false);
});

test('H12: a request that does not complete in time ends its connection', async (t) => {
  const made = await startServer(t, { services: [identity], requestMs: 300 });
  const hostile = session(t, made);
  const late = halfSent(hostile);
  // This one is not late yet when the other one is.
  await delay(400);
  const other = halfSent(hostile);
  const answers: unknown[] = [];
  for (const stream of [late, other]) stream.on('response', (headers) => answers.push(headers['grpc-status']));
  await closing(hostile);
  assert.deepEqual(answers, ['14', '14']);
});

/** The sockets of connections to the server, in the kernel's list. */
const connectionsTo = ({ socketPath }: TestServer): number =>
  readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .filter((line) => line.endsWith(` ${socketPath}`) && !line.includes(LISTENING)).length;
/** Its flag, SO_ACCEPTCON. */
const LISTENING = ' 00010000 ';

test('H12: a client that stops in the middle of its headers, or is killed there, is disconnected after a while, and idle ones are not', async (t) => {
  const made = await startServer(t, { services: [identity], requestMs: 100, limits: { streamStallMs: 3000 } });
  const idle = session(t, made);
  await once(idle, 'remoteSettings');
  // HEADERS of one byte, an indexed ":method: POST", which are to be continued.
  const unfinished = await rawSocket(t, made, PREFACE);
  unfinished.write(Buffer.from([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83]));
  unfinished.resume();
  const socket = connect(made.socketPath);
  const killed = http2Connect('http://localhost', {
    createConnection: () => socket,
    maxSendHeaderBlockLength: 2 * MIB,
  });
  killed.on('error', () => undefined);
  await once(killed, 'remoteSettings');
  killed.request({ 'x-large': 'x'.repeat(MIB) }).on('error', () => undefined);
  socket.destroy();
  await eventually('only the idle one is left', () => connectionsTo(made) === 1);
  assert.equal(idle.closed, false);
  await idleClient(t, made);
});

test(`H12: only a few of ${200 * FACTOR} unfinished requests of 3 MiB are accepted, and other clients are served`, async (t) => {
  const made = await startServer(t, { services: [identity] });
  const hostile = Array.from({ length: 2 * FACTOR }, () => session(t, made));
  let accepted = 0;
  const piece = Buffer.alloc(64 << 10);
  const send = (stream: ClientHttp2Stream, left: number): void => {
    // All but the last byte.
    const bytes = Math.min(piece.length, left - 1);
    if (bytes === 0) return;
    stream.write(piece.subarray(0, bytes), (error) => {
      if (error) return;
      accepted += bytes;
      send(stream, left - bytes);
    });
  };
  for (const each of hostile) {
    for (let request = 0; request < 100; request += 1) send(halfSent(each), REQUEST_BYTES);
  }
  await servesOthers(t, made, hostile);
  // Including what came until the connections were closed, and was thrown away.
  const sent = 200 * FACTOR * (REQUEST_BYTES / MIB);
  t.diagnostic(`${(accepted / MIB).toFixed(1)} MiB were taken of ${sent}`);
  assert.ok(accepted / MIB < sent / 3, `${accepted / MIB} MiB were taken`);
});

test(`H12: ${1000 * FACTOR} half-sent requests are not held, and other clients are served`, async (t) => {
  const made = await startServer(t, { services: [identity] });
  const hostile = Array.from({ length: 10 * FACTOR }, () => session(t, made));
  for (const each of hostile) {
    for (let request = 0; request < 100; request += 1) halfSent(each);
  }
  await servesOthers(t, made, hostile);
});

test('H12: a call is served before most of a hundred that another client sent earlier', async (t) => {
  const served: string[] = [];
  const good = defer<ClientHttp2Session>();
  const services = [
    unaryService('Identity', {
      Probe: async () => {
        served.push('good');
        return {};
      },
    }),
    unaryService('Node', {
      NodeGetInfo: async () => {
        // By then the server has received all of them, unless it has read them in several parts.
        if (served.push('hostile') === 1) emptyRequest(await good.promise);
        return {};
      },
    }),
  ];
  const made = await startServer(t, { services });
  const [hostile, other] = [session(t, made), session(t, made)];
  // Both connections are known to the server before the calls that are compared.
  await Promise.all([hostile, other].map((each) => once(emptyRequest(each).resume(), 'close')));
  served.length = 0;
  good.resolve(other);
  for (let count = 0; count < 100; count += 1) emptyRequest(hostile, '/csi.v1.Node/NodeGetInfo');
  await eventually('all are served', () => served.length === 101);
  assert.ok(served.indexOf('good') < 50, `${served.indexOf('good')} calls came before it`);
});

test('H12: a call over the limit is UNAVAILABLE, except for health checks', async (t) => {
  const { going, node } = waitingNode();
  const made = await startServer(t, { services: [identity, node], limits: { maxCalls: 16 } });
  const { client } = made;
  const calls = Array.from({ length: 16 }, () => client.node.NodeGetInfo({}));
  await eventually('they run', () => made.log.filter((line) => line['msg'] === 'call started').length === 16);
  await refused(client.node.NodeGetInfo({}), 'UNAVAILABLE', /16 calls are in flight/);
  assert.equal((await client.identity.Probe({}))['ready'].value, true);
  going.resolve();
  for (const answer of await Promise.all(calls)) assert.equal(answer['node_id'], 'n');
});

test('H12: the total size of requests in flight is bounded', async (t) => {
  const going = defer();
  const held: DecodedMessage[] = [];
  const controller = unaryService('Controller', {
    CreateVolume: async (request) => {
      held.push(request);
      await going.promise;
      return {};
    },
  });
  const made = await startServer(t, { services: [controller] });
  const connection = new RawConnection(made.endpoint);
  t.after(() => connection.close());
  const bytes = encodeMessage('CreateVolumeRequest', { name: 'x'.repeat(REQUEST_BYTES) });
  const calls: Promise<Buffer>[] = [];
  const refused: number[] = [];
  for (let sent = 1; sent <= 15; sent += 1) {
    const call = connection.unary('/csi.v1.Controller/CreateVolume', bytes);
    call.catch(({ code }: { code: number }) => refused.push(code));
    calls.push(call);
    await eventually('it is held or refused', () => held.length + refused.length === sent);
  }
  assert.equal(held.length, 10);
  going.resolve();
  await Promise.all(calls.slice(0, 10));
  assert.deepEqual(refused, [14, 14, 14, 14, 14]);
});
