/**
 * What commands find in a directory of backups that others can write to, or have written: root does not work there unless
 * it is told to trust them, and one odd file is named and hinders nothing else.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, type TestContext, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { baseNameOf } from '../../src/tools/backup/chains.js';
import { snapshotStem } from '../../src/tools/backup/file-names.js';
import { formatManifest } from '../../src/tools/backup/manifest.js';
import { type Backup, imagePathOf } from '../../src/tools/backup/stored-backup.js';

import { BackupHistory } from '../support/backup-history.js';
import { type Ended, runCommand } from '../support/command.js';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { Workspace } from '../support/workspace.js';

const NOBODY = 65_534;
const ANOTHER_USER = 12_345;
/** A chain of so many takes minutes where each link is looked for among all. */
const MANY = isNightly ? 3000 : 1000;
/** The backups as they were made, of which each test has a copy. */
const UNTOUCHED = 'untouched';
const SECRET = 'what only root may read';

let workspace: Workspace;
let history: BackupHistory;

before(async () => {
  workspace = new Workspace('repository');
  history = await BackupHistory.begin(workspace.directory, seededRandom('repository'));
  for (let count = 0; count < 2; count += 1) await history.add();
  renameSync(repository(), workspace.path(UNTOUCHED));
});
beforeEach(() => {
  chmodSync(workspace.directory, 0o700);
  for (const name of readdirSync(workspace.directory))
    if (name !== UNTOUCHED) rmSync(workspace.path(name), { recursive: true });
  execFileSync('cp', ['-a', workspace.path(UNTOUCHED), repository()]);
  writeFileSync(workspace.path('secret'), SECRET, { mode: 0o600 });
});
after(() => workspace.dispose());

const repository = (...names: string[]): string => workspace.path('backups', ...names);
const volume = (...names: string[]): string => repository('vol-1', ...names);
const restored = (): string => workspace.path('restored');

function nth(index: number): Backup {
  const found = history.points[index]?.backup;
  assert.ok(found !== undefined);
  return found;
}
const imageName = (index: number): string => nth(index).manifest.image.file;
const manifestPath = (index: number): string => volume(nth(index).name);

const run = (t: TestContext, ...args: string[]): Promise<Ended> =>
  runCommand(t, args, { BLOCKDELTA_RUNTIME_DIR: workspace.path('runtime') });

/** Every command that needs no driver. */
const COMMANDS: Readonly<Record<string, () => string[]>> = {
  backups: () => ['backups', repository()],
  verify: () => ['verify', repository()],
  prune: () => ['prune', repository(), '--keep-last', '1'],
  compact: () => ['compact', repository()],
  restore: () => ['restore', repository(), '--to', restored()],
};

async function assertRestores(t: TestContext, index: number): Promise<void> {
  const { id } = nth(index).manifest.snapshot;
  const to = ['--to', restored(), '--force'];
  const ended = await run(t, 'restore', repository(), '--snapshot', id, ...to);
  assert.equal(ended.code, 0, ended.stderr);
  assert.ok(readFileSync(restored()).equals(history.points[index]?.bytes ?? Buffer.alloc(0)));
}

test('H27: no command works where others can exchange what it reads, unless it is told to trust them', async (t) => {
  const shares: Readonly<Record<string, () => void>> = {
    'others can write to .*/backups,': () => chmodSync(repository(), 0o777),
    'others can write to .*/vol-1,': () => chmodSync(volume(), 0o770),
    'user 12345 owns': () => chownSync(repository(), ANOTHER_USER, ANOTHER_USER),
    'user 12345 owns .*vol-1, so': () => chownSync(volume(), ANOTHER_USER, ANOTHER_USER),
  };
  for (const [found, share] of Object.entries(shares)) {
    share();
    const isFirst = found === Object.keys(shares)[0];
    for (const [name, args] of Object.entries(COMMANDS)) {
      if (!isNightly && !isFirst && name !== 'prune') continue;
      const before = readdirSync(volume());
      const { code, stderr } = await run(t, ...args());
      assert.equal(code, 5, `${name}: ${stderr}`);
      assert.match(stderr, new RegExp(`${found}.*--allow-shared`), name);
      assert.deepEqual(readdirSync(volume()), before, name);
    }
    const { code, stderr } = await run(t, 'verify', repository(), '--allow-shared');
    assert.equal(code, 0, stderr);
    for (const path of [repository(), volume()]) {
      chownSync(path, 0, 0);
      chmodSync(path, 0o700);
    }
  }
});

