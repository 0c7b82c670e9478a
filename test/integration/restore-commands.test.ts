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
import { join, resolve } from 'node:path';
import type { TestContext } from 'node:test';
import {
  assertSame,
  type BackupJson,
  backedUp,
  type Place,
  writeRandom,
} from '../support/backups.js';
import { type Ended, runCommand } from '../support/command.js';
import { detachLoop } from '../support/loops.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { runPlugin, test } from '../support/running-plugin.js';

const MIB = 1 << 20;
const SIZE = 32 * MIB;
const running = runPlugin('restore-commands', { pools: { pool: 'xfs' }, poolSizeMiB: 1024 });
const random = seededRandom('restore commands');

const place = (name: string): Place => ({
  endpoint: running.plugin.endpoint,
  directory: running.workspace.path(name),
  temporary: running.workspace.path(),
});

const run = (t: TestContext, ...args: string[]): Promise<Ended> =>
  runCommand(t, args, environment());

const environment = (): Record<string, string> => ({
  CSI_ENDPOINT: running.plugin.endpoint,
  BLOCKDELTA_RUNTIME_DIR: running.workspace.path(),
});

interface History {
  volume: HeldVolume;
  directory: string;
  snapshots: string[];
  backups: BackupJson[];
}

/** A volume with as many snapshots, each with a backup. */
async function history(t: TestContext, name: string, count: number): Promise<History> {
  const { orchestrator } = running;
  const volume = await orchestrator.create(name, { sizeBytes: SIZE });
  await orchestrator.bringUp(volume);
  const { directory } = place(`${name}-backups`);
  const made: History = { volume, directory, snapshots: [], backups: [] };
  for (let index = 0; index < count; index += 1) {
    writeRandom(volume, random, index * MIB, 3 * MIB);
    const snapshot = await orchestrator.snapshot(volume, `${name}-${index}`);
    made.snapshots.push(snapshot);
    made.backups.push(await backedUp(t, place(`${name}-backups`), snapshot));
  }
  return made;
}

function attachLoop(path: string): string {
  return execFileSync('losetup', ['--find', '--show', path], { encoding: 'utf8' }).trim();
}

const snapshotFile = (id: string): string => running.poolPath('pool', 'snapshots', id);

test('a backup is restored to a file, to a device and to a new volume', async (t) => {
  const { directory, snapshots } = await history(t, 'targets', 3);
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
  const { directory } = await history(t, 'refused', 1);
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
  const { directory, snapshots, backups, volume } = await history(t, 'verified', 2);
  const [first = '', second = ''] = snapshots;
  const intact = await run(t, 'verify', directory, '--against', second);
  assert.deepEqual([intact.code, intact.stderr], [0, '']);
  assert.match(intact.stdout, /2 backups of 1 volume: nothing is wrong/);
  const image = backups[0]?.image ?? '';
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
  assert.ok(readdirSync(join(directory, volume.id)).length > 0);
});

test('backups are listed and pruned, and what stays has its content', async (t) => {
  const { directory, snapshots, volume } = await history(t, 'pruned', 4);
  const listed = await run(t, 'backups', directory, '--json');
  const [row] = JSON.parse(listed.stdout) as { backups: { snapshot: string; method: string }[] }[];
  assert.deepEqual(
    row?.backups.map(({ snapshot }) => snapshot),
    snapshots,
  );
  assert.deepEqual(
    row?.backups.map(({ method }) => method),
    ['full', 'delta', 'delta', 'delta'],
  );
  const wrong = await run(t, 'prune', directory);
  assert.equal(wrong.code, 2);
  const planned = await run(t, 'prune', directory, '--keep-last', '2', '--dry-run', '--json');
  assert.match(planned.stdout, new RegExp(`"removed":\\["${snapshots[0]}","${snapshots[1]}"\\]`));
  assert.equal(
    readdirSync(join(directory, volume.id)).filter((name) => name.endsWith('.qcow2')).length,
    4,
  );
  const pruned = await run(t, 'prune', directory, '--keep-last', '2');
  assert.equal(pruned.code, 0, pruned.stderr);
  const left = readdirSync(join(directory, volume.id)).filter((name) => name.endsWith('.qcow2'));
  assert.equal(left.length, 2);
  for (const [index, name] of left.sort().entries()) {
    await assertSame(snapshotFile(snapshots[index + 2] ?? ''), join(directory, volume.id, name));
  }
  assert.equal((await run(t, 'verify', directory)).code, 0);
  assert.equal((await run(t, 'backups', join(directory, 'nowhere'))).code, 4);
});

test('a relative path means what it means in the working directory of the command', async (t) => {
  const { directory, snapshots, backups, volume } = await history(t, 'relative', 2);
  const [first = '', second = ''] = snapshots;
  // From the working directory of the commands the path leads to the backups, and from `/` to images of other bytes.
  const here = running.workspace.path('here');
  const relative = directory.slice(1);
  const moved = join(here, relative);
  mkdirSync(join(moved, '..'), { recursive: true });
  execFileSync('cp', ['--archive', directory, moved]);
  const other = running.workspace.path('other-bytes');
  writeFileSync(other, random.bytes(SIZE));
  for (const { image } of backups) {
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
  const verified = await runHere('verify', relative, '--against', second);
  assert.deepEqual([verified.code, verified.stderr], [0, '']);
  const third = await running.orchestrator.snapshot(volume, 'relative-third');
  const backup = await runHere('backup', third, '--to', relative, '--json');
  assert.equal(backup.code, 0, backup.stderr);
  assert.equal((JSON.parse(backup.stdout) as BackupJson).base_snapshot_id, second);
  const pruned = await runHere('prune', relative, '--keep-last', '1');
  assert.equal(pruned.code, 0, pruned.stderr);
  const listed = await runHere('backups', relative, '--json');
  const [row] = JSON.parse(listed.stdout) as { backups: { snapshot: string }[] }[];
  assert.deepEqual(
    row?.backups.map(({ snapshot }) => snapshot),
    [third],
  );
  const last = await runHere('restore', relative, '--to', 'last');
  assert.equal(last.code, 0, last.stderr);
  assert.ok(readFileSync(join(here, 'last')).equals(readFileSync(snapshotFile(third))));
  const drawn = await runHere('map', third, '--html', 'map.html');
  assert.equal(drawn.code, 0, drawn.stderr);
  assert.match(readFileSync(join(here, 'map.html'), 'utf8'), /<html/);
});
