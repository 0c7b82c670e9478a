import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { MetricsListener, type Routes } from '../../../src/server/metrics/listener.js';
import { seededRandom } from '../../support/random.js';

const LOOPBACK = { host: '127.0.0.1', port: 0 };

async function listen(t: TestContext, routes: Partial<Routes> = {}): Promise<string> {
  const listener = await MetricsListener.listen(LOOPBACK, {
    contentType: 'text/plain; version=0.0.4',
    metrics: async () => Buffer.from('up 1\n'),
    notReady: async () => null,
    ...routes,
  });
  t.after(() => listener.close());
  return listener.address;
}

interface Answer {
  status: number | undefined;
  type: string | undefined;
  body: string;
}

async function ask(address: string, path: string, method = 'GET'): Promise<Answer> {
  // fetch() would follow a path with dots itself.
  const sent = request(`http://${address}${path}`, { method, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const { statusCode: status, headers } = response;
  return { status, type: headers['content-type'], body: await text(response) };
}

function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1));
}

/** Everything the server sends on one connection until it closes it. */
async function speak(address: string, bytes: string | Buffer, ends = false): Promise<string> {
  const socket = connect(portOf(address), '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk.toString();
  });
  socket.on('error', () => undefined);
  socket.write(bytes);
  if (ends) socket.end();
  await once(socket, 'close');
  return answer;
}

test('/metrics, /healthz and /readyz are served, and nothing else', async (t) => {
  const address = await listen(t);
  assert.deepEqual(await ask(address, '/metrics'), { status: 200, type: 'text/plain; version=0.0.4', body: 'up 1\n' });
  assert.equal((await ask(address, '/metrics?name=x')).status, 200);
  assert.equal((await ask(address, '/healthz')).status, 200);
  assert.equal((await ask(address, '/readyz')).status, 200);
  for (const path of ['/', '/metrics/', '/debug', '/../etc/passwd']) {
    assert.equal((await ask(address, path)).status, 404, path);
  }
});

test('/readyz answers 503 with the reason while the server is not ready', async (t) => {
  const address = await listen(t, { notReady: async () => "pool 'a' does not answer" });
  const { status, body } = await ask(address, '/readyz');
  assert.equal(status, 503);
  assert.match(body, /pool 'a' does not answer/);
  assert.equal((await ask(address, '/healthz')).status, 200);
});

test('HEAD is answered without a body, a failing collection with 500, and the listener goes on', async (t) => {
  const head = await ask(await listen(t), '/metrics', 'HEAD');
  assert.deepEqual([head.status, head.body], [200, '']);
  const address = await listen(t, { metrics: () => Promise.reject(new Error('broken')) });
  const { status, body } = await ask(address, '/metrics');
  assert.equal(status, 500);
  assert.doesNotMatch(body, /broken/);
  assert.equal((await ask(address, '/healthz')).status, 200);
});

test('H25: methods other than GET and HEAD, and requests with a body, are refused', async (t) => {
  const address = await listen(t);
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    assert.equal((await ask(address, '/metrics', method)).status, 405, method);
  }
  const get = 'GET /metrics HTTP/1.1\r\nhost: x\r\n';
  for (const body of ['content-length: 5\r\n\r\nhello', 'transfer-encoding: chunked\r\n\r\n5\r\n']) {
    assert.match(await speak(address, get + body), /^HTTP\/1\.1 413/, body);
  }
});

test('H25: a connection serves one request, and headers that are too long are refused', async (t) => {
  const address = await listen(t);
  const get = 'GET /healthz HTTP/1.1\r\nhost: x\r\n';
  const answer = await speak(address, `${get}\r\n${get}\r\n${get}\r\n`);
  assert.equal(answer.match(/HTTP\/1\.1 200/g)?.length, 1);
  assert.match(await speak(address, `${get}x: ${'y'.repeat(20_000)}\r\n\r\n`), /^HTTP\/1\.1 431/);
  assert.match(await speak(address, '\0\0\0\r\n\r\n'), /^HTTP\/1\.1 400/);
  assert.equal((await ask(address, '/healthz')).status, 200);
});

test('H25: silent connections do not keep a scrape out', async (t) => {
  const address = await listen(t);
  const silent: Socket[] = [];
  t.after(() => {
    for (const socket of silent) socket.destroy();
  });
  for (let made = 0; made < 100; made += 1) {
    const socket = connect(portOf(address), '127.0.0.1').on('error', () => undefined);
    socket.write('GET /met');
    silent.push(socket);
    await once(socket, 'connect');
  }
  assert.equal((await ask(address, '/metrics')).body, 'up 1\n');
});

test('H25: a request that never becomes complete is ended', async (t) => {
  const address = await listen(t);
  await speak(address, 'GET /metrics HTTP/1.1\r\nx: ');
});

test('H25: requests with random bytes in them neither end the listener nor keep a scrape out', async (t) => {
  const address = await listen(t);
  const random = seededRandom('metrics listener');
  const valid = Buffer.from('GET /metrics HTTP/1.1\r\nhost: x\r\naccept: text/plain\r\n\r\n');
  for (let round = 0; round < 20; round += 1) {
    const requests = Array.from({ length: 16 }, () => {
      const bytes = Buffer.concat([valid, valid]);
      const changes = 1 + random.below(8);
      for (let change = 0; change < changes; change += 1) {
        random.bytes(1).copy(bytes, random.below(bytes.length));
      }
      return bytes.subarray(0, random.below(bytes.length));
    });
    await Promise.all(requests.map((bytes) => speak(address, bytes, true)));
    assert.equal((await ask(address, '/metrics')).body, 'up 1\n');
  }
});

test('an address that this host does not have is an error that names it', async () => {
  const routes = { contentType: '', metrics: async () => Buffer.alloc(0), notReady: async () => null };
  const listening = MetricsListener.listen({ host: '192.0.2.1', port: 0 }, routes);
  await assert.rejects(listening, /192\.0\.2\.1:0, .* this host has no such address/);
});
