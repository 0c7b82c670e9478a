/** The runtime directory: whose it must be, what is believed in it, and what is removed. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { beforeEach, type TestContext, test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { RuntimeDirectory, type RuntimeEntry, runtimePath } from '../../../src/base/system/runtime-directory.js';
import { makeSocketDirectory, removeLeftSockets } from '../../../src/tools/nbd/socket-directory.js';
import { refused, throwsRefusal } from '../../support/refusal.js';
import { openRuntime } from '../../support/runtime.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const directory = temporaryDirectory();
let path: string;
let reports: string[];
let runtime: RuntimeDirectory;
let made = 0;
beforeEach(async () => {
  made += 1;
  path = join(directory, `${made}`);
  reports = [];
  runtime = await openRuntime(path, reports);
});

/** What a killed process leaves: `keep` fills its entry. */
function left(keep: (entry: RuntimeEntry) => void = () => undefined): string {
  const entry = runtime.make('kind');
  keep(entry);
  entry.release();
  return entry.path;
}

test('the runtime directory is that of the environment, of root, or of the user, and an absolute path', () => {
  const own = { BLOCKDELTA_RUNTIME_DIR: '/own', XDG_RUNTIME_DIR: '/run/user/7' };
  assert.equal(runtimePath(own, 0), '/own');
  assert.equal(runtimePath(own, 7), '/own');
  assert.equal(runtimePath({ XDG_RUNTIME_DIR: '/run/user/0' }, 0), '/run/blockdelta');
  assert.equal(runtimePath({ XDG_RUNTIME_DIR: '/run/user/7' }, 7), '/run/user/7/blockdelta');
  throwsRefusal(
    () => runtimePath({ XDG_RUNTIME_DIR: '' }, 7),
    'FAILED_PRECONDITION',
    /neither XDG_RUNTIME_DIR nor BLOCKDELTA_RUNTIME_DIR is set.*set BLOCKDELTA_RUNTIME_DIR/,
  );
  for (const relative of [{ BLOCKDELTA_RUNTIME_DIR: 'own' }, { XDG_RUNTIME_DIR: 'run' }]) {
    throwsRefusal(() => runtimePath(relative, 7), 'FAILED_PRECONDITION', /must be an absolute path/);
  }
});

test('the runtime directory is made for its user alone, and refused if others could change it or it is none', async () => {
  assert.equal(statSync(path).mode & 0o7777, 0o700);
  chmodSync(path, 0o755);
  (await openRuntime(path)).close();
  const at = (name: string): string => join(directory, name);
  symlinkSync(path, at('link'));
  writeFileSync(at('file'), '');
  for (const [place, found, mode] of [
    [path, /others can write to .* or set BLOCKDELTA_RUNTIME_DIR/, 0o775],
    [path, /others can write to .* or set BLOCKDELTA_RUNTIME_DIR/, 0o757],
    [at('link'), /link cannot be used: it is not a direc/],
    [at('file'), /it is not a directory/],
    [at('nowhere/below'), /cannot be used: ENOENT/],
  ] as const) {
    chmodSync(path, mode ?? 0o700);
    await refused(openRuntime(place), 'FAILED_PRECONDITION', found);
  }
});

test('a runtime directory below one that others can write to is refused, unless they can only add to that', async () => {
  const above = join(directory, 'above');
  mkdirSync(above);
  for (const [mode, refusal] of [
    [0o777, /others can write to .*above, so they can exchange .*above\/own.*BLOCKDELTA_RUNTIME_DIR/],
    [0o1777, null],
  ] as const) {
    chmodSync(above, mode);
    if (refusal === null) (await openRuntime(join(above, 'own'))).close();
    else await refused(openRuntime(join(above, 'own')), 'FAILED_PRECONDITION', refusal);
  }
});

