/**
 * A clone that does not end: the guardian thaws when the freeze has lasted as long as it may, whether the plugin's
 * setting or the caller's deadline says so, while the plugin still waits for the clone.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { specOf } from '../support/contents.js';
import { type HeldVolume, untilSettled } from '../support/orchestrator.js';
import { refused, statusOf } from '../support/refusal.js';
import { skipUnlessRoot } from '../support/workspace.js';
import { WHILE_FROZEN } from './operations.js';
import { Scene } from './scene.js';

/** The answer to a call whose copy has not ended, or nothing, where the plugin had no processor for the answer. */
const LATE = ['ABORTED', 'DEADLINE_EXCEEDED'];

/** The step waits until the volume can be written again, which a frozen one cannot: the write would wait for ever. */
function hold(scene: Scene, volume: HeldVolume, step = WHILE_FROZEN): void {
  const until = () =>
    new Promise<void>((resolve, reject) => {
      const write = spawn('dd', [
        'if=/dev/zero',
        `of=${join(volume.targetPath, 'meanwhile')}`,
        'bs=1',
        'count=1',
        'conv=fsync',
      ]);
      write.on('error', reject);
      write.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`dd: ${code}`))));
    });
  scene.steps.begin({ step, does: 'wait', until });
}

test('D9: a clone that does not end is given up, and not begun again for the same freeze', {
  skip: skipUnlessRoot,
}, async () => {
  const scene = await Scene.make('freeze-limit', 'xfs', { BLOCKDELTA_FREEZE_LIMIT_SECONDS: '3' });
  try {
    await scene.start();
    const { orchestrator } = scene;
    const { volume } = await scene.used('ext4');
    const { volume: other } = await scene.used('ext4');
    hold(scene, volume);
    const given = orchestrator.snapshot(volume, 'given up');
    await refused(given, 'ABORTED', new RegExp(`${volume.id}.*clone was not complete`));
    assert.ok(scene.steps.isReached);
    scene.steps.begin();
    await refused(orchestrator.snapshot(volume, 'given up'), 'FAILED_PRECONDITION', /extents/);
    const clone = orchestrator.create('no clone', { ...specOf('ext4'), volumeId: volume.id });
    await refused(clone, 'FAILED_PRECONDITION', /extents/);
    const froze = scene.steps.names.filter((name) => name.includes('guardian'));
    assert.deepEqual(froze, [], 'nothing was frozen');
    await orchestrator.snapshot(other);
    await scene.stop();
    // What it remembers ends with the process.
    await scene.start();
    await orchestrator.snapshot(volume, 'given up');
    writeFileSync(join(volume.targetPath, 'afterwards'), 'x', { flush: true });
  } finally {
    await scene.dispose();
  }
});

test('D9: a device whose flush does not end is given up, and its next snapshot is taken', {
  skip: skipUnlessRoot,
}, async () => {
  const scene = await Scene.make('freeze-flush', 'xfs', { BLOCKDELTA_FREEZE_LIMIT_SECONDS: '3' });
  try {
    await scene.start();
    const { volume } = await scene.used('ext4');
    hold(scene, volume, 'BLKFLSBUF /dev/<loop> #1');
    const given = scene.orchestrator.snapshot(volume, 'given up');
    await refused(given, 'ABORTED', new RegExp(`${volume.id}.*not flushed`));
    assert.ok(scene.steps.isReached);
    scene.steps.begin();
    await scene.orchestrator.snapshot(volume, 'given up');
  } finally {
    await scene.dispose();
  }
});

test("D9: a freeze ends at the caller's deadline, and a call with more time is served", {
  skip: skipUnlessRoot,
}, async () => {
  const scene = await Scene.make('freeze-deadline', 'xfs');
  try {
    await scene.start();
    const { volume } = await scene.used('ext4');
    const create = (deadlineMs: number) =>
      scene.client.controller.CreateSnapshot({ source_volume_id: volume.id, name: 'hurried' }, { deadlineMs });
    hold(scene, volume);
    assert.ok(LATE.includes(await statusOf(create(2000))));
    // It holds its name until its clone has ended.
    await refused(
      untilSettled(() => create(2000)),
      'FAILED_PRECONDITION',
      /extents/,
    );
    scene.steps.begin();
    await create(300_000);
  } finally {
    await scene.dispose();
  }
});

test('D17: a volume whose clone does not end is unpublished meanwhile, and the snapshot discards itself', {
  skip: skipUnlessRoot,
}, async () => {
  const scene = await Scene.make('freeze-unpublish', 'xfs');
  try {
    await scene.start();
    const { client, orchestrator, steps } = scene;
    const { volume } = await scene.used('ext4');
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => (end = resolve));
    steps.begin({ step: WHILE_FROZEN, does: 'wait', until: () => ended });
    const request = { source_volume_id: volume.id, name: 'abandoned' };
    const create = () => client.controller.CreateSnapshot(request, { deadlineMs: 4000 });
    assert.ok(LATE.includes(await statusOf(create())));
    assert.ok(steps.isReached);
    await untilSettled(() => orchestrator.unpublish(volume));
    await refused(orchestrator.delete(volume), 'ABORTED', /a copy of volume .* is pending/);
    end();
    await untilSettled(() => orchestrator.unstage(volume));
    steps.begin();
    await untilSettled(() => orchestrator.delete(volume));
    assert.deepEqual((await client.controller.ListSnapshots({}))['entries'], []);
  } finally {
    await scene.dispose();
  }
});
