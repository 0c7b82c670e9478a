/**
 * The package that `npm pack` makes from a clean copy of the sources: what is in it, that it installs
 * without a compiler and without a registry, and that the plugin in it does its job.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { copyCheckout } from '../support/checkout-copy.js';
import { checkoutText } from '../support/checkout-text.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const MIB = 1024 ** 2;

/** What installing may use: no compiler, no make, no Python. */
const PROGRAMS = ['node', 'npm', 'sh', 'env'];

const workspace = new Workspace('package');
const checkout = workspace.path('checkout');
const home = workspace.path('home');
const installed = join(home, 'node_modules/blockdelta');
const bare = workspace.path('bin');
let tarball = '';

after(() => workspace.dispose());

before(() => {
  copyCheckout(checkout);
  mkdirSync(home);
  mkdirSync(bare);
  for (const name of PROGRAMS) symlinkSync(programPath(name), join(bare, name));
  const options = ['--silent', '--pack-destination', workspace.directory];
  run('npm', ['pack', ...options], { cwd: checkout, env: { BLOCKDELTA_PREBUILD: 'host' } });
  tarball = workspace.path('blockdelta-0.1.0.tgz');
  npm('install', tarball);
});

test('the package has what runs it, compiled, and nothing that only a checkout needs', () => {
  const files = filesBelow(installed);
  for (const path of [
    'docs/README.md',
    'man/blockdelta-serve.1',
    'README.md',
    'CHANGELOG.md',
    'LICENSE',
    'proto/csi.proto',
  ]) {
    assert.ok(files.includes(path), path);
  }
  const own = files.filter((path) => !path.startsWith('node_modules/'));
  const useless = /\.map$|^(src|test|\.native-build)\//;
  assert.deepEqual(
    own.filter((path) => useless.test(path)),
    [],
  );
  assert.doesNotMatch(readFileSync(join(installed, 'dist/main.js'), 'utf8'), /sourceMappingURL/);
  const tools = ['typescript', 'node-gyp', 'prebuild-install', '@biomejs', '@types/better-sqlite3'];
  for (const name of tools) assert.ok(!existsSync(join(installed, 'node_modules', name)), name);
  assertNothingCompiled();
});

