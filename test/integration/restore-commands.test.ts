/** `blockdelta restore`, `verify`, `backups` and `prune` as processes, on backups of a running plugin's volume. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { TestContext } from 'node:test';
import { assertSame, type BackupJson, backedUp, writeRandom } from '../support/backups.js';
import { type Ended, runCommand } from '../support/command.js';
import { detachLoop } from '../support/loops.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { runPlugin, test } from '../support/running-plugin.js';

const MIB = 1 << 20;
const SIZE = 32 * MIB;
const running = runPlugin('restore-commands', { pools: { pool: 'xfs' }, poolSizeMiB: 1024 });
const random = seededRandom('restore commands');

const run = (t: TestContext, ...args: string[]): Promise<Ended> =>
  runCommand(t, args, environment());

const temporary = (): string => running.workspace.path();
const environment = (): Record<string, string> => ({
  CSI_ENDPOINT: running.plugin.endpoint,
  BLOCKDELTA_RUNTIME_DIR: temporary(),
});

/** A volume with three snapshots, each with a backup; made by the first test, and copied by those that change it. */
const history = {
  volume: null as unknown as HeldVolume,
  directory: '',
  snapshots: [] as string[],
};

test('backups are made, each by what has changed since the last', async (t) => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('backed up', { sizeBytes: SIZE });
  await orchestrator.bringUp(volume);
  const directory = running.workspace.path('backups');
  const place = { endpoint: running.plugin.endpoint, directory, temporary: temporary() };
  for (let index = 0; index < 3; index += 1) {
    writeRandom(volume, random, index * MIB, 3 * MIB);
    const snapshot = await orchestrator.snapshot(volume, `snapshot-${index}`);
    history.snapshots.push(snapshot);
    const { method } = await backedUp(t, place, snapshot);
    assert.equal(method, index === 0 ? 'full' : 'delta');
  }
  Object.assign(history, { volume, directory });
});

/** The backups at another path. */
function copied(to: string): string {
  mkdirSync(dirname(to), { recursive: true });
  execFileSync('cp', ['--archive', history.directory, to]);
  return to;
}

/** The images of backups, the oldest first. */
const imagesIn = (directory: string): string[] =>
  readdirSync(join(directory, history.volume.id))
    .filter((name) => name.endsWith('.qcow2'))
    .sort()
    .map((name) => join(directory, history.volume.id, name));

function attachLoop(path: string): string {
  return execFileSync('losetup', ['--find', '--show', path], { encoding: 'utf8' }).trim();
}

const snapshotFile = (id: string): string => running.poolPath('pool', 'snapshots', id);

test('a backup is restored to a file, to a device and to a new volume', async (t) => {
  const { directory, snapshots } = history;
  const [first = '', , third = ''] = snapshots;
  const file = running.workspace.path('restored');
  const toFile = await run(t, 'restore', directory, '--snapshot', first, '--to', file, '--json');
  assert.equal(toFile.code, 0, toFile.stderr);
  assert.ok(readFileSync(file).equals(readFileSync(snapshotFile(first))));
  const again = await run(t, 'restore', directory, '--to', file);
  assert.deepEqual([again.code, /--force/.test(again.stderr)], [1, true]);

  const backing = running.workspace.path('device');
  writeFileSync(backing, Buffer.alloc(SIZE + MIB, 9));
  const device = attachLoop(backing);
  try {
    const toDevice = await run(t, 'restore', directory, '--to', device);
    assert.equal(toDevice.code, 0, toDevice.stderr);
    const found = readFileSync(backing);
    assert.ok(found.subarray(0, SIZE).equals(readFileSync(snapshotFile(third))));
    assert.ok(found.subarray(SIZE).equals(Buffer.alloc(MIB, 9)), 'what follows stays as it is');
  } finally {
    detachLoop(device);
  }

  const toVolume = await run(t, 'restore', directory, '--to', 'volume:copy', '--json');
  assert.equal(toVolume.code, 0, toVolume.stderr);
  const { target } = JSON.parse(toVolume.stdout) as { target: string };
  assert.ok(
    readFileSync(running.poolPath('pool', 'volumes', target)).equals(
      readFileSync(snapshotFile(third)),
    ),
  );
  await running.plugin.client.controller.DeleteVolume({ volume_id: target });
});

test('a device that is too small or in use is refused, and stays as it is', async (t) => {
  const { directory } = history;
  const backing = running.workspace.path('small');
  writeFileSync(backing, Buffer.alloc(MIB, 5));
  const device = attachLoop(backing);
  try {
    const small = await run(t, 'restore', directory, '--to', device);
    assert.deepEqual([small.code, /larger device/.test(small.stderr)], [5, true]);
    truncateSync(backing, SIZE);
    execFileSync('losetup', ['-c', device]);
    execFileSync('mkfs.ext4', ['-q', device]);
    const mountPoint = running.workspace.path('mounted');
    execFileSync('mkdir', [mountPoint]);
    execFileSync('mount', [device, mountPoint]);
    const used = await run(t, 'restore', directory, '--to', device);
    execFileSync('umount', [mountPoint]);
    assert.deepEqual([used.code, /in use/.test(used.stderr)], [5, true]);
    execFileSync('fsck.ext4', ['-fn', device]);
  } finally {
    detachLoop(device);
  }
});

