/**
 * The end of a container during a snapshot: the plugin and everything it has started are killed at once, with their
 * PID namespace, while a file system is frozen. Only a guardian in another container is left to thaw it.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FILE_SYSTEMS } from '../../src/driver/host/file-systems.js';
import { killChildren } from '../support/child-processes.js';
import { eventually } from '../support/eventually.js';
import { isFrozen, isFrozenUnmounted, thawUnmounted } from '../support/freeze.js';
import { endGuardian, IN_PID_NAMESPACE, startGuardian } from '../support/listening-guardian.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { temporaryDirectory } from '../support/temporary.js';
import { skipUnlessRoot } from '../support/workspace.js';
import { WHILE_FROZEN } from './operations.js';
import { Scene } from './scene.js';

/** kill -9 of all processes of the plugin, and of what `first` ends, while the file system of a snapshot is frozen. */
async function endDuringSnapshot(scene: Scene, volume: HeldVolume, first: () => void = () => undefined): Promise<void> {
  const until = (): Promise<void> => {
    first();
    return scene.kill();
  };
  scene.steps.begin({ step: WHILE_FROZEN, does: 'wait', until });
  await assert.rejects(scene.orchestrator.snapshot(volume, 'interrupted'));
  assert.ok(scene.steps.isReached, 'the snapshot came to the moment at which its volume is frozen');
  await scene.kill();
  scene.steps.begin();
}

for (const kind of ['xfs', 'btrfs'] as const) {
  test(`H19: a guardian in another container thaws the volume when the container of the plugin is killed during a snapshot on ${kind}`, {
    skip: skipUnlessRoot,
  }, async () => {
    const socket = join(temporaryDirectory(), 'guardian.sock');
    let guardian = await startGuardian(socket);
    const env = { BLOCKDELTA_GUARDIAN_SOCKET: socket };
    const scene = await Scene.make(`container-end-${kind}`, kind, env, IN_PID_NAMESPACE);
    try {
      await scene.start();
      const { volume } = await scene.used('ext4');
      const file = join(volume.targetPath, 'meanwhile');
      await endDuringSnapshot(scene, volume);
      await eventually('the file system is thawed', () => !isFrozen(volume.targetPath));
      writeFileSync(file, 'written without a plugin', { flush: true });
      await scene.start();
      assert.equal(readFileSync(file, 'utf8'), 'written without a plugin');
      await scene.orchestrator.snapshot(volume, 'taken');

      await endGuardian(guardian, 'SIGTERM');
      const take = () => scene.orchestrator.snapshot(volume, 'without-guardian');
      await refused(take(), 'UNAVAILABLE', /no guardian answers at .*BLOCKDELTA_GUARDIAN_SOCKET/);
      assert.ok(!isFrozen(volume.targetPath));
      guardian = await startGuardian(socket);
      await take();
      await scene.orchestrator.takeDown(volume);
    } finally {
      await endGuardian(guardian, 'SIGKILL');
      await scene.dispose();
    }
  });
}

/** With a guardian that ends before the plugin. The end of a namespace may let one in it thaw, or not. */
async function staysFrozen(scene: Scene, endGuardian: () => void): Promise<void> {
  try {
    await scene.start();
    const { volume } = await scene.used('ext4');
    await endDuringSnapshot(scene, volume, endGuardian);
    assert.ok(isFrozen(volume.targetPath));
    await scene.start();
    assert.ok(!isFrozen(volume.targetPath));
    await scene.orchestrator.takeDown(volume);
  } finally {
    await scene.dispose();
  }
}

test('a guardian that ends with the plugin leaves the file system frozen until the next start', {
  skip: skipUnlessRoot,
}, async () => {
  const scene = await Scene.make('container-end', 'xfs');
  await staysFrozen(scene, () => scene.killGuardian());
});

for (const type of FILE_SYSTEMS) {
  test(`a start thaws an ${type} that a dead plugin left frozen also if its mounts have been removed meanwhile`, {
    skip: skipUnlessRoot,
  }, async () => {
    const scene = await Scene.make('container-end', 'xfs');
    let device = '';
    try {
      await scene.start();
      const { volume } = await scene.used(type);
      await endDuringSnapshot(scene, volume, () => scene.killGuardian());
      const { targetPath, stagingPath } = volume;
      const shown = execFileSync('findmnt', ['-no', 'SOURCE', stagingPath], { encoding: 'utf8' });
      device = shown.trim();
      for (const path of [targetPath, stagingPath]) execFileSync('umount', ['--lazy', path]);
      await scene.start();
      assert.ok(!isFrozenUnmounted(device));
      await scene.orchestrator.stage(volume);
      assert.ok(!isFrozen(stagingPath));
      await scene.orchestrator.publish(volume);
      writeFileSync(join(targetPath, 'again'), 'written', { flush: true });
      await scene.orchestrator.takeDown(volume);
    } catch (thrown) {
      if (device !== '') thawUnmounted(device);
      throw thrown;
    } finally {
      await scene.dispose();
    }
  });
}

test('a listening guardian that ends with the plugin leaves the file system frozen, and the next start thaws it without a guardian', {
  skip: skipUnlessRoot,
}, async () => {
  const socket = join(temporaryDirectory(), 'guardian.sock');
  const guardian = await startGuardian(socket);
  const scene = await Scene.make('container-end', 'xfs', { BLOCKDELTA_GUARDIAN_SOCKET: socket });
  try {
    await staysFrozen(scene, () => {
      killChildren(guardian, 'blockdelta-guardian');
      guardian.kill('SIGKILL');
    });
  } finally {
    await endGuardian(guardian, 'SIGKILL');
  }
});