test('H23: every dependency has the version of the lock file, and comes with the package', () => {
  const lock = JSON.parse(checkoutText('package-lock.json')) as {
    packages: Record<string, { version?: string; dev?: boolean; optional?: boolean }>;
  };
  const wanted = Object.entries(lock.packages).filter(
    ([path, { dev, optional }]) => path !== '' && dev !== true && optional !== true,
  );
  // The downloader of better-sqlite3, which the packed copy does not ask for.
  const needed = wanted.filter(([path]) => /^node_modules\//.test(path));
  assert.ok(needed.length > 30);
  for (const [path, { version }] of needed) {
    if (path === 'node_modules/prebuild-install') continue;
    const manifest = readFileSync(join(installed, path, 'package.json'), 'utf8');
    assert.equal((JSON.parse(manifest) as { version: string }).version, version, path);
  }
  assert.ok(!existsSync(join(installed, 'node_modules/@napi-rs')), 'optional, for one processor');
  assert.deepEqual(
    readdirSync(join(home, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['blockdelta'],
  );
});

function assertNothingCompiled(): void {
  for (const directory of ['', 'node_modules/better-sqlite3', 'node_modules/ioctl']) {
    assert.ok(!existsSync(join(installed, directory, 'build')), directory);
  }
  for (const program of ['blockdelta-confine', 'blockdelta-guardian']) {
    accessSync(join(prebuilds(), program), constants.X_OK);
  }
}

test('the binaries need no newer C library than docs/install.md says', (t) => {
  const [, documented = ''] = /glibc (\d+\.\d+) or newer/.exec(checkoutText('docs/install.md')) ?? [];
  const files = filesBelow(installed).filter((path) => /prebuilds\/linux|\/lib\/binding\//.test(path));
  const binaries = files.filter((path) => /\.node$|\/blockdelta-\w+$/.test(path));
  assert.equal(binaries.length, 5);
  const needed = binaries.flatMap((path) => {
    const symbols = execFileSync('objdump', ['-T', join(installed, path)], { encoding: 'utf8' });
    return [...symbols.matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
  });
  const newest = Math.max(...needed);
  t.diagnostic(`glibc 2.${newest}`);
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime: string } };
  // The release that packages are made on.
  if (header.glibcVersionRuntime !== '2.36') return t.skip('built on another system than Debian 12');
  assert.equal(`2.${newest}`, documented);
});

test('the package installs from a lock file', () => {
  rmSync(join(home, 'node_modules'), { recursive: true });
  npm('ci');
  assertNothingCompiled();
});

test('packing leaves the checkout as it was', () => {
  assert.ok(!existsSync(join(checkout, 'prebuilds')));
  for (const name of ['better-sqlite3', 'ioctl']) {
    const path = join('node_modules', name, 'package.json');
    assert.equal(readFileSync(join(checkout, path), 'utf8'), checkoutText(path));
    assert.ok(existsSync(join(checkout, 'node_modules', name, 'build/Release')));
    assert.ok(existsSync(join(checkout, 'node_modules', name, 'binding.gyp')));
    assert.ok(!existsSync(join(checkout, 'node_modules', name, 'lib/binding')));
  }
});

test('the installed plugin serves, and a backup from its lists is the same in every byte', {
  skip: skipUnlessRoot,
}, () => {
  const quickstart = join(checkout, 'scripts/quickstart.mjs');
  const main = join(installed, 'dist/main.js');
  const output = run(process.execPath, [quickstart, '--small', '--program', main]);
  assert.match(output, /VERDICT: the rebuilt image is identical to snapshot B, and the restored one to snapshot C/);
});

test('the plugin does not start without its addon, and says what to do', () => {
  const addon = join(prebuilds(), 'blockdelta.node');
  renameSync(addon, `${addon}.away`);
  try {
    const env = {
      ...process.env,
      CSI_ENDPOINT: `unix://${workspace.path('a.sock')}`,
      BLOCKDELTA_STATE_DIR: workspace.path('state'),
    };
    const serve = [join(installed, 'dist/main.js'), 'serve'];
    const { status, stderr } = spawnSync(process.execPath, serve, { env, encoding: 'utf8' });
    assert.equal(status, 1);
    assert.match(stderr, /^blockdelta: .*blockdelta\.node cannot be loaded .*npm rebuild blockdelta$/m);
    assert.doesNotMatch(stderr, /^\s+at /m);
  } finally {
    renameSync(`${addon}.away`, addon);
  }
});

test('a binary that does not fit is compiled, and an installation without a compiler fails and says what to do', () => {
  const binary = readdirSync(join(installed, 'node_modules/ioctl/lib/binding'))[0] ?? '';
  const path = join(installed, 'node_modules/ioctl/lib/binding', binary, 'ioctl.node');
  rmSync(path);
  writeFileSync(path, 'for another machine');
  const refused = spawnSync('npm', ['rebuild', 'blockdelta'], { cwd: home, env: bareEnv() });
  assert.notEqual(refused.status, 0);
  const said = `${refused.stdout}${refused.stderr}`;
  assert.match(said, /ioctl has no binary for Node.js v\d+.* cannot be compiled/);
  assert.match(said, /install g\+\+, make, python3/);

  run('npm', ['rebuild', 'blockdelta'], { cwd: home });
  assert.ok(existsSync(join(installed, 'node_modules/ioctl/build/Release/ioctl.node')));
  const use = ['-e', "process.exit(typeof require('ioctl') === 'function' ? 0 : 1)"];
  assert.equal(spawnSync(process.execPath, use, { cwd: installed }).status, 0);
});

function npm(...command: string[]): void {
  const options = ['--offline', '--no-audit', '--no-fund', '--loglevel=error'];
  run('npm', [...command, ...options], { cwd: home, env: bareEnv() });
}

function bareEnv(): Record<string, string> {
  return { PATH: bare, HOME: home, npm_config_cache: workspace.path('empty-cache') };
}

/** What it prints. */
function run(
  program: string,
  args: string[],
  { cwd, env }: { cwd?: string; env?: Record<string, string> } = {},
): string {
  return execFileSync(program, args, {
    cwd,
    env: { ...process.env, TMPDIR: workspace.directory, ...env },
    encoding: 'utf8',
    stdio: 'pipe',
    maxBuffer: 64 * MIB,
  });
}

const prebuilds = (): string => join(installed, `prebuilds/linux-${process.arch}`);

function programPath(name: string): string {
  if (name === 'node') return process.execPath;
  const beside = join(dirname(process.execPath), name);
  if (existsSync(beside)) return beside;
  return execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true }).map(String);
}