test('H27: a directory above the repository that others can write to is refused, one where they can only add is not', async (t) => {
  const above = workspace.path('above');
  mkdirSync(above);
  renameSync(repository(), join(above, 'backups'));
  const verify = () => run(t, 'verify', join(above, 'backups'));
  chmodSync(above, 0o777);
  const refused = await verify();
  assert.equal(refused.code, 5, refused.stderr);
  assert.match(refused.stderr, /others can write to .*\/above, so they can exchange what is in/);
  chmodSync(above, 0o1777);
  const sticky = await verify();
  assert.equal(sticky.code, 0, sticky.stderr);
});

test('H28: links and pipes in place of the files of a backup are named, not followed, and wait for nobody', async (t) => {
  const odd: Readonly<Record<string, (path: string) => void>> = {
    link: (path) => symlinkSync(workspace.path('secret'), path),
    pipe: (path) => execFileSync('mkfifo', [path]),
    directory: (path) => mkdirSync(path),
  };
  for (const [kind, make] of Object.entries(odd)) {
    const paths = [manifestPath(1), volume(imageName(1))];
    for (const path of isNightly || kind === 'link' ? paths : paths.slice(1)) {
      renameSync(path, workspace.path('kept'));
      make(path);
      const { code, stdout, stderr } = await run(t, 'verify', repository());
      assert.equal(code, 5, `${kind}: ${stderr}`);
      assert.match(stdout, new RegExp(`${path.split('/').at(-1)}.*no regular file`), kind);
      assert.ok(!stdout.includes(SECRET));
      const listed = await run(t, 'backups', repository());
      assert.equal(listed.code, 5, listed.stderr);
      await assertRestores(t, 0);
      rmSync(path, { recursive: true });
      renameSync(workspace.path('kept'), path);
    }
  }
});

test('H28: a lock that is a link, a pipe or a directory changes nothing elsewhere', async (t) => {
  const odd = [
    (path: string) => symlinkSync(workspace.path('secret'), path),
    (path: string) => execFileSync('mkfifo', [path]),
    (path: string) => mkdirSync(path),
  ];
  chmodSync(workspace.path('secret'), 0o644);
  for (const make of odd) {
    rmSync(volume('.lock'), { recursive: true, force: true });
    make(volume('.lock'));
    const { code } = await run(t, ...(COMMANDS['prune']?.() ?? []));
    assert.ok(code === 0 || code === 1, String(code));
    assert.equal(readFileSync(workspace.path('secret'), 'utf8'), SECRET);
    assert.equal(statSync(workspace.path('secret')).mode & 0o777, 0o644);
  }
});

test('H28: what lies at the names of unfinished files is removed or named, and written through never', async (t) => {
  const names = [`${imageName(1)}.partial`, `${nth(1).name}.next.partial`];
  for (const name of names) symlinkSync(workspace.path('secret'), volume(name));
  mkdirSync(volume('x.partial'));
  writeFileSync(volume('garbage.json.next'), '{');
  execFileSync('mkfifo', [volume('pipe.json.removed')]);
  const { code, stderr } = await run(t, ...(COMMANDS['prune']?.() ?? []));
  assert.equal(code, 5, stderr);
  for (const name of ['x.partial', 'garbage.json.next', 'pipe.json.removed']) {
    assert.match(stderr, new RegExp(`${name} stays: `));
  }
  assert.equal(readFileSync(workspace.path('secret'), 'utf8'), SECRET);
  for (const name of names) assert.ok(!existsSync(volume(name)), name);
  // The rest was done all the same.
  assert.deepEqual(
    readdirSync(volume()).filter((name) => name.endsWith('.json')),
    [nth(1).name.replace('.json', '@1.json')],
  );
  await assertRestores(t, 1);
});

