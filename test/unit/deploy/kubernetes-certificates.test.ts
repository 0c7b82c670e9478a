/** certificates.sh makes what the overlays without cert-manager need. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, type TestContext, test } from 'node:test';
import { connect, createServer, type PeerCertificate, type TLSSocket } from 'node:tls';
import { packagePath } from '../../../src/base/package-root.js';
import { KUBERNETES_DOCUMENT } from '../../support/cluster.js';

const SCRIPT = packagePath('deploy/kubernetes/certificates.sh');
const skip: string | false =
  spawnSync('openssl', ['version']).status === 0 ? false : 'needs openssl';

function makeCertificates(directory: string): string {
  const { status, stdout, stderr } = spawnSync(SCRIPT, [directory], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout;
}

const directory = mkdtempSync(join(tmpdir(), 'blockdelta-certificates-'));
let printed = '';
before(() => {
  if (skip === false) printed = makeCertificates(directory);
});
test.after(() => rmSync(directory, { recursive: true }));

const read = (name: string, file: string) => readFileSync(join(directory, name, file));

/** A connection as the router makes it to a node; resolves with the peers' certificates. */
async function connectAs(
  t: TestContext,
  client: { name: string; authority: string; expects: string },
): Promise<{ node: PeerCertificate; router: PeerCertificate }> {
  const server = createServer({
    cert: read('node', 'tls.crt'),
    key: read('node', 'tls.key'),
    ca: read('node', 'ca.crt'),
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.3',
  });
  server.on('tlsClientError', () => undefined);
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const accepted = once(server, 'secureConnection') as Promise<[TLSSocket]>;
  accepted.catch(() => undefined);
  const socket = connect({
    host: '127.0.0.1',
    port: address.port,
    servername: client.expects,
    cert: read(client.name, 'tls.crt'),
    key: read(client.name, 'tls.key'),
    ca: read(client.authority, 'ca.crt'),
    minVersion: 'TLSv1.3',
  });
  t.after(() => socket.destroy());
  const failed = new Promise<never>((_, reject) => {
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the connection was closed')));
  });
  failed.catch(() => undefined);
  // Only a socket that is read notices that the other side refuses it.
  socket.resume();
  await Promise.race([once(socket, 'secureConnect'), failed]);
  // With TLS 1.3 the client is connected before the server has looked at its certificate.
  const [peer] = await Promise.race([accepted, failed]);
  t.after(() => peer.destroy());
  return { node: socket.getPeerCertificate(), router: peer.getPeerCertificate() };
}

test('router and node accept each other by TLS 1.3, each with the name that the other demands', {
  skip,
}, async (t) => {
  const { node, router } = await connectAs(t, {
    name: 'router',
    authority: 'router',
    expects: 'blockdelta-node',
  });
  assert.equal(node.subjectaltname, 'DNS:blockdelta-node');
  assert.equal(router.subjectaltname, 'DNS:blockdelta-router');
});

test('the certificate for backup programs does not open a node', { skip }, async (t) => {
  await assert.rejects(
    connectAs(t, { name: 'snapshot-metadata', authority: 'router', expects: 'blockdelta-node' }),
  );
});

test('a node does not pass for a router', { skip }, async (t) => {
  await assert.rejects(
    connectAs(t, { name: 'node', authority: 'router', expects: 'blockdelta-node' }),
  );
});

test('a node is not accepted under another name', { skip }, async (t) => {
  await assert.rejects(
    connectAs(t, { name: 'router', authority: 'router', expects: 'blockdelta-router' }),
    { code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
  );
});

test('a second run renews the certificates and keeps the authorities', { skip }, () => {
  const authority = read('blockdelta-ca', 'tls.crt');
  const certificate = read('node', 'tls.crt');
  makeCertificates(directory);
  assert.deepEqual(read('blockdelta-ca', 'tls.crt'), authority);
  assert.deepEqual(read('node', 'ca.crt'), authority);
  assert.notDeepEqual(read('node', 'tls.crt'), certificate);
});

test('nobody else can read the keys', { skip }, () => {
  for (const name of ['blockdelta-ca', 'node', 'router', 'snapshot-metadata']) {
    assert.equal(statSync(join(directory, name, 'tls.key')).mode & 0o077, 0);
  }
});

test('it prints a command for each Secret of the document', { skip }, () => {
  const rows = [...KUBERNETES_DOCUMENT.matchAll(/^\| `(blockdelta-[\w-]+-tls)` \|/gm)];
  assert.equal(rows.length, 3);
  for (const [, secret = ''] of rows) {
    assert.ok(printed.includes(`create secret generic ${secret} --from-file=`), secret);
  }
  assert.doesNotMatch(printed, /--from-file='[^']*-ca'/);
});

test('without a directory it says how it is used', () => {
  const { status, stderr } = spawnSync(SCRIPT, [], { encoding: 'utf8' });
  assert.equal(status, 2);
  assert.match(stderr, /^usage: certificates\.sh DIRECTORY/);
});
