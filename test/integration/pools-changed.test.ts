/**
 * A state directory that is older than the pool beside it, as after a restore from a backup: what it calls
 * pristine may contain data by now, and is never formatted. And a pool that others have changed.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { confirmObjects, foundObjects } from '../../src/volumes/unknown-objects.js';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { seededBytes } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('changed', { pools: { main: 'xfs' } });
const { orchestrator } = running;
const content = seededBytes('older catalogue', 65536);
const code = 'FAILED_PRECONDITION';

/** Ends the plugin, does the work on its state directory, and starts it again. */
async function whileStopped(work: (state: string, backup: string) => void): Promise<void> {
  const { workspace } = running;
  assert.equal(await running.plugin.stop(), 0);
  work(workspace.path('plugin'), workspace.path('backup'));
  await running.start();
}

/** Used as a device, which then begins with the content: no known signature. */
async function assertRaw(volume: HeldVolume): Promise<void> {
  const held = { ...volume, capability: blockCapability() };
  const found = readFileSync(await orchestrator.bringUp(held)).subarray(0, content.length);
  assert.deepEqual(found, content);
  await orchestrator.takeDown(held);
}

test('what a restored catalogue calls pristine is not formatted, nor are its copies', async () => {
  const files = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };
  const mounted = await orchestrator.create('mounted', files);
  const raw = await orchestrator.create('raw', { sizeBytes: 16 * MIB });
  const untouched = await orchestrator.create('untouched', files);
  await whileStopped((state, backup) => cpSync(state, backup, { recursive: true }));
  writeFileSync(join(await orchestrator.bringUp(mounted), 'data'), content, { flush: true });
  await orchestrator.takeDown(mounted);
  writeFileSync(await orchestrator.bringUp(raw), content, { flag: 'r+', flush: true });
  await orchestrator.takeDown(raw);
  await whileStopped((state, backup) => {
    rmSync(state, { recursive: true });
    cpSync(backup, state, { recursive: true });
  });

  const snapshotId = await orchestrator.snapshot(raw, 'snapshot');
  const clone = await orchestrator.create('clone', { sizeBytes: 16 * MIB, volumeId: raw.id });
  const restored = await orchestrator.create('restored', { sizeBytes: 16 * MIB, snapshotId });
  for (const volume of [raw, clone, restored]) {
    const staged = orchestrator.stage({ ...volume, capability: files.capability });
    await refused(staged, code, /was used before .*nothing was formatted/);
    const file = readFileSync(running.poolPath('main', 'volumes', volume.id));
    assert.deepEqual(file.subarray(0, content.length), content);
    await assertRaw(volume);
  }
  const otherwise = orchestrator.stage({ ...mounted, capability: mountCapability('xfs') });
  await refused(otherwise, code, /type ext4.*nothing was formatted/);
  assert.deepEqual(readFileSync(join(await orchestrator.bringUp(mounted), 'data')), content);
  await orchestrator.bringUp(untouched);
  for (const volume of [mounted, untouched]) await orchestrator.takeDown(volume);
  for (const volume of [raw, clone, restored, mounted, untouched])
    await orchestrator.delete(volume);
  await orchestrator.deleteSnapshot(snapshotId);
});

test('changes made while the plugin was stopped are reported and not touched', async () => {
  const poolPath = (...names: string[]): string => running.poolPath('main', ...names);
  const volumes: HeldVolume[] = [];
  for (const name of ['lost', 'cut', 'whole']) volumes.push(await orchestrator.create(name));
  const [lost, cut, whole] = volumes as [HeldVolume, HeldVolume, HeldVolume];
  const snapshotId = await orchestrator.snapshot(whole, 'lost');
  const strange = 'vol-0123456789ab-00000000-0000-0000-0000-000000000000';
  await whileStopped(() => {
    rmSync(poolPath('volumes', lost.id));
    execFileSync('truncate', ['-s', '4M', poolPath('volumes', cut.id)]);
    execFileSync('chattr', ['-i', poolPath('snapshots', snapshotId)]);
    rmSync(poolPath('snapshots', snapshotId));
    for (const name of [strange, 'notes.txt', `${strange}.tmp`]) {
      writeFileSync(poolPath('volumes', name), 'x');
    }
  });

  const { differences, undone } = startReport(running.plugin.log);
  assert.deepEqual(
    [...differences].sort(),
    [
      `pool 'main' has lost ${lost.id}`,
      `pool 'main' has lost ${snapshotId}`,
      `pool 'main' holds ${poolPath('volumes', 'notes.txt')}, which blockdelta did not create`,
      `pool 'main' holds ${strange}, which the catalogue does not know`,
      `pool 'main': ${cut.id} has ${4 * MIB} bytes and should have ${8 * MIB}`,
    ].sort(),
  );
  assert.deepEqual(undone, [`temporary file ${strange}.tmp in pool 'main'`]);
  assert.match(running.plugin.log, /"level":"warn"/);
  for (const name of [strange, 'notes.txt', whole.id]) {
    assert.ok(existsSync(poolPath('volumes', name)), `${name} was removed`);
  }
  await refused(orchestrator.stage(lost), code, /has lost its file/);
  await refused(running.client.allocated(snapshotId), code, /has lost its file/);
  await refused(orchestrator.create('more'), code, new RegExp(`has lost rows.*${strange}`));

  const state = running.workspace.path('plugin');
  await confirmObjects(state, await foundObjects(state));
  await running.restart();
  await refused(orchestrator.snapshot(lost, 'of lost'), code, /has lost its file/);
  await refused(orchestrator.create('from lost', { snapshotId }), code, /lost/);
  assert.deepEqual((await orchestrator.volumeIds()).sort(), volumes.map(({ id }) => id).sort());
  for (const volume of volumes) await orchestrator.delete(volume);
  await orchestrator.deleteSnapshot(snapshotId);
});
