/** The listener of a node for routers: who may call over TCP, which services, and what happens to the rest. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import { DESTINATION_HEADER, nodeUri } from '../../src/base/csi/routed-calls.js';
import type { ServiceName } from '../../src/base/csi/service.js';
import { StatusCode } from '../../src/base/errors.js';
import { formatHostPort } from '../../src/base/settings/tls.js';
import { Authority, type CertificateFiles } from '../support/certificates.js';
import { eventually } from '../support/eventually.js';
import {
  type RawClient,
  type RoutedNode,
  rawClient,
  startRoutedNode,
  unaryService,
} from '../support/server-fixture.js';

const DRIVER = 'test.csi';
const DESTINATION = nodeUri(DRIVER, 'node-a');

const probe = unaryService('Identity', { Probe: async () => ({ ready: { value: true } }) });

const startNode = (t: TestContext, options: Parameters<typeof startRoutedNode>[2] = {}): Promise<RoutedNode> =>
  startRoutedNode(t, DRIVER, { services: [probe], ...options });

function clientOf(
  t: TestContext,
  node: RoutedNode,
  service: ServiceName,
  files: CertificateFiles = node.router,
): RawClient {
  const [ca, key, certificate] = [files.ca, files.key, files.certificate].map((file) => readFileSync(file));
  const options = {
    'grpc.ssl_target_name_override': 'blockdelta-node',
    'grpc.default_authority': 'localhost',
    'grpc.use_local_subchannel_pool': 1,
  };
  const credentials = grpc.credentials.createSsl(ca, key, certificate);
  return rawClient(t, formatHostPort(node.address), service, options, credentials);
}

function headers(destination = DESTINATION): grpc.Metadata {
  const metadata = new grpc.Metadata();
  metadata.set(DESTINATION_HEADER, destination);
  return metadata;
}

function call(client: RawClient, rpc: string, metadata = headers(), request: object = {}): Promise<object> {
  return new Promise((resolve, reject) => {
    client[rpc]?.(request, metadata, { deadline: Date.now() + 20_000 }, (error: unknown, response: object) =>
      error ? reject(error) : resolve(response),
    );
  });
}

/** Connects with TLS; resolves to whether the node has kept the connection when it has sent its first bytes. */
async function isAccepted(node: RoutedNode, options: ConnectionOptions): Promise<boolean> {
  const offered = { ALPNProtocols: ['h2'], rejectUnauthorized: false, ...options };
  const socket = connectTls({ ...node.address, ...offered });
  const ended = once(socket, 'close');
  // The preface of HTTP/2 and empty settings: an accepted connection is answered.
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');
  const answered = once(socket, 'data').then(() => true);
  const accepted = await Promise.race([answered, ended.then(() => false)]).catch(() => false);
  socket.destroy();
  return accepted;
}

const keyAndCertificate = ({ key, certificate }: CertificateFiles): ConnectionOptions => ({
  key: readFileSync(key),
  cert: readFileSync(certificate),
});

test('H26: only TLS 1.3 with a trusted certificate of the right DNS name is accepted', async (t) => {
  const node = await startNode(t);
  const { authority, router } = node;
  const stranger = new Authority(node.certificates, 'stranger');
  const good = keyAndCertificate(router);
  assert.equal(await isAccepted(node, good), true);
  const refused: Record<string, ConnectionOptions> = {
    'no certificate': {},
    'TLS 1.2': { ...good, maxVersion: 'TLSv1.2' },
    'another authority': keyAndCertificate(stranger.issue('foreign', 'blockdelta-router')),
    'another name': keyAndCertificate(authority.issue('other', 'somebody-else')),
    'the name as common name only': keyAndCertificate(authority.issue('cn', '', 'blockdelta-router')),
    'a wildcard': keyAndCertificate(authority.issue('wild', '*.example')),
    'no HTTP/2': { ...good, ALPNProtocols: [] },
  };
  for (const [title, options] of Object.entries(refused)) {
    assert.equal(await isAccepted(node, options), false, title);
  }
  assert.equal(await isAccepted(node, good), true, 'refusals have no effect on others');
  assert.match(node.logText(), /a peer was refused on the TCP listener/);
});

