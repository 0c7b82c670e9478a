/** `blockdelta restore`, `verify`, `backups`, `prune` and `compact` as processes, on backups of a running plugin's volume. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { TestContext } from 'node:test';
import { parseManifest } from '../../../src/tools/backup/manifest.js';
import { assertSame, type BackupJson, backedUp } from '../../support/backups.js';
import { type Ended, runCommand } from '../../support/command.js';
import { attachLoop, detachLoop } from '../../support/loops.js';
import type { HeldVolume } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { writeAt } from '../../support/write-at.js';

const MIB = 1 << 20;
const SIZE = 32 * MIB;
const running = runPlugin('restore-commands', { pools: { pool: 'xfs' }, poolSizeMiB: 1024 });
const random = seededRandom('restore commands');

/** A command that must succeed; resolves to what it prints. */
const run = (t: TestContext, ...args: string[]): Promise<string> => running.output(t, ...args);

/** A command that must fail so. */
async function fails(t: TestContext, code: number, said: RegExp, ...args: string[]): Promise<Ended> {
  const ended = await runCommand(t, args, running.settings);
  assert.equal(ended.code, code, ended.stderr);
  assert.match(ended.stderr, said);
  return ended;
}

/** A volume with three snapshots, each with a backup; made by the first test, and copied by those that change it. */
const history = { volume: null as unknown as HeldVolume, directory: '', snapshots: [] as string[] };

async function makeHistory(t: TestContext): Promise<void> {
  const { orchestrator } = running;
  const volume = await orchestrator.create('backed up', { sizeBytes: SIZE });
  await orchestrator.bringUp(volume);
  const directory = running.workspace.path('backups');
  const temporary = running.workspace.directory;
  const place = { endpoint: running.plugin.endpoint, directory, temporary };
  for (let index = 0; index < 3; index += 1) {
    writeAt(volume.targetPath, index * MIB, random.bytes(3 * MIB));
    const snapshot = await orchestrator.snapshot(volume, `snapshot-${index}`);
    history.snapshots.push(snapshot);
    const { method } = await backedUp(t, place, snapshot);
    assert.equal(method, index === 0 ? 'full' : 'delta');
  }
  Object.assign(history, { volume, directory });
}

test('each backup holds what has changed since the last one', makeHistory);

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

const snapshotFile = (id: string): string => running.poolPath('pool', 'snapshots', id);

function assertHolds(bytes: Buffer, snapshot: string): void {
  assert.ok(bytes.equals(readFileSync(snapshotFile(snapshot))), 'other bytes were restored');
}

test('a backup is restored to a file, to a device and to a new volume', async (t) => {
  const { directory, snapshots } = history;
  const [first = '', , third = ''] = snapshots;
  const file = running.workspace.path('restored');
  await run(t, 'restore', directory, '--snapshot', first, '--to', file, '--json');
  assertHolds(readFileSync(file), first);
  await fails(t, 1, /--force/, 'restore', directory, '--to', file);

  const backing = running.workspace.path('device');
  writeFileSync(backing, Buffer.alloc(SIZE + MIB, 9));
  const device = attachLoop(backing);
  try {
    await run(t, 'restore', directory, '--to', device);
    const found = readFileSync(backing);
    assertHolds(found.subarray(0, SIZE), third);
    assert.ok(found.subarray(SIZE).equals(Buffer.alloc(MIB, 9)), 'what follows stays as it is');
  } finally {
    detachLoop(device);
  }

  const made = await run(t, 'restore', directory, '--to', 'volume:copy', '--json');
  const { target } = JSON.parse(made) as { target: string };
  assertHolds(readFileSync(running.poolPath('pool', 'volumes', target)), third);
  await running.plugin.client.controller.DeleteVolume({ volume_id: target });
});

test('a device that is too small or in use is refused, and stays as it is', async (t) => {
  const { directory } = history;
  const backing = running.workspace.path('small');
  writeFileSync(backing, Buffer.alloc(MIB, 5));
  const device = attachLoop(backing);
  try {
    await fails(t, 5, /larger device/, 'restore', directory, '--to', device);
    truncateSync(backing, SIZE);
    execFileSync('losetup', ['-c', device]);
    execFileSync('mkfs.ext4', ['-q', device]);
    const mountPoint = running.workspace.path('mounted');
    execFileSync('mkdir', [mountPoint]);
    execFileSync('mount', [device, mountPoint]);
    await fails(t, 5, /in use/, 'restore', directory, '--to', device).finally(() =>
      execFileSync('umount', [mountPoint]),
    );
    execFileSync('fsck.ext4', ['-fn', device]);
  } finally {
    detachLoop(device);
  }
});