test('verify compares with a snapshot, and names what is damaged or different', async (t) => {
  const { snapshots } = history;
  const [first = '', , third = ''] = snapshots;
  const directory = copied(running.workspace.path('damaged'));
  const intact = await run(t, 'verify', directory, '--against', third);
  assert.deepEqual([intact.code, intact.stderr], [0, '']);
  assert.match(intact.stdout, /3 backups of 1 volume: nothing is wrong/);
  const [image = ''] = imagesIn(directory);
  const bytes = readFileSync(image);
  bytes[bytes.length - 5000] = (bytes[bytes.length - 5000] ?? 0) ^ 1;
  writeFileSync(image, bytes);
  const damaged = await run(t, 'verify', directory, '--json');
  assert.equal(damaged.code, 5);
  const { problems } = JSON.parse(damaged.stdout) as { problems: { path: string }[] };
  assert.deepEqual(
    problems.map(({ path }) => path),
    [image],
  );
  const target = running.workspace.path('never');
  const refused = await run(t, 'restore', directory, '--snapshot', first, '--to', target);
  assert.deepEqual([refused.code, existsSync(target)], [5, false]);
  assert.equal(imagesIn(directory).length, 3);
});

test('backups are listed and pruned, and what stays has its content', async (t) => {
  const { snapshots } = history;
  const directory = copied(running.workspace.path('pruned'));
  const listed = await run(t, 'backups', directory, '--json');
  const [row] = JSON.parse(listed.stdout) as { backups: { snapshot: string; method: string }[] }[];
  assert.deepEqual(
    row?.backups.map(({ snapshot, method }) => [snapshot, method]),
    snapshots.map((snapshot, index) => [snapshot, index === 0 ? 'full' : 'delta']),
  );
  const wrong = await run(t, 'prune', directory);
  assert.equal(wrong.code, 2);
  const planned = await run(t, 'prune', directory, '--keep-last', '2', '--dry-run', '--json');
  assert.match(planned.stdout, new RegExp(`"removed":\\["${snapshots[0]}"\\]`));
  assert.equal(imagesIn(directory).length, 3);
  const pruned = await run(t, 'prune', directory, '--keep-last', '2');
  assert.equal(pruned.code, 0, pruned.stderr);
  const left = imagesIn(directory);
  assert.equal(left.length, 2);
  for (const [index, image] of left.entries()) {
    await assertSame(snapshotFile(snapshots[index + 1] ?? ''), image);
  }
  assert.equal((await run(t, 'verify', directory)).code, 0);
  assert.equal((await run(t, 'backups', join(directory, 'nowhere'))).code, 4);
});

test('a relative path means what it means in the working directory of the command', async (t) => {
  const { snapshots, volume } = history;
  const [first = '', , newest = ''] = snapshots;
  // From the working directory of the commands the path leads to the backups, and from `/` to images of other bytes.
  const here = running.workspace.path('here');
  const absolute = copied(running.workspace.path('relative'));
  const relative = absolute.slice(1);
  copied(join(here, relative));
  const other = running.workspace.path('other-bytes');
  writeFileSync(other, random.bytes(SIZE));
  for (const image of imagesIn(absolute)) {
    execFileSync('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', other, image]);
  }
  const runHere = (...args: string[]): Promise<Ended> =>
    runCommand(t, args, environment(), ['env', '-C', here]);

  for (const target of [join(here, 'restored'), 'restored-here']) {
    const restored = await runHere('restore', relative, '--snapshot', first, '--to', target);
    assert.equal(restored.code, 0, restored.stderr);
    const bytes = readFileSync(resolve(here, target));
    assert.ok(bytes.equals(readFileSync(snapshotFile(first))), 'other bytes were restored');
  }
  const verified = await runHere('verify', relative, '--against', newest);
  assert.deepEqual([verified.code, verified.stderr], [0, '']);
  const last = await running.orchestrator.snapshot(volume, 'last');
  const backup = await runHere('backup', last, '--to', relative, '--json');
  assert.equal(backup.code, 0, backup.stderr);
  assert.equal((JSON.parse(backup.stdout) as BackupJson).base_snapshot_id, newest);
  const pruned = await runHere('prune', relative, '--keep-last', '1');
  assert.equal(pruned.code, 0, pruned.stderr);
  const listed = await runHere('backups', relative, '--json');
  const [row] = JSON.parse(listed.stdout) as { backups: { snapshot: string }[] }[];
  assert.deepEqual(
    row?.backups.map(({ snapshot }) => snapshot),
    [last],
  );
  const restored = await runHere('restore', relative, '--to', 'last');
  assert.equal(restored.code, 0, restored.stderr);
  assert.ok(readFileSync(join(here, 'last')).equals(readFileSync(snapshotFile(last))));
  const drawn = await runHere('map', last, '--html', 'map.html');
  assert.equal(drawn.code, 0, drawn.stderr);
  assert.match(readFileSync(join(here, 'map.html'), 'utf8'), /<html/);
});
