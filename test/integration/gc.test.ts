/** `blockdelta gc`: exactly the provable orphans go, whatever else is there. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmdirSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename } from 'node:path';
import type { TestContext } from 'node:test';
import { newVolumeId, nodeKey } from '../../src/domain/identifiers.js';
import { loadAddon } from '../../src/native/addon.js';
import { runCommand } from '../support/command.js';
import { detachLoop } from '../support/loops.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { runPlugin, test } from '../support/running-plugin.js';

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

const ROUNDS = 12;
const running = runPlugin('gc', { pools: { main: 'xfs', second: 'btrfs' } });

function environment(): Record<string, string> {
  return {
    BLOCKDELTA_STATE_DIR: running.workspace.path('plugin'),
    BLOCKDELTA_POOLS: `main=${running.poolPath('main')},second=${running.poolPath('second')}`,
  };
}

async function gc(t: TestContext, ...args: string[]): Promise<Found> {
  const ended = await runCommand(t, ['gc', '--json', ...args], environment());
  assert.equal(ended.code, 0, ended.stderr);
  return JSON.parse(ended.stdout) as Found;
}

const volumePath = (id: string): string => running.poolPath('main', 'volumes', id);
const anId = (): string => newVolumeId(nodeKey('test-node'));

function attach(backingPath: string): string {
  const answer = loadAddon().loopAttach({ backingPath, readOnly: false, label: 'gc test' });
  assert.ok(answer.ok, 'loopAttach');
  return answer.device.path;
}

function makeFile(path: string): string {
  writeFileSync(path, '');
  truncateSync(path, 8 * MIB);
  return path;
}

/** What a loop device is attached to; null: nothing. */
function backingOf(device: string): string | null {
  const file = `/sys/block/${basename(device)}/loop/backing_file`;
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : null;
}

/** A loop device of a file that was removed, at that path. */
function removedLoop(path: string): string {
  const device = attach(makeFile(path));
  unlinkSync(path);
  return device;
}

test('devices that cannot be listed are an error, and not taken for none', async (t) => {
  const hidden = ['-c', 'mount -t tmpfs none /sys && exec "$@"', 'sh'];
  const by = ['unshare', '--mount', '--propagation', 'private', 'sh', ...hidden];
  for (const name of ['gc', 'volumes', 'doctor']) {
    const { code, stdout, stderr } = await runCommand(t, [name], environment(), by);
    assert.equal(code, 1);
    assert.match(stdout + stderr, /the loop devices of this machine cannot be listed/);
  }
});

test('a dry run lists each orphan with its proof and removes nothing, also beside a plugin', async (t) => {
  const path = makeFile(`${volumePath(anId())}.tmp`);
  const { objects } = await gc(t);
  assert.deepEqual(
    objects.map(({ object, removed }) => [object, removed]),
    [[path, false]],
  );
  assert.match(objects[0]?.proof ?? '', /its name is that of a file that a call was making/);
  assert.ok(existsSync(path));
  unlinkSync(path);
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

test('--apply is refused beside a running plugin, and removes nothing', async (t) => {
  const path = makeFile(`${volumePath(anId())}.tmp`);
  const ended = await runCommand(t, ['gc', '--apply'], environment());
  assert.equal(ended.code, 1);
  assert.match(
    ended.stderr,
    /nothing was removed: .* is in use by another process.*; stop the plugin first/,
  );
  assert.ok(existsSync(path));
  unlinkSync(path);
});

test('a volume that is published is untouched while the plugin is stopped', async (t) => {
  const raw = await running.orchestrator.create('published');
  await running.orchestrator.bringUp(raw);
  await running.plugin.stop();
  const { objects } = await gc(t, '--apply');
  assert.deepEqual(objects, []);
  await running.start();
  await running.orchestrator.takeDown(raw);
});

test('of any mixture, exactly the provable orphans are removed', async (t) => {
  const random = seededRandom('gc');
  const volumes: HeldVolume[] = [];
  for (const name of ['a', 'b', 'c']) volumes.push(await running.orchestrator.create(name));
  await running.plugin.stop();
  mkdirSync(running.workspace.path('elsewhere'), { recursive: true });
  for (let round = 0; round < ROUNDS; round += 1) {
    const chosen = () => random.below(2) === 0;
    const lacksRows = random.below(4) === 0;
    const gone: string[] = [];
    const loopsGone: string[] = [];
    const stay: string[] = [];
    const loopsStay: string[] = [];
    const descriptors: number[] = [];
    if (chosen()) gone.push(makeFile(`${volumePath(anId())}.tmp`));
    if (chosen()) stay.push(makeFile(volumePath('notes.tmp')));
    if (chosen()) stay.push(makeFile(volumePath('vol-of-somebody')));
    const [idle, held] = volumes as [HeldVolume, HeldVolume];
    if (chosen()) loopsGone.push(attach(volumePath(idle.id)));
    if (chosen()) {
      const device = attach(volumePath(held.id));
      descriptors.push(openSync(device, 'r'));
      loopsStay.push(device);
    }
    if (chosen()) loopsGone.push(removedLoop(volumePath(anId())));
    if (chosen()) loopsStay.push(removedLoop(volumePath('somebody')));
    if (chosen()) loopsStay.push(removedLoop(running.workspace.path('elsewhere', anId())));
    if (chosen()) loopsStay.push(attach(makeFile(running.workspace.path('elsewhere', 'file'))));
    if (lacksRows) stay.push(makeFile(volumePath(anId())));
    // Without a complete catalogue no device is proved to be unused.
    if (lacksRows) loopsStay.push(...loopsGone.splice(0));
    const before = new Map(loopsStay.map((device) => [device, backingOf(device)]));
    const label = JSON.stringify({ round, gone, loopsGone, stay, loopsStay });

    const ended = await runCommand(t, ['gc', '--apply', '--json'], environment());
    const { objects } = JSON.parse(ended.stdout) as Found;
    const removed = objects.filter((object) => object.removed).map(({ object }) => object);
    assert.deepEqual(removed.sort(), [...gone, ...loopsGone].sort(), `${label} ${ended.stdout}`);
    for (const path of gone) assert.ok(!existsSync(path), label);
    for (const path of stay) assert.ok(existsSync(path), label);
    for (const device of loopsGone) assert.ok(!String(backingOf(device)).includes('gc-'), label);
    for (const [device, file] of before) assert.equal(backingOf(device), file, label);
    // Held open without exclusion: found to be in use when it was to be detached.
    assert.equal(ended.code, objects.some(({ failure }) => failure !== null) ? 1 : 0, ended.stderr);

    for (const descriptor of descriptors) closeSync(descriptor);
    for (const device of loopsStay) detachLoop(device);
    for (const path of stay) unlinkSync(path);
  }
  await running.start();
});
