/**
 * A state directory that is older than the pool beside it, as after a restore from a backup: what it calls
 * pristine may contain data by now, and is never formatted.
 */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
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
