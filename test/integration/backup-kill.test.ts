/**
 * Backups that end early: the command is told to end, its programs or the plugin are killed, the destination is full,
 * another command writes to the same directory; test/faults kills the command at each of its steps. No backup ever looks complete that is not, the ones before it stay whole,
 * and the next run completes.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  assertSame,
  backedUp,
  childrenNamed,
  manifestsOf,
  type Place,
  type StartedBackup,
  startBackup,
  writeRandom,
} from '../support/backups.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { runPlugin, test } from '../support/running-plugin.js';

const MIB = 1 << 20;
const SIZE = 64 * MIB;
const running = runPlugin('backup-kill', { pools: { pool: 'xfs' }, poolSizeMiB: 2048 });
const random = seededRandom('backup-kill');

let made = 0;
async function newVolume(): Promise<HeldVolume> {
  made += 1;
  const volume = await running.orchestrator.create(`killed-${made}`, { sizeBytes: SIZE });
  await running.orchestrator.bringUp(volume);
  return volume;
}

function place(name = 'backups'): Place {
  const { workspace, plugin } = running;
  const temporary = workspace.path('t');
  mkdirSync(temporary, { recursive: true });
  return { endpoint: plugin.endpoint, directory: workspace.path(name), temporary };
}

async function change(volume: HeldVolume, name: string): Promise<string> {
  for (let n = 0; n < 20; n += 1) {
    const length = random.pick([512, 4096, 65536, MIB]);
    writeRandom(volume, random, random.below((SIZE - length) / 512) * 512, length);
  }
  return running.orchestrator.snapshot(volume, name);
}

/** How long a backup takes that nobody disturbs, so that the kills fall into every part of one. */
async function firstBackup(t: TestContext, volume: HeldVolume): Promise<number> {
  writeRandom(volume, random, 0, 16 * MIB);
  const snapshot = await change(volume, `${volume.id.slice(-8)}-first`);
  const started = performance.now();
  const { image } = await backedUp(t, place(), snapshot);
  await assertSame(volume.targetPath, image);
  return performance.now() - started;
}

/** The run that was disturbed has left a complete backup or none; the next one completes and cleans up. */
async function assertRecovers(
  t: TestContext,
  volume: HeldVolume,
  snapshot: string,
  { ended }: StartedBackup,
): Promise<void> {
  const { code } = await ended;
  const isThere = manifestsOf(place(), volume.id).has(snapshot);
  if (code === 0) assert.ok(isThere, 'a backup that succeeded has a manifest');
  const { image } = await backedUp(t, place(), snapshot);
  await assertSame(volume.targetPath, image);
  const names = readdirSync(join(image, '..'));
  assert.deepEqual(
    names.filter((name) => name.includes('.partial')),
    [],
  );
}

/** Neither temporary volumes nor records and sockets of commands are left. */
async function assertClean(t: TestContext, volume: HeldVolume): Promise<void> {
  // A command that was killed after its manifest was written leaves its volume to the next backup.
  await backedUp(t, place(), await change(volume, `${volume.id.slice(-8)}-last`));
  assert.equal((await running.orchestrator.volumeIds()).length, made);
  assert.deepEqual(readdirSync(place().temporary), []);
}

test('SIGTERM at random moments: the command removes what it has made before it ends', async (t) => {
  const volume = await newVolume();
  const wholeMs = await firstBackup(t, volume);
  for (let round = 0; round < 4; round += 1) {
    const snapshot = await change(volume, `stopped-${round}`);
    const backup = startBackup(t, place(), snapshot);
    // Before that, Node.js itself is starting and ends as any process does.
    await delay(wholeMs / 4 + random.below(Math.ceil(wholeMs)));
    backup.child.kill('SIGTERM');
    const { code, stderr } = await backup.ended;
    assert.ok(code === 0 || code === 130 || code === null, stderr);
    if (code !== null) {
      assert.equal((await running.orchestrator.volumeIds()).length, made, stderr);
      assert.deepEqual(readdirSync(place().temporary), []);
    }
    await assertRecovers(t, volume, snapshot, backup);
  }
  await assertClean(t, volume);
});