test('H28: a restore to a file writes through no link beside it, and leaves nothing unfinished', async (t) => {
  mkdirSync(workspace.path('shared'));
  chmodSync(workspace.path('shared'), 0o1777);
  const target = workspace.path('shared', 'volume');
  symlinkSync(workspace.path('secret'), `${target}.partial`);
  writeFileSync(workspace.path('shared', '.restore-0123456789abcdef.partial'), 'left by a kill');
  const foreign = workspace.path('shared', '.restore-fedcba9876543210.partial');
  writeFileSync(foreign, 'of somebody else');
  chownSync(foreign, NOBODY, NOBODY);
  const { code, stderr } = await run(t, 'restore', repository(), '--to', target);
  assert.equal(code, 0, stderr);
  assert.equal(readFileSync(workspace.path('secret'), 'utf8'), SECRET);
  assert.ok(lstatSync(target).isFile());
  assert.equal(lstatSync(target).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(workspace.path('shared')).sort(), [
    '.restore-fedcba9876543210.partial',
    'volume',
    'volume.partial',
  ]);
});

test('a restore makes no file beside the devices of /dev', async (t) => {
  const { code, stderr } = await run(t, 'restore', repository(), '--to', '/dev/no-such-device');
  assert.equal(code, 5, stderr);
  assert.match(stderr, /there is no device \/dev\/no-such-device/);
  assert.ok(!existsSync('/dev/no-such-device'));
});

test('H29: files without end are refused before they are read', async (t) => {
  truncateSync(manifestPath(1), 500 << 20);
  const listed = await run(t, 'backups', repository());
  assert.equal(listed.code, 5);
  assert.match(listed.stderr, /has 524288000 bytes, and at most \d+ are read/);
  writeFileSync(manifestPath(1), formatManifest(nth(1).manifest));
  truncateSync(volume(imageName(1)), 2 ** 42);
  const verified = await run(t, 'verify', repository());
  assert.equal(verified.code, 5);
  assert.match(verified.stdout, /has 4398046511104 bytes, and the manifest says \d+/);
});

test('H29: thousands of manifests that are based on each other are refused, each once', async (t) => {
  const { manifest } = nth(1);
  const id = (index: number): string => `many-${index}`;
  for (let index = 0; index < MANY; index += 1) {
    const base = { ...baseNameOf(nth(1)), snapshotId: id(index + 1) };
    const snapshot = { ...manifest.snapshot, id: id(index) };
    const name = nth(1).name.replace('snap-2.json', id(index));
    const image = { ...manifest.image, file: `${name}.qcow2` };
    writeFileSync(volume(`${name}.json`), formatManifest({ ...manifest, snapshot, base, image }));
  }
  const { code, stdout } = await run(t, 'verify', repository(), '--json');
  assert.equal(code, 5);
  const { problems } = JSON.parse(stdout) as { problems: { path: string; found: string }[] };
  assert.match(problems[0]?.found ?? '', /is based on more than \d+ others/);
  assert.ok(problems.length <= 2 * MANY, String(problems.length));
  await assertRestores(t, 0);
});

test('an image with internal snapshots is refused as that of another program', async (t) => {
  execFileSync('qemu-img', ['snapshot', '-c', 'inside', volume(imageName(0))]);
  const { code, stdout } = await run(t, 'verify', repository());
  assert.equal(code, 5);
  assert.match(stdout, new RegExp(`${imageName(0)}: `));
});

test('a copied or renamed manifest is no backup of its own, and prunes no image', async (t) => {
  copyFileSync(manifestPath(0), volume('copy.json'));
  const pruned = await run(t, ...(COMMANDS['prune']?.() ?? []));
  assert.equal(pruned.code, 5, pruned.stderr);
  assert.match(pruned.stderr, /copy\.json names the image .*; expected copy\.qcow2/);
  for (const index of [0, 1]) await assertRestores(t, index);
  rmSync(volume('copy.json'));
  copyFileSync(imagePathOf(nth(0)), volume('twice.qcow2'));
  const image = { ...nth(0).manifest.image, file: 'twice.qcow2' };
  writeFileSync(volume('twice.json'), formatManifest({ ...nth(0).manifest, image }));
  const refused = await run(t, ...(COMMANDS['prune']?.() ?? []));
  assert.equal(refused.code, 5, refused.stderr);
  assert.match(refused.stderr, /twice\.json is a backup of snapshot snap-1, .*: give it and its image the name/);
});