test('the CSI Node service is not served over TCP', async (t) => {
  const getInfo = unaryService('Node', { NodeGetInfo: async () => ({ node_id: 'node-a' }) });
  const node = await startNode(t, { services: [probe, getInfo] });
  await assert.rejects(call(clientOf(t, node, 'Node'), 'NodeGetInfo'), { code: StatusCode.UNIMPLEMENTED });
  assert.equal((await node.client.node.NodeGetInfo({}))['node_id'], 'node-a');
});

test('H26: a call that names another node, another driver or none is refused and says so', async (t) => {
  const node = await startNode(t);
  const client = clientOf(t, node, 'Identity');
  for (const destination of [nodeUri(DRIVER, 'node-b'), nodeUri('other.csi', 'node-a'), '']) {
    await assert.rejects(call(client, 'Probe', headers(destination)), {
      code: StatusCode.UNAVAILABLE,
      details: /this is 'blockdelta:\/\/test\.csi\/node\/node-a', and the call is for/,
    });
  }
  assert.deepEqual(await call(client, 'Probe'), { ready: { value: true } });
});

test('new certificates are used once they can be, and the old ones until then', async (t) => {
  const node = await startNode(t);
  writeFileSync(node.files.certificate, 'no certificate');
  await eventually('an error', () => node.logText().includes('the old ones stay in force'));
  assert.equal(await isAccepted(node, keyAndCertificate(node.router)), true);
  const errors = node.log.filter(({ level }) => level === 'error');
  assert.equal(errors.length, 1, 'once');
  assert.doesNotMatch(node.logText(), /PRIVATE KEY/);
  // Another authority altogether, on both sides.
  const next = new Authority(node.certificates, 'next');
  const newRouter = next.issue('router', 'blockdelta-router');
  next.issueNode('node', 'node-a', DRIVER);
  while (!(await isAccepted(node, keyAndCertificate(newRouter)))) await delay(20);
  const old = node.authority.issue('old-router', 'blockdelta-router');
  assert.equal(await isAccepted(node, keyAndCertificate(old)), false);
});

/** Connections that send nothing, from addresses of the loopback network; resolves to how many have ended. */
async function openSilently(
  t: TestContext,
  node: RoutedNode,
  localAddresses: readonly string[],
): Promise<() => number> {
  let closed = 0;
  for (const localAddress of localAddresses) {
    const socket = connect({ ...node.address, localAddress });
    t.after(() => socket.destroy());
    socket.on('error', () => undefined);
    socket.on('close', () => {
      closed += 1;
    });
    await once(socket, 'connect');
  }
  return () => closed;
}

test('H26, H31: peers that do not complete a handshake are dropped, and keep no known peer out', async (t) => {
  const node = await startNode(t, { handshakeMs: 1000 });
  await call(clientOf(t, node, 'Identity'), 'Probe');
  const addresses = Array.from({ length: 200 }, (_, index) => `127.1.1.${index + 1}`);
  const closed = await openSilently(t, node, addresses);
  await call(clientOf(t, node, 'Identity'), 'Probe');
  await eventually('all are closed', () => closed() === addresses.length);
});

test('H31: connections of a source above its rate end before TLS, others are served, and one line tells', async (t) => {
  const node = await startNode(t, { handshakeMs: 60_000 });
  const closed = await openSilently(t, node, new Array(500).fill('127.1.1.1'));
  await call(clientOf(t, node, 'Identity'), 'Probe');
  await eventually('the excess is closed', () => closed() > 400);
  assert.ok(closed() <= 500 - 32);
  const lines = node.logText().match(/127\.1\.1\.1 began more than 32 handshakes at once/g);
  assert.equal(lines?.length, 1);
});

test('peers that are known and send nothing are dropped after the time for a request', async (t) => {
  const node = await startNode(t, { requestMs: 300 });
  const options = { ALPNProtocols: ['h2'], rejectUnauthorized: false };
  const socket = connectTls({ ...node.address, ...options, ...keyAndCertificate(node.router) });
  socket.on('error', () => undefined);
  // A client that does not read does not notice the end either.
  socket.resume();
  await once(socket, 'close');
});

test('a stop of the node closes the listener', async (t) => {
  const node = await startNode(t);
  await call(clientOf(t, node, 'Identity'), 'Probe');
  await node.server.stop();
  const socket = connect(node.address);
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
  assert.equal(error.code, 'ECONNREFUSED');
});
