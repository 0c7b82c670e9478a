/** Which node a certificate names, as Node.js prints real ones. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { nodeUri } from '../../../src/base/csi/routed-calls.js';
import { misnamedNode, TlsFiles, urisIn } from '../../../src/base/listening/tls-files.js';
import { createLogger } from '../../../src/base/logger.js';
import { Authority } from '../../support/certificates.js';
import { eventually } from '../../support/eventually.js';
import { temporaryDirectory } from '../../support/temporary.js';

const directory = temporaryDirectory();
const authority = new Authority(directory);
const A = nodeUri('blockdelta.csi', 'node-a');
const B = nodeUri('blockdelta.csi', 'node-b');

/** A certificate with these lines in its section of subject alternative names. */
function certificateWith(...names: string[]): X509Certificate {
  const file = join(directory, 'names.cnf');
  writeFileSync(file, `[san]\nsubjectAltName=@names\n[names]\n${names.join('\n')}\n`);
  return new X509Certificate(readFileSync(authority.issueFrom('names', file).certificate));
}

test('H32: a node has one URI, whatever characters are in its id', () => {
  assert.equal(A, 'blockdelta://blockdelta.csi/node/node-a');
  const uri = nodeUri('x.csi', 'a/b%2F,:"!\'()*~_.-');
  assert.equal(uri, 'blockdelta://x.csi/node/a%2Fb%252F%2C%3A%22%21%27%28%29%2A~_.-');
  assert.equal(decodeURIComponent(uri.split('/').at(-1) ?? ''), 'a/b%2F,:"!\'()*~_.-');
});

test('H32: a certificate is that of a node if it names this node and no other', () => {
  assert.equal(misnamedNode(certificateWith('DNS.1=blockdelta-node', `URI.1=${A}`), A), null);
  assert.equal(misnamedNode(certificateWith(`URI.1=spiffe://x/y`, `URI.2=${A}`), A), null);
  const refused: [string[], RegExp][] = [
    [['DNS.1=blockdelta-node'], /names no node instead of .*node-a alone: issue one/],
    [[`URI.1=${B}`], /names blockdelta:\/\/blockdelta\.csi\/node\/node-b instead/],
    [[`URI.1=${A}`, `URI.2=${B}`], /node-a and blockdelta:.*node-b instead/],
    [[`URI.1=${A}`, 'URI.2=BLOCKDELTA://blockdelta.csi/node/node-b'], /and BLOCKDELTA:/],
    [[`URI.1=${A}x`], /node-ax instead/],
    [[`URI.1=${nodeUri('other.csi', 'node-a')}`], /other\.csi/],
    [[`DNS.1=x\\, URI:${A}`], /names no node/],
    [[`DNS.1=${A}`, `email.1=${A}`, `URI.1=https://x/?${A}`], /names no node/],
    [[`otherName.1=1.2.3.4;UTF8:x\\, URI:${A}`], /names no node/],
  ];
  for (const [names, message] of refused) {
    assert.match(misnamedNode(certificateWith(...names), A) ?? 'accepted', message, names.join());
  }
  assert.match(misnamedNode({ subjectAltName: undefined }, A) ?? '', /names no node/);
});

test('H32: URIs are read as Node.js escapes them, and a text of another form has none', () => {
  assert.deepEqual(urisIn(`DNS:a, URI:${A}, IP Address:::1, URI:"x, \\"URI:y"`), [A, 'x, "URI:y']);
  const real = certificateWith('URI.1=x:\\"a\\, URI:b\\"', `URI.2=${A}`, 'dirName.1=d\n[d]\nCN=a\\, b');
  assert.deepEqual(urisIn(real.subjectAltName ?? ''), ['x:"a, URI:b"', A]);
  for (const text of [`URI:"a"b, URI:${A}`, `URI:${A},URI:x`, `URI:"${A}`, `URI:${A}, , `, `"URI:${A}", DNS:"`]) {
    assert.ok(!urisIn(text).includes(A), text);
  }
});

test('H32: a node takes neither at the start nor later a certificate of another node', async (t) => {
  const lines: string[] = [];
  const log = createLogger('info', { write: (line) => lines.push(line) });
  const { certificate, key, ca } = authority.issueNode('own', 'node-a');
  const settings = { certificateFile: certificate, keyFile: key, caFile: ca, peerName: 'x' };
  await assert.rejects(TlsFiles.open(settings, log, { nodeUri: B }), {
    name: 'StartError',
    message: /^cannot use the TLS files .*: the certificate names .*node-a instead of .*node-b alone/,
  });
  const files = await TlsFiles.open(settings, log, { nodeUri: A, pollMs: 20 });
  t.after(() => files.close());
  const { current } = files;
  authority.issueNode('own', 'node-b');
  await eventually('it is logged', () => lines.join('').includes('the old ones stay in force'));
  assert.equal(files.current, current);
  authority.issueNode('own', 'node-a');
  await eventually('it is taken', () => files.current !== current);
});
