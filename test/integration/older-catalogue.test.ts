/**
 * A state directory that is older than the pool beside it, as after a restore from a backup: what it
 * calls pristine may contain data by now, and is never formatted.
 */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { seededBytes } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('older', { pools: { main: 'xfs' } });
const { orchestrator } = running;
const content = seededBytes('older catalogue', 65536);

/** Ends the plugin, does the work on its state directory, and starts it again. */
async function whileStopped(work: (state: string, backup: string) => void): Promise<void> {
  const { workspace } = running;
  assert.equal(await running.plugin.stop(), 0);
  work(workspace.path('plugin'), workspace.path('backup'));
  await running.start();
}

const backUp = (): Promise<void> =>
  whileStopped((state, backup) => cpSync(state, backup, { recursive: true }));

const putBack = (): Promise<void> =>
  whileStopped((state, backup) => {
    rmSync(state, { recursive: true });
    cpSync(backup, state, { recursive: true });
    rmSync(backup, { recursive: true });
  });

/** Bytes without a known signature, which must not be formatted either. */
async function writeRaw(volume: HeldVolume): Promise<void> {
  writeFileSync(await orchestrator.bringUp(volume), content, { flag: 'r+', flush: true });
  await orchestrator.takeDown(volume);
}

const stored = ({ id }: HeldVolume): Buffer =>
  readFileSync(running.poolPath('main', 'volumes', id)).subarray(0, content.length);

test('volumes that a restored catalogue calls pristine keep their data, mounted or raw', async () => {
  const capability = mountCapability('ext4');
  const mounted = await orchestrator.create('mounted', { capability, sizeBytes: 32 * MIB });
  const raw = await orchestrator.create('raw', { sizeBytes: 16 * MIB });
  const untouched = await orchestrator.create('untouched', { capability, sizeBytes: 16 * MIB });
  await backUp();
  writeFileSync(join(await orchestrator.bringUp(mounted), 'data'), content, { flush: true });
  await orchestrator.takeDown(mounted);
  await writeRaw(raw);
  await putBack();
  assert.deepEqual(readFileSync(join(await orchestrator.bringUp(mounted), 'data')), content);
  const found = readFileSync(await orchestrator.bringUp(raw)).subarray(0, content.length);
  assert.deepEqual(found, content);
  await orchestrator.bringUp(untouched);
  for (const volume of [mounted, raw, untouched]) {
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
});

test('a raw volume that a restored catalogue calls pristine is formatted by no other access, nor are its copies', async () => {
  const capability = mountCapability('ext4');
  const raw = await orchestrator.create('raw', { sizeBytes: 16 * MIB });
  const mounted = await orchestrator.create('mounted', { capability, sizeBytes: 32 * MIB });
  await backUp();
  await writeRaw(raw);
  await orchestrator.bringUp(mounted);
  await orchestrator.takeDown(mounted);
  await putBack();
  const snapshotId = await orchestrator.snapshot(raw, 'snapshot');
  const clone = await orchestrator.create('clone', { sizeBytes: 16 * MIB, volumeId: raw.id });
  const restored = await orchestrator.create('restored', { sizeBytes: 16 * MIB, snapshotId });
  for (const volume of [raw, clone, restored]) {
    const staged = orchestrator.stage({ ...volume, capability });
    await refused(staged, 'FAILED_PRECONDITION', /was used before .*nothing was formatted/);
    assert.deepEqual(stored(volume), content);
    const held = { ...volume, capability: blockCapability() };
    const found = readFileSync(await orchestrator.bringUp(held)).subarray(0, content.length);
    assert.deepEqual(found, content);
    await orchestrator.takeDown(held);
  }
  const otherwise = orchestrator.stage({ ...mounted, capability: mountCapability('xfs') });
  await refused(otherwise, 'FAILED_PRECONDITION', /type ext4.*nothing was formatted/);
  for (const volume of [raw, clone, restored, mounted]) await orchestrator.delete(volume);
  await orchestrator.deleteSnapshot(snapshotId);
});