for (const program of ['nbdkit', 'qemu-nbd', 'nbdcopy', 'qemu-img']) {
  test(`kill -9 of ${program} ends the backup, and the message names it`, async (t) => {
    const volume = await newVolume();
    await firstBackup(t, volume);
    let hits = 0;
    for (let round = 0; hits < 2 && round < 10; round += 1) {
      const snapshot = await change(volume, `${program}-${round}`);
      const backup = startBackup(t, place(), snapshot);
      const isHit = await killProgram(backup, program);
      const { code, stderr } = await backup.ended;
      if (isHit && code !== 0) {
        hits += 1;
        assert.equal(code, 1, stderr);
        assert.match(stderr, /^blockdelta: (nbdkit|qemu-nbd|nbdcopy|qemu-img), started to /);
        assert.equal(manifestsOf(place(), volume.id).has(snapshot), false);
      }
      await assertRecovers(t, volume, snapshot, backup);
    }
    assert.ok(hits > 0, `no round met ${program} while it ran`);
    await assertClean(t, volume);
  });
}

/** Whether the program was seen before the backup ended. */
async function killProgram({ child }: StartedBackup, program: string): Promise<boolean> {
  while (child.exitCode === null && child.signalCode === null) {
    const [id] = childrenNamed(child, program);
    if (id !== undefined) {
      process.kill(id, 'SIGKILL');
      return true;
    }
    await delay(1);
  }
  return false;
}

test('kill -9 of the plugin at random moments', async (t) => {
  const volume = await newVolume();
  const wholeMs = await firstBackup(t, volume);
  for (let round = 0; round < 4; round += 1) {
    const snapshot = await change(volume, `plugin-${round}`);
    const backup = startBackup(t, place(), snapshot);
    await delay(random.below(Math.ceil(wholeMs)));
    await running.crash();
    await assertRecovers(t, volume, snapshot, backup);
  }
  await assertClean(t, volume);
});

test('of two commands for one volume, the second is refused while the first one runs', async (t) => {
  const volume = await newVolume();
  await firstBackup(t, volume);
  const [one, other] = [await change(volume, 'one'), await change(volume, 'other')];
  const first = startBackup(t, place(), one);
  const directory = join(place().directory, volume.id);
  while (!readdirSync(directory).some((name) => name.endsWith('.partial'))) {
    assert.equal(first.child.exitCode, null, 'the backup ended before it was seen');
    await delay(1);
  }
  first.child.kill('SIGSTOP');
  const second = await startBackup(t, place(), other).ended;
  first.child.kill('SIGCONT');
  assert.equal(second.code, 1, second.stderr);
  assert.match(second.stderr, /another command is writing backups of volume .*\.lock/);
  assert.equal((await first.ended).code, 0);
  const { base_snapshot_id: base, image } = await backedUp(t, place(), other);
  assert.equal(base, one);
  await assertSame(volume.targetPath, image);
  await assertClean(t, volume);
});

test('a full destination is named with what is free, and the backups that are there stay whole', async (t) => {
  const volume = await newVolume();
  const full = place('small');
  mkdirSync(full.directory);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m', 'none', full.directory]);
  writeRandom(volume, random, 0, MIB);
  const kept = await backedUp(t, full, await running.orchestrator.snapshot(volume, 'fits'));
  await assertSame(volume.targetPath, kept.image);
  writeRandom(volume, random, 0, 24 * MIB);
  const large = await running.orchestrator.snapshot(volume, 'does-not-fit');
  const { code, stderr } = await startBackup(t, full, large).ended;
  assert.equal(code, 1);
  assert.match(stderr, /no space left for the backup in .*small.*: \d+ bytes are free/);
  const manifests = manifestsOf(full, volume.id);
  assert.equal(manifests.size, 1);
  assert.deepEqual(
    readdirSync(join(kept.image, '..')).filter((name) => name.includes('.partial')),
    [],
  );
  const again = await backedUp(t, full, [...manifests.keys()][0] as string);
  assert.equal(again.image, kept.image);
  await assertClean(t, volume);
});