test('a directory under another name is named, with what to do, and is pruned by nobody', async (t) => {
  renameSync(volume(), repository('renamed'));
  for (const name of ['verify', 'prune']) {
    const { code, stdout, stderr } = await run(t, ...(COMMANDS[name]?.() ?? []));
    assert.equal(code, 5, name);
    assert.match(stdout + stderr, /is a backup of volume vol-1: name the directory vol-1/);
  }
  assert.ok(!existsSync(volume()), 'no directory is made for a lock');
  await assertRestores(t, 1);
});

test('one volume whose manifests are damaged hinders the pruning of no other', async (t) => {
  execFileSync('cp', ['-a', volume(), repository('other')]);
  const { code, stderr } = await run(t, ...(COMMANDS['prune']?.() ?? []));
  assert.equal(code, 5, stderr);
  assert.match(stderr, /name the directory vol-1/);
  assert.equal(readdirSync(volume()).filter((name) => name.endsWith('.json')).length, 1);
  assert.equal(readdirSync(repository('other')).filter((name) => name.endsWith('.json')).length, 2);
});

test('texts of manifests reach a terminal without control characters', async (t) => {
  const { manifest } = nth(1);
  const snapshot = { ...manifest.snapshot, id: 'evil\u001b[2J\u009b1m\u202e' };
  const stem = snapshotStem(snapshot.id, new Date(snapshot.creationTime));
  const image = { ...manifest.image, file: `${stem}.qcow2` };
  writeFileSync(volume(`${stem}.json`), formatManifest({ ...manifest, snapshot, image }));
  const { stdout } = await run(t, 'backups', repository());
  assert.match(stdout, /evil\?\[2J\?1m\?/);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  assert.doesNotMatch(stdout, /[\u001b\u009b\u202e]/);
});

test('an ordinary user lists, verifies, restores and prunes what is theirs', async (t) => {
  const own = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];
  const [program = '', ...rights] = own;
  if (spawnSync(program, [...rights, 'test', '-r', packagePath('package.json')]).status !== 0) {
    return t.skip('another user cannot read the checkout');
  }
  chmodSync(workspace.directory, 0o711);
  mkdirSync(workspace.path('home'));
  execFileSync('cp', ['-a', repository(), workspace.path('home')]);
  execFileSync('chown', ['-R', `${NOBODY}:${NOBODY}`, workspace.path('home')]);
  const env = { BLOCKDELTA_RUNTIME_DIR: workspace.path('home', 'runtime') };
  const theirs = workspace.path('home', 'backups');
  const to = workspace.path('home', 'restored');
  for (const args of [
    ['backups', theirs],
    ['verify', theirs],
    ['prune', theirs, '--keep-last', '1'],
    ['restore', theirs, '--to', to],
  ]) {
    const { code, stderr } = await runCommand(t, args, env, own);
    assert.equal(code, 0, `${args[0]}: ${stderr}`);
  }
  assert.ok(readFileSync(to).equals(history.points[1]?.bytes ?? Buffer.alloc(0)));
});

test('the commands about backups succeed on a kernel without Landlock', async (t) => {
  const without = ['/usr/bin/python3', '-c', WITHOUT_LANDLOCK];
  if (spawnSync('/usr/bin/python3', ['-c', 'import seccomp']).status !== 0) {
    return t.skip('needs python3-seccomp');
  }
  for (const [name, args] of Object.entries(COMMANDS)) {
    const env = { BLOCKDELTA_RUNTIME_DIR: workspace.path('runtime') };
    const { code, stderr } = await runCommand(t, args(), env, without);
    assert.equal(code, 0, `${name}: ${stderr}`);
  }
  assert.ok(readFileSync(restored()).equals(history.points[1]?.bytes ?? Buffer.alloc(0)));
});

/** Runs a program for which the kernel has no Landlock, and all that it starts. */
const WITHOUT_LANDLOCK = `
import ctypes, errno, os, seccomp, sys
filter = seccomp.SyscallFilter(seccomp.ALLOW)
filter.add_rule(seccomp.ERRNO(errno.ENOSYS), 'landlock_create_ruleset')
filter.load()
libc = ctypes.CDLL(None, use_errno=True)
number = seccomp.resolve_syscall(seccomp.Arch(), 'landlock_create_ruleset')
assert libc.syscall(number, None, 0, 1) == -1 and ctypes.get_errno() == errno.ENOSYS
os.execvp(sys.argv[1], sys.argv[1:])
`;
