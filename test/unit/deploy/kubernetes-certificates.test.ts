/** certificates.sh makes what an installation without cert-manager needs. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { nodeUri } from '../../../src/base/csi/routed-calls.js';
import { misnamedNode } from '../../../src/base/listening/tls-files.js';
import { packagePath } from '../../../src/base/package-root.js';
import { KUBERNETES_DOCUMENT } from '../../support/cluster.js';
import { temporaryDirectory } from '../../support/temporary.js';

const SCRIPT = packagePath('deploy/kubernetes/certificates.sh');
const skip: string | false = spawnSync('openssl', ['version']).status === 0 ? false : 'needs openssl';
const directory = temporaryDirectory();
const NODE = 'nodes/node-a';
let printed = '';

function makeCertificates(...nodes: string[]): void {
  const { status, stdout, stderr } = spawnSync(SCRIPT, [directory, ...nodes], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  printed = stdout;
}
before(() => {
  if (skip === false) makeCertificates('node-a', 'node-b.example');
});

const at = (name: string, file: string): string => join(directory, name, file);
const read = (name: string, file: string) => readFileSync(at(name, file));

/** What OpenSSL says of a certificate that its owner shows to another one. */
function verified(shown: string, by: string, as: 'sslclient' | 'sslserver', name: string): string {
  const names = ['-purpose', as, '-verify_hostname', name];
  const args = ['verify', '-CAfile', at(by, 'ca.crt'), ...names, at(shown, 'tls.crt')];
  return spawnSync('openssl', args, { encoding: 'utf8' }).stderr;
}

test('router and node accept each other, under no other name and in no other role', {
  skip,
}, () => {
  const [node, router] = ['blockdelta-node', 'blockdelta-router'];
  assert.equal(verified(NODE, 'router', 'sslserver', node), '');
  assert.equal(verified('router', NODE, 'sslclient', router), '');
  assert.match(verified(NODE, 'router', 'sslserver', router), /hostname mismatch/);
  assert.match(verified(NODE, NODE, 'sslclient', node), /unsuitable certificate purpose/);
});

test('H32: the certificate of each node names it alone, and the commands copy it there alone', {
  skip,
}, () => {
  for (const node of ['node-a', 'node-b.example']) {
    const certificate = new X509Certificate(read(`nodes/${node}`, 'tls.crt'));
    assert.equal(misnamedNode(certificate, nodeUri('blockdelta.csi', node)), null);
    const command = `tar -C '${directory}/nodes/${node}' -c . | ssh 'root@${node}' `;
    assert.equal(printed.split(command).length, 2);
  }
  const router = new X509Certificate(read('router', 'tls.crt'));
  assert.equal(router.subjectAltName, 'DNS:blockdelta-router');
  for (const name of ['../x', 'a,URI:b', '.', '']) {
    const { status, stderr } = spawnSync(SCRIPT, [directory, name], { encoding: 'utf8' });
    assert.equal(status, 2, name);
    assert.match(stderr, /is not the name of a node/);
  }
});

test('the certificate for backup programs does not open a node', { skip }, () => {
  const shown = verified('snapshot-metadata', NODE, 'sslclient', 'blockdelta-router');
  assert.match(shown, /unable to get local issuer certificate/);
});

test('a second run of the script renews the certificates and keeps the authorities', { skip }, () => {
  const [authority, certificate] = [read('blockdelta-ca', 'tls.crt'), read(NODE, 'tls.crt')];
  makeCertificates();
  assert.deepEqual(read('blockdelta-ca', 'tls.crt'), authority);
  assert.deepEqual(read(NODE, 'ca.crt'), authority);
  assert.notDeepEqual(read(NODE, 'tls.crt'), certificate);
});

test('a renewal in another directory makes no new authorities', { skip }, () => {
  const elsewhere = temporaryDirectory();
  const { status, stderr } = spawnSync(SCRIPT, ['--renew', elsewhere], { encoding: 'utf8' });
  assert.equal(status, 1);
  assert.match(stderr, /no blockdelta-ca\/tls\.key to renew certificates with: name the directory of the first run/);
  assert.equal(spawnSync(SCRIPT, ['--renew', directory]).status, 0);
});

test('nobody else can read the keys', { skip }, () => {
  for (const name of ['blockdelta-ca', NODE, 'router', 'snapshot-metadata']) {
    assert.equal(statSync(at(name, 'tls.key')).mode & 0o077, 0);
  }
});

test('the script prints a command for each Secret of the document', { skip }, () => {
  const rows = [...KUBERNETES_DOCUMENT.matchAll(/^\| `(blockdelta-[\w-]+-tls)` \|/gm)];
  assert.equal(rows.length, 2);
  for (const [, secret = ''] of rows) {
    assert.ok(printed.includes(`create secret generic ${secret} --from-file=`), secret);
  }
  assert.doesNotMatch(printed, /--from-file='[^']*-ca'/);
});

test('the script prints the command that installs the chart with lists, with the authority that backup programs trust', {
  skip,
}, () => {
  const [, authority = ''] =
    /^helm -n blockdelta install .* --set snapshotMetadata\.caCert=(\S+)$/m.exec(printed) ?? [];
  assert.deepEqual(Buffer.from(authority, 'base64'), read('snapshot-metadata', 'ca.crt'));
  assert.doesNotMatch(printed, /driverName=/);
});

test('another namespace and another driver are in the certificates and the commands', {
  skip,
}, () => {
  const elsewhere = temporaryDirectory();
  const env = { ...process.env, NAMESPACE: 'storage', DRIVER: 'disks.example' };
  const { stdout } = spawnSync(SCRIPT, [elsewhere, 'node-a'], { encoding: 'utf8', env });
  assert.match(stdout, /kubectl -n storage create secret/);
  assert.match(stdout, /helm -n storage install .* --set driverName=disks\.example /);
  const namesOf = (name: string) => new X509Certificate(readFileSync(join(elsewhere, name, 'tls.crt'))).subjectAltName;
  assert.match(namesOf('snapshot-metadata') ?? '', /DNS:blockdelta-snapshot-metadata\.storage\.svc/);
  assert.ok(namesOf(NODE)?.includes(nodeUri('disks.example', 'node-a')));
});

test('the script says how it is used where no directory is given', () => {
  const { status, stderr } = spawnSync(SCRIPT, [], { encoding: 'utf8' });
  assert.equal(status, 2);
  assert.match(stderr, /^usage: certificates\.sh \[--renew\] DIRECTORY \[NODE\.\.\.\]/);
});