test('a newest backup that cannot be the base is named on stderr, in JSON and in the manifest', async (t) => {
  if (history.directory === '') await makeHistory(t);
  const directory = copied(running.workspace.path('skipped'));
  const [, , newest = ''] = imagesIn(directory);
  truncateSync(newest, 4096);
  const snapshot = await running.orchestrator.snapshot(history.volume, 'after damage');
  const found = new RegExp(`${newest}: the image has 4096 bytes, and the manifest says`);
  const args = ['backup', snapshot, '--to', directory, '--json'];
  const { stdout } = await fails(t, 0, found, ...args);
  const result = JSON.parse(stdout) as BackupJson & { skipped: string[]; manifest: string };
  assert.equal(result.base_snapshot_id, history.snapshots[1]);
  assert.match(result.skipped.join(), found);
  const manifest = parseManifest(readFileSync(result.manifest, 'utf8'), result.manifest);
  assert.deepEqual(manifest.skipped, result.skipped);
  rmSync(newest);
  const next = await running.orchestrator.snapshot(history.volume, 'after loss');
  const again = ['backup', next, '--to', directory, '--base', history.snapshots[2] ?? ''];
  await fails(t, 0, /the backup is full: .*qcow2: the image is missing/, ...again);
});

test('verify compares with a snapshot, and names what is damaged or different', async (t) => {
  const { snapshots } = history;
  const [first = '', , third = ''] = snapshots;
  const directory = copied(running.workspace.path('damaged'));
  const intact = await run(t, 'verify', directory, '--against', third);
  assert.match(intact, /3 backups of 1 volume: nothing is wrong/);
  const last = imagesIn(directory).at(-1);
  const equal = `compared ${last} with snapshot ${third}, byte by byte: they are equal\n`;
  assert.ok(intact.startsWith(equal), intact);
  const [image = ''] = imagesIn(directory);
  const bytes = readFileSync(image);
  bytes[bytes.length - 5000] = (bytes[bytes.length - 5000] ?? 0) ^ 1;
  writeFileSync(image, bytes);
  const { stdout } = await fails(t, 5, /(?:)/, 'verify', directory, '--json');
  const { problems } = JSON.parse(stdout) as { problems: { path: string }[] };
  assert.deepEqual(
    problems.map(({ path }) => path),
    [image],
  );
  const target = running.workspace.path('never');
  await fails(t, 5, /./, 'restore', directory, '--snapshot', first, '--to', target);
  assert.ok(!existsSync(target));
  assert.equal(imagesIn(directory).length, 3);
});

/** The snapshot and the method of each backup of the one volume. */
function listedIn(json: string): string[][] {
  const [row] = JSON.parse(json) as { backups: { snapshot: string; method: string }[] }[];
  return (row?.backups ?? []).map(({ snapshot, method }) => [snapshot, method]);
}

test('backups are listed and pruned, and what stays has its content', async (t) => {
  const { snapshots } = history;
  const directory = copied(running.workspace.path('pruned'));
  const expected = snapshots.map((snapshot, index) => [snapshot, index === 0 ? 'full' : 'delta']);
  assert.deepEqual(listedIn(await run(t, 'backups', directory, '--json')), expected);
  await fails(t, 2, /no rule is given/, 'prune', directory);
  await fails(t, 2, /keeps 0 backups/, 'prune', directory, '--keep-last', '0', '--keep-daily', '0');
  const words = await run(t, 'prune', directory, '--keep-last', '2', '--dry-run');
  assert.match(words, new RegExp(`2 would be kept.*1 would be removed\n  would remove  ${snapshots[0]}\n`));
  const planned = await run(t, 'prune', directory, '--keep-last', '2', '--dry-run', '--json');
  assert.match(planned, new RegExp(`"removed":\\["${snapshots[0]}"\\]`));
  assert.equal(imagesIn(directory).length, 3);
  await run(t, 'prune', directory, '--keep-last', '2');
  const left = imagesIn(directory);
  assert.equal(left.length, 2);
  for (const [index, image] of left.entries()) {
    await assertSame(snapshotFile(snapshots[index + 1] ?? ''), image);
  }
  await run(t, 'verify', directory);
  const [base = '', top = ''] = left;
  assert.match(await run(t, 'backups', directory), /on .*, 2 images of /);
  truncateSync(top, 4096);
  const { stdout } = await fails(t, 5, /1 backups cannot be restored/, 'backups', directory);
  assert.equal(stdout.match(/BROKEN: .*has 4096 bytes, and the manifest says/g)?.length, 1);
  rmSync(base);
  const broken = await fails(t, 5, /2 backups cannot be restored/, 'backups', directory, '--json');
  assert.equal(broken.stdout.match(/"broken":"[^"]/g)?.length, 2);
  await fails(t, 4, /./, 'backups', join(directory, 'nowhere'));
});

