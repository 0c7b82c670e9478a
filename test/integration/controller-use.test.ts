/** What the controller's calls mean for volumes in use: DeleteVolume is refused, read-only publications are kept. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { mountCapability } from '../support/csi-client.js';
import { MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('controller-use', {
  pools: { main: 'xfs' },
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
});
const { orchestrator } = running;
const pool = (...names: string[]): string => running.poolPath('main', ...names);

test('CP8: a volume that the controller published read-only cannot be written to on the node', async () => {
  const volume = await orchestrator.create('reading');
  const request = {
    ...{ volume_id: volume.id, node_id: 'test-node', volume_capability: volume.capability },
  };
  const write = (): void =>
    writeFileSync(volume.targetPath, 'written', { flag: 'r+', flush: true });
  for (const readonly of [true, false]) {
    await running.client.controller.ControllerPublishVolume({ ...request, readonly });
    await orchestrator.bringUp(volume);
    if (readonly) assert.throws(write, /EPERM|EACCES|EROFS|EIO/);
    else write();
    await orchestrator.takeDown(volume);
    await orchestrator.controllerUnpublish(volume);
  }
  await orchestrator.delete(volume);
});

test('DV3: a staged volume is FAILED_PRECONDITION, names the path and stays as it is', async () => {
  const spec = { capability: mountCapability('ext4'), sizeBytes: 16 * MIB };
  const volume = await orchestrator.create('in use', spec);
  await orchestrator.stage(volume);
  const message = await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION');
  assert.ok(message.includes(volume.stagingPath), message);
  await orchestrator.publish(volume);
  writeFileSync(join(volume.targetPath, 'file'), 'content');
  await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', /in use/);
  assert.equal(readFileSync(join(volume.targetPath, 'file'), 'utf8'), 'content');
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('DV3: a published block volume is FAILED_PRECONDITION, even if no process has it open', async () => {
  const volume = await orchestrator.create('block in use');
  await orchestrator.bringUp(volume);
  await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', /in use/);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('DV3: a volume that another process holds open is FAILED_PRECONDITION and is not deleted later', async () => {
  const volume = await orchestrator.create('held', { sizeBytes: 16 * MIB });
  const file = pool('volumes', volume.id);
  const directory = running.workspace.path('held');
  mkdirSync(directory);
  execFileSync('mkfs.ext4', ['-q', '-F', file]);
  execFileSync('mount', ['-o', 'loop', file, directory]);
  await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', /in use/);
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
  execFileSync('umount', [directory]);
  await running.restart();
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
  await orchestrator.delete(volume);
});