test('an entry is left alone while its process runs, and swept when it was killed', async (t) => {
  const program = `
    import { openRuntime } from '${packagePath('.test-build/test/support/runtime.js')}';
    const entry = (await openRuntime('${path}')).make('kind');
    entry.write('file', 'text');
    console.log(entry.path);
    setInterval(() => undefined, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  const its = said.toString().trim();
  await runtime.sweep('kind', () => assert.fail('it runs'));
  child.kill('SIGKILL');
  await once(child, 'close');
  await runtime.sweep('other', () => assert.fail('of another kind'));
  const swept: (string | null)[] = [];
  await runtime.sweep('kind', (entry) => {
    swept.push(entry.path, entry.read('file', 4));
    entry.discard();
  });
  assert.deepEqual(swept, [its, 'text']);
  assert.deepEqual([readdirSync(path), reports], [[], []]);
});

test('two sweeps never treat one entry at the same time', async () => {
  left();
  const treated: string[] = [];
  const other = await openRuntime(path);
  await runtime.sweep('kind', async (entry) => {
    treated.push(entry.path);
    await other.sweep('kind', () => assert.fail('the first sweep holds it'));
    entry.discard();
    await other.sweep('kind', () => assert.fail('it is gone'));
  });
  assert.equal(treated.length, 1);
});

test('an entry that a sweep took between its two first steps is made again', async () => {
  let taken = 0;
  const unlucky = await RuntimeDirectory.open(path, {
    tryLock: () => {
      taken += 1;
      return taken > 2;
    },
    report: () => undefined,
  });
  const entry = unlucky.make('kind');
  assert.deepEqual([taken, existsSync(entry.path)], [3, true]);
});

const foreign = (path: string): void => chownSync(path, 65_534, 65_534);
const ODD_ENTRIES: Record<string, (name: string) => void> = {
  file: (name) => writeFileSync(name, 'text'),
  FIFO: (name) => execFileSync('mkfifo', [name]),
  link: (name) => symlinkSync(directory, name),
  'directory of another user': (name) => {
    mkdirSync(name);
    foreign(name);
  },
};

for (const [what, make] of Object.entries(ODD_ENTRIES)) {
  const skip = what.startsWith('directory') && skipUnlessRoot;
  test(`a ${what} under the name of an entry is reported, stays, and stops nothing`, {
    skip,
  }, async () => {
    const name = join(path, 'kind-0000000000000000');
    make(name);
    const next = left();
    const treated: string[] = [];
    await runtime.sweep('kind', (entry) => {
      treated.push(entry.path);
      entry.discard();
    });
    assert.deepEqual(treated, [next]);
    const stays = /kind-0000000000000000 is no longer used by a command, but was not removed: .*remove it/;
    assert.match(reports.join('\n'), stays);
  });
}

const ODD_FILES: readonly [found: RegExp, make: (name: string) => void][] = [
  [/file is not used: it is not a regular/, (name) => symlinkSync('/etc/hostname', name)],
  [/it is not a regular file/, (name) => execFileSync('mkfifo', [name])],
  [/it is not a regular file/, (name) => mkdirSync(name)],
  [/it has 11 bytes/, (name) => writeFileSync(name, '0123456789a')],
  [
    /it belongs to user 65534/,
    (name) => {
      writeFileSync(name, 'text');
      foreign(name);
    },
  ],
];

test('only a regular file of ours and of bounded size is read', {
  skip: skipUnlessRoot,
}, () => {
  for (const [found, make] of ODD_FILES) {
    const entry = runtime.make('kind');
    make(entry.pathOf('file'));
    throwsRefusal(() => entry.read('file', 10), 'FAILED_PRECONDITION', found);
    entry.release();
  }
  const entry = runtime.make('kind');
  entry.write('file', '0123456789');
  assert.deepEqual([entry.read('file', 10), entry.read('nothing', 10)], ['0123456789', null]);
});

test('a file is written under its name at once, whatever a killed command has left beside it', () => {
  const outside = join(directory, 'outside');
  writeFileSync(outside, 'stays');
  const entry = runtime.make('kind');
  symlinkSync(outside, entry.pathOf('file.next'));
  entry.write('file', 'text');
  entry.write('file', 'other');
  assert.equal(statSync(entry.pathOf('file')).mode & 0o7777, 0o600);
  assert.deepEqual(readdirSync(entry.path), ['file']);
  assert.equal(entry.read('file', 5), 'other');
  assert.equal(readFileSync(outside, 'utf8'), 'stays');
});

test('a directory in an entry is never emptied', async () => {
  const outside = join(directory, 'foreign');
  mkdirSync(outside);
  writeFileSync(join(outside, 'file'), 'stays');
  const entry = left((held) => {
    held.write('record', 'text');
    held.makeDirectory('empty');
    symlinkSync(outside, held.pathOf('link'));
    writeFileSync(join(held.makeDirectory('full'), 'file'), 'stays');
  });
  await runtime.sweep('kind', (held) => held.discard());
  assert.match(reports.join(), /full cannot be removed \(ENOTEMPTY\)/);
  assert.ok(existsSync(join(entry, 'record')), 'what is needed to undo the rest');
  rmSync(join(entry, 'full'), { recursive: true });
  await runtime.sweep('kind', (held) => held.discard());
  assert.deepEqual([existsSync(entry), readdirSync(outside)], [false, ['file']]);
});

test('sockets of killed commands are removed, and nothing that takes their place', async (t) => {
  const foreign = join(directory, 'victim');
  mkdirSync(foreign);
  writeFileSync(join(foreign, 'file'), 'stays');
  const killed = makeSocketDirectory(runtime);
  await listen(t, killed.pathOf('socket'));
  writeFileSync(killed.pathOf('socket.pid'), '1\n');
  killed.release();
  // Exchanged for a link while it is swept: after it was opened.
  const swapped = await RuntimeDirectory.open(path, {
    tryLock: () => {
      renameSync(killed.path, join(path, 'aside'));
      symlinkSync(foreign, killed.path);
      return true;
    },
    report: (message) => reports.push(message),
  });
  await removeLeftSockets(swapped);
  assert.deepEqual(readdirSync(foreign), ['file']);
  rmSync(killed.path);
  renameSync(join(path, 'aside'), killed.path);
  await removeLeftSockets(runtime);
  assert.deepEqual([readdirSync(path), reports], [[], []]);
});

async function listen(t: TestContext, socket: string): Promise<void> {
  const server = createServer().listen(socket);
  await once(server, 'listening');
  t.after(() => server.close());
}
