/** `blockdelta gc`: exactly the provable orphans go, whatever else is there. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, rmdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import { runCommand } from '../../support/command.js';
import { specOf } from '../../support/contents.js';
import { attachAsPlugin, backingOf, detachLoop, loopsOf, sparseFile } from '../../support/loops.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { runPlugin, test } from '../../support/running-plugin.js';

interface Found {
  objects: {
    kind: string;
    object: string;
    proof: string;
    removed: boolean;
    failure: string | null;
  }[];
  kept: { object: string; reason: string }[];
}

const running = runPlugin('gc', { pools: { main: 'xfs', second: 'btrfs' } });

const gc = async (t: TestContext, ...args: string[]): Promise<Found> =>
  JSON.parse(await running.output(t, 'gc', '--json', ...args));

const volumePath = (id: string): string => running.poolPath('main', 'volumes', id);
const anId = (): string => newVolumeId(nodeKey('test-node'));

const makeFile = (path: string): string => sparseFile(path, 8 * MIB);

/** A loop device of a file that was removed, at that path. */
function removedLoop(path: string): string {
  const device = attachAsPlugin(makeFile(path));
  unlinkSync(path);
  return device;
}

test('devices that cannot be listed are an error, and not taken for none', async (t) => {
  const hidden = ['-c', 'mount -t tmpfs none /sys && exec "$@"', 'sh'];
  const by = ['unshare', '--mount', '--propagation', 'private', 'sh', ...hidden];
  for (const name of ['gc', 'volumes', 'doctor']) {
    const { code, stdout, stderr } = await runCommand(t, [name], running.settings, by);
    assert.equal(code, 1);
    assert.match(stdout + stderr, /the loop devices of this machine cannot be listed/);
  }
});

test('copies of a subvolume that snapshots were cloned from are orphans, and nothing else of their name', async (t) => {
  const at = (name: string): string => running.poolPath('second', name);
  const copy = at(`${anId()}.copy`);
  const stay = [at('somebody.copy'), at(`${anId()}.copy`), at(`${anId()}.copy`)] as const;
  for (const path of [copy, stay[0]]) {
    execFileSync('btrfs', ['subvolume', 'snapshot', '-r', at('volumes'), path]);
  }
  mkdirSync(stay[1]);
  writeFileSync(stay[2], '');
  await running.plugin.stop();
  for (const apply of [false, true]) {
    const { objects, kept } = await gc(t, ...(apply ? ['--apply'] : []));
    assert.deepEqual(
      objects.map(({ kind, object, removed }) => [kind, object, removed]),
      [['copy of a subvolume', copy, apply]],
    );
    const left = kept.map(({ object }) => object).sort();
    assert.deepEqual(left, stay.slice(1).sort());
  }
  assert.equal(existsSync(copy), false);
  for (const path of stay) assert.ok(existsSync(path));
  execFileSync('btrfs', ['subvolume', 'delete', stay[0]]);
  rmdirSync(stay[1]);
  unlinkSync(stay[2]);
  await running.start();
});

test('the device of a volume that is staged on record only is an orphan, and one that is published or mounted is none', async (t) => {
  const { orchestrator } = running;
  const settings = { BLOCKDELTA_MOUNT_PROPAGATION: 'off' };
  const kinds = ['ext4', 'block', 'ext4', 'block'] as const;
  const [staged, published, mounted, bound] = await Promise.all(
    kinds.map((kind, index) => orchestrator.create(`staged ${index}`, specOf(kind))),
  );
  assert.ok(staged && published && mounted && bound);
  for (const volume of [staged, published, mounted, bound]) {
    await orchestrator.bringUp(volume);
    if (volume !== published) await orchestrator.unpublish(volume);
  }
  execFileSync('umount', [staged.stagingPath]);
  execFileSync('umount', [published.targetPath]);
  execFileSync('umount', [join(published.stagingPath, 'device')]);
  const [device] = loopsOf(volumePath(staged.id));
  await running.plugin.stop();
  const found = async (env: Record<string, string>, ...args: string[]) => {
    const { code, stdout, stderr } = await runCommand(t, ['gc', '--json', ...args], { ...running.settings, ...env });
    assert.equal(code, 0, stderr);
    return (JSON.parse(stdout) as Found).objects.map(({ object, removed }) => [object, removed]);
  };
  assert.deepEqual(await found({}), [], 'nothing that may be mounted out of sight is an orphan');
  assert.deepEqual(await found(settings, '--apply'), [[device, true]]);
  assert.deepEqual(await found(settings), []);
  await running.start();
  // Neither the record that is left nor the missing mount is in the way.
  await orchestrator.bringUp(staged);
  await orchestrator.remove(staged, published);
  for (const volume of [mounted, bound]) await orchestrator.delete(volume);
});

