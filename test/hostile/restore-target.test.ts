/**
 * What commands of root write, where another user owns the directory or has put a link on the way: nothing but the new
 * file or socket in that directory, or the device that the path means to root.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, type TestContext } from 'node:test';
import { openDirectoryOf } from '../../src/base/system/own-way.js';
import { writeOutput } from '../../src/cli/output-file.js';
import { formatManifest } from '../../src/tools/backup/manifest.js';
import { restoreToFile } from '../../src/tools/backup/restore.js';
import { chooseBackup } from '../../src/tools/backup/select.js';
import { serveRanges } from '../../src/tools/nbd/servers.js';
import { makeSocketDirectory } from '../../src/tools/nbd/socket-directory.js';
import { BackupHistory } from '../support/backup-history.js';
import { end } from '../support/child-processes.js';
import { type Ended, runCommand } from '../support/command.js';
import { attachLoop, detachLoop } from '../support/loops.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { openRuntime } from '../support/runtime.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const NOBODY = 65_534;
const SECRET = 'what only root may write';
const DEVICE_BYTES = 8 << 20;

let workspace: Workspace;
let history: BackupHistory;
let device: string | null = null;

beforeEach(async (t) => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('restore-target');
  history = await BackupHistory.begin(workspace.directory, seededRandom(t.name));
  await history.add();
  writeFileSync(workspace.path('secret'), SECRET, { mode: 0o600 });
  mkdirSync(theirs());
  chownSync(theirs(), NOBODY, NOBODY);
});
afterEach(() => {
  if (skipUnlessRoot !== false) return;
  if (device !== null) detachLoop(device);
  device = null;
  workspace.dispose();
});

/** A path in a directory of another user. */
const theirs = (...names: string[]): string => workspace.path('theirs', ...names);

/** As the other user makes it. */
function link(target: string, path: string): string {
  symlinkSync(target, path);
  lchownSync(path, NOBODY, NOBODY);
  return path;
}

const restore = (t: TestContext, to: string, ...options: string[]): Promise<Ended> =>
  runCommand(t, ['restore', workspace.path('backups'), '--to', to, ...options], {
    BLOCKDELTA_RUNTIME_DIR: workspace.path('runtime'),
  });

const image = (): string => workspace.path('device.img');

function attached(...options: string[]): string {
  writeFileSync(image(), Buffer.alloc(DEVICE_BYTES, 7));
  device = attachLoop(image(), ...options);
  return device;
}

/** Refused with what was found, before the first byte. */
async function assertRefused(t: TestContext, to: string, found: RegExp): Promise<void> {
  const { code, stderr } = await restore(t, to);
  assert.equal(code, 5, stderr);
  assert.match(stderr, found);
  assert.ok(readFileSync(image()).equals(Buffer.alloc(DEVICE_BYTES, 7)), 'the device is as it was');
}

test('H39: an unfinished file that is exchanged before a program writes to it changes no other file', async () => {
  const exchanges: Readonly<Record<string, (path: string) => void>> = {
    link: (path) => void link(workspace.path('secret'), path),
    file: (path) => writeFileSync(path, 'of the other user'),
    nothing: () => undefined,
  };
  for (const [kind, exchange] of Object.entries(exchanges)) {
    const chosen = await chooseBackup(history.repository, { volumeId: '', snapshotId: '' });
    const [backup] = chosen.chain;
    assert.ok(backup !== undefined);
    const { directory } = backup;
    // Asked for the image when the file is there and nothing is written to it yet.
    const chain = Object.defineProperty({ ...backup }, 'directory', {
      get: () => {
        const [name] = readdirSync(theirs()).filter((each) => each.endsWith('.partial'));
        if (name !== undefined) {
          rmSync(theirs(name));
          exchange(theirs(name));
        }
        return directory;
      },
    });
    const restored = restoreToFile(
      { ...chosen, chain: [chain] },
      { path: theirs('restored'), replace: false },
      { signal: new AbortController().signal },
    );
    await refused(restored, 'FAILED_PRECONDITION', /unfinished file .* exchanged or removed/);
    assert.equal(readFileSync(workspace.path('secret'), 'utf8'), SECRET, kind);
    assert.deepEqual(readdirSync(theirs()), [], kind);
  }
});

test('H39: a file is restored into the directory of another user, with no more rights than it needs', async (t) => {
  chmodSync(theirs(), 0o700);
  const { code, stderr } = await restore(t, theirs('restored'));
  assert.equal(code, 0, stderr);
  assert.ok(readFileSync(theirs('restored')).equals(history.points[0]?.bytes ?? Buffer.alloc(0)));
  assert.deepEqual([lstatSync(theirs('restored')).uid, lstatSync(theirs('restored')).mode & 0o777], [0, 0o600]);
});