test('a chain becomes one image by compact and by prune --compact, and the next backup is based on it', async (t) => {
  const { snapshots } = history;
  const [first = '', second = '', third = ''] = snapshots;
  const directory = copied(running.workspace.path('compacted'));
  const volume = history.volume.id;
  const held = async (): Promise<void> => {
    for (const [index, image] of imagesIn(directory).entries()) {
      await assertSame(snapshotFile(snapshots[index] ?? ''), image);
    }
  };
  const methods = async (): Promise<(string | undefined)[]> =>
    listedIn(await run(t, 'backups', directory, '--json')).map(([, method]) => method);
  await fails(t, 4, /has no backup of snapshot none/, 'compact', directory, '--snapshot', 'none');
  await fails(t, 4, /has no backups to compact/, 'compact', directory, '--volume', 'none');
  const plain = await run(t, 'compact', directory, '--snapshot', first);
  assert.equal(plain, `volume ${volume}: the backup of snapshot ${first} is full already\n`);
  assert.equal(
    await run(t, 'compact', directory, '--snapshot', second),
    `volume ${volume}: the backup of snapshot ${second} was made full, of 2 images\n`,
  );
  assert.deepEqual(await methods(), ['full', 'full', 'delta']);
  await held();
  const keep = ['--keep-last', '3', '--compact'];
  await fails(t, 2, /above 0/, 'prune', directory, ...keep, '0');
  assert.doesNotMatch(await run(t, 'prune', directory, ...keep, '2'), /made full/);
  const planned = await run(t, 'prune', directory, ...keep, '1', '--dry-run');
  assert.match(planned, new RegExp(`3 would be kept, 1 of .*\n  would make full  ${third}, of 2 images\n$`));
  assert.deepEqual(await methods(), ['full', 'full', 'delta']);
  const done = JSON.parse(await run(t, 'prune', directory, ...keep, '1', '--json'));
  assert.deepEqual(done, [{ volume, kept: snapshots, removed: [], rebased: [third], compacted: third }]);
  assert.deepEqual(await methods(), ['full', 'full', 'full']);
  await held();
  const json = JSON.parse(await run(t, 'compact', directory, '--json'));
  assert.deepEqual(json, [{ volume, snapshot: third, images: 1, compacted: false }]);
  const next = await running.orchestrator.snapshot(history.volume, 'after compaction');
  await run(t, 'backup', next, '--to', directory);
  assert.match(await run(t, 'backups', directory), / 2 images of /);
  await assertSame(snapshotFile(next), imagesIn(directory).at(-1) ?? '');
});

test('of two commands that compact one volume at a time one may fail, and the backup is full and whole', async (t) => {
  const directory = copied(running.workspace.path('compacted-twice'));
  const run = () => runCommand(t, ['compact', directory], running.settings);
  for (const { code, stderr } of await Promise.all([run(), run()])) {
    if (code !== 0) assert.match(stderr, /another command is writing backups of volume/);
    assert.ok(code === 0 || code === 1, stderr);
  }
  const images = imagesIn(directory);
  assert.equal(images.length, 3);
  await assertSame(snapshotFile(history.snapshots[2] ?? ''), images[2] ?? '');
  assert.deepEqual((await runCommand(t, ['compact', directory], running.settings)).code, 0);
});

test('a snapshot whose backup cannot be restored is not taken for backed up', async (t) => {
  const { snapshots } = history;
  const directory = copied(running.workspace.path('broken-base'));
  rmSync(imagesIn(directory)[0] ?? '');
  const again = ['backup', snapshots[2] ?? '', '--to', directory, '--base', 'none'];
  await fails(t, 5, /has a backup that is damaged: .*take a new snapshot/, ...again);
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
  const runHere = async (...args: string[]): Promise<string> => {
    const ended = await runCommand(t, args, running.settings, ['env', '-C', here]);
    assert.equal(ended.code, 0, ended.stderr);
    return ended.stdout;
  };

  for (const target of [join(here, 'restored'), 'restored-here']) {
    await runHere('restore', relative, '--snapshot', first, '--to', target);
    assertHolds(readFileSync(resolve(here, target)), first);
  }
  await runHere('verify', relative, '--against', newest);
  const last = await running.orchestrator.snapshot(volume, 'last');
  const backup = await runHere('backup', last, '--to', relative, '--json');
  assert.equal((JSON.parse(backup) as BackupJson).base_snapshot_id, newest);
  await runHere('prune', relative, '--keep-last', '1');
  assert.deepEqual(
    listedIn(await runHere('backups', relative, '--json')).map(([snapshot]) => snapshot),
    [last],
  );
  await runHere('restore', relative, '--to', 'last');
  assertHolds(readFileSync(join(here, 'last')), last);
  await runHere('map', last, '--html', 'map.html');
  assert.match(readFileSync(join(here, 'map.html'), 'utf8'), /<html/);
});