for (const lacksRows of [false, true]) {
  test(`exactly the provable orphans are removed, ${lacksRows ? 'without rows of some objects' : 'with a whole catalogue'}`, async (t) => {
    const { orchestrator, workspace } = running;
    const volumes: HeldVolume[] = [];
    for (const name of ['idle', 'held', 'published']) volumes.push(await orchestrator.create(name));
    const [idle, held, published] = volumes as [HeldVolume, HeldVolume, HeldVolume];
    await orchestrator.bringUp(published);
    const elsewhere = (name: string): string => workspace.path('elsewhere', name);
    mkdirSync(elsewhere(''), { recursive: true });
    const temporary = makeFile(`${volumePath(anId())}.tmp`);
    const stay = ['notes.tmp', 'vol-of-somebody'].map((name) => makeFile(volumePath(name)));
    if (lacksRows) stay.push(makeFile(volumePath(anId())));

    const dry = await gc(t);
    assert.deepEqual(
      dry.objects.map(({ object, removed }) => [object, removed]),
      [[temporary, false]],
    );
    assert.match(dry.objects[0]?.proof ?? '', /its name is that of a file that a call was making/);
    const beside = await runCommand(t, ['gc', '--apply'], running.settings);
    assert.equal(beside.code, 1);
    const inUse = /nothing was removed: .* is in use by another process.*; stop the plugin first/;
    assert.match(beside.stderr, inUse);
    assert.ok(existsSync(temporary));

    await running.plugin.stop();
    const loopsGone = [attachAsPlugin(volumePath(idle.id)), removedLoop(volumePath(anId()))];
    const heldLoop = attachAsPlugin(volumePath(held.id));
    // Held open without exclusion: found to be in use when it is to be detached.
    const descriptor = openSync(heldLoop, 'r');
    const loopsStay = [
      heldLoop,
      removedLoop(volumePath('somebody')),
      removedLoop(elsewhere(anId())),
      attachAsPlugin(makeFile(elsewhere('file'))),
      ...loopsOf(volumePath(published.id)),
      // Without a complete catalogue no device is proved to be unused.
      ...(lacksRows ? loopsGone.splice(0) : []),
    ];
    assert.equal(loopsStay.length, lacksRows ? 7 : 5);
    const before = loopsStay.map(backingOf);
    const ended = await runCommand(t, ['gc', '--apply', '--json'], running.settings);
    const { objects } = JSON.parse(ended.stdout) as Found;
    const removed = objects.filter((object) => object.removed).map(({ object }) => object);
    assert.deepEqual(removed.sort(), [temporary, ...loopsGone].sort(), ended.stdout);
    assert.ok(!existsSync(temporary));
    for (const path of stay) assert.ok(existsSync(path), path);
    const pool = running.poolPath('main');
    for (const device of loopsGone) assert.ok(!String(backingOf(device)).startsWith(pool), device);
    assert.deepEqual(loopsStay.map(backingOf), before);
    assert.equal(ended.code, objects.some(({ failure }) => failure !== null) ? 1 : 0, ended.stderr);

    closeSync(descriptor);
    const inUseBy = loopsOf(volumePath(published.id));
    for (const device of loopsStay) if (!inUseBy.includes(device)) detachLoop(device);
    for (const path of stay) unlinkSync(path);
    await running.start();
    await orchestrator.takeDown(published);
    for (const volume of volumes) await orchestrator.delete(volume);
  });
}