test('H39: a link of another user leads no restore to a device, and no file into another directory', async (t) => {
  const target = attached();
  const shared = workspace.path('shared');
  mkdirSync(shared);
  chmodSync(shared, 0o1777);
  mkdirSync(workspace.path('elsewhere'));
  const decided = /so they decide what it leads to|so they decide where it leads/;
  await assertRefused(t, link(target, theirs('volume')), decided);
  await assertRefused(t, link(target, join(shared, 'volume')), decided);
  link('/dev', theirs('dev'));
  await assertRefused(t, theirs('dev', target.slice('/dev/'.length)), decided);
  link(workspace.path('elsewhere'), theirs('place'));
  await assertRefused(t, theirs('place', 'volume'), decided);
  assert.deepEqual(readdirSync(workspace.path('elsewhere')), []);
  // A link of root's own is one of the names of the device.
  symlinkSync(target, workspace.path('by-id'));
  const { code, stderr } = await restore(t, workspace.path('by-id'));
  assert.equal(code, 0, stderr);
  const { bytes = Buffer.alloc(0) } = history.points[0] ?? {};
  assert.ok(readFileSync(image()).subarray(0, bytes.length).equals(bytes));
});

test('H39: a device that somebody uses without a lock is not overwritten', async (t) => {
  const target = attached();
  const reader = spawn('sh', ['-c', `exec 3< ${target}; echo; exec sleep infinity`]);
  try {
    await once(reader.stdout, 'data');
    await assertRefused(t, target, new RegExp(`in use by process ${reader.pid} \\(sleep\\)`));
  } finally {
    // Before the hooks, which wait for the device.
    await end(reader);
  }
  writeFileSync(workspace.path('published'), '');
  execFileSync('mount', ['--bind', target, workspace.path('published')]);
  try {
    await assertRefused(t, target, /in use by the volume published at .*\/published/);
    await assertRefused(t, workspace.path('published'), /in use by the volume published/);
  } finally {
    execFileSync('umount', [workspace.path('published')]);
  }
});

test('a device with larger sectors than the volume had is refused before the first byte, unless it is forced', async (t) => {
  const target = attached('--sector-size', '4096');
  const both = /has sectors of 4096 bytes, .* of a volume with sectors of 512.*--force/;
  await assertRefused(t, target, both);
  const forced = await restore(t, target, '--force');
  assert.equal(forced.code, 0, forced.stderr);
  const { backup, bytes } = history.points[0] ?? assert.fail();
  assert.ok(readFileSync(image()).subarray(0, bytes.length).equals(bytes));
  // As programs wrote it that did not know the sectors.
  const { manifest, directory, name } = backup;
  const volume = { ...manifest.volume, sectorBytes: null };
  writeFileSync(join(directory, name), formatManifest({ ...manifest, volume }));
  const { code, stderr } = await restore(t, target);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /sectors of 4096 bytes, and the backup does not say how large/);
});

test('H39: a socket is made and removed in the directory that was opened, whatever its path leads to by then', async () => {
  const sockets = makeSocketDirectory(await openRuntime(workspace.path('runtime')));
  mkdirSync(workspace.path('elsewhere'));
  writeFileSync(workspace.path('elsewhere', 'export'), SECRET);
  writeFileSync(workspace.path('ranges'), '0 4096\n');
  mkdirSync(theirs('moved'));
  const path = theirs('moved', 'export');
  const place = await openDirectoryOf(path);
  renameSync(theirs('moved'), theirs('kept'));
  link(workspace.path('elsewhere'), theirs('moved'));
  const server = await serveRanges({
    from: { device: workspace.path('device') },
    ranges: workspace.path('ranges'),
    directory: sockets.path,
    socket: { place, path },
  });
  assert.ok(lstatSync(theirs('kept', 'export')).isSocket());
  await server.close();
  await place.close();
  sockets.discard();
  assert.ok(!existsSync(theirs('kept', 'export')));
  assert.equal(readFileSync(workspace.path('elsewhere', 'export'), 'utf8'), SECRET);
});

test('H39: a page or report is written through no link of another user', async () => {
  await assert.rejects(
    writeOutput(link(workspace.path('secret'), theirs('page')), 'page'),
    /cannot write .*\/theirs\/page \(it is a link\)/,
  );
  link(workspace.directory, theirs('up'));
  await assert.rejects(writeOutput(theirs('up', 'secret'), 'page'), /so they decide where it/);
  assert.equal(readFileSync(workspace.path('secret'), 'utf8'), SECRET);
  await writeOutput(theirs('report'), 'report');
  await writeOutput(theirs('report'), 'again');
  assert.equal(readFileSync(theirs('report'), 'utf8'), 'again');
});

test('H39: conformance publishes no volume where others can exchange it', async (t) => {
  const socket = workspace.path('socket');
  const listener = createServer().listen(socket);
  t.after(() => listener.close());
  await once(listener, 'listening');
  const place = link(workspace.directory, theirs('work'));
  for (const [given, found] of [
    [theirs(), /volumes cannot be published in .*: user 65534 owns .*theirs/],
    [place, /volumes cannot be published in .*: user 65534 owns .*theirs/],
  ] as const) {
    const { code, stderr } = await runCommand(t, [
      'conformance',
      '--endpoint',
      `unix://${socket}`,
      '--work-directory',
      given,
    ]);
    assert.equal(code, 1, stderr);
    assert.match(stderr, found);
  }
});
