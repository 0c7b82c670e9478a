/** DeleteVolume, and that ids of any form are unknown ids and never paths. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { mountCapability } from '../support/csi-client.js';
import { MIB } from '../support/orchestrator.js';
import { TEST_NODE_KEY } from '../support/records.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { snapshotFiles } from '../support/snapshot-files.js';

const FOREIGN_IDS: readonly string[] = [
  'fake-vol-id-0123456789',
  'none-exist-id',
  `vol-${TEST_NODE_KEY}-00000000-0000-0000-0000-000000000000`,
  `snap-${TEST_NODE_KEY}-00000000-0000-0000-0000-000000000000`,
  'vol-',
  '/',
  '.',
  '..',
  '../pool-id',
  '../../../../etc/passwd',
  '/etc/passwd',
  'a/b',
  "' OR 1=1 --",
  '%s%n',
  'a\nb',
  'a b',
  'VOL-0123456789AB-00000000-0000-0000-0000-000000000000',
  '__proto__',
  'constructor',
  '🗄️',
  'i'.repeat(128),
];

const running = runPlugin('delete', { pools: { main: 'xfs' } });
const { orchestrator } = running;
const controller = () => running.client.controller;
const pool = (...names: string[]): string => running.poolPath('main', ...names);

test('DV1: a request without an id is INVALID_ARGUMENT', async () => {
  await refused(controller().DeleteVolume({}), 'INVALID_ARGUMENT', /^volume_id /);
});

test('DS1: a request without a snapshot id is INVALID_ARGUMENT', async () => {
  await refused(controller().DeleteSnapshot({}), 'INVALID_ARGUMENT', /^snapshot_id /);
});

for (const id of FOREIGN_IDS) {
  const shown = JSON.stringify(id.length > 60 ? `${id.slice(0, 20)}...` : id);
  test(`DV2, DS2, VV2, CV11, CS4: ${shown} is an unknown id and touches no file`, async () => {
    const before = readFileSync('/etc/passwd');
    await controller().DeleteVolume({ volume_id: id });
    await controller().DeleteSnapshot({ snapshot_id: id });
    const capabilities = [mountCapability()];
    const validate = { volume_id: id, volume_capabilities: capabilities };
    await refused(controller().ValidateVolumeCapabilities(validate), 'NOT_FOUND');
    const restore = {
      name: 'restore',
      volume_capabilities: capabilities,
      volume_content_source: { snapshot: { snapshot_id: id } },
    };
    await refused(controller().CreateVolume(restore), 'NOT_FOUND');
    const snapshot = { source_volume_id: id, name: 'snapshot' };
    await refused(controller().CreateSnapshot(snapshot), 'NOT_FOUND');
    assert.deepEqual(readFileSync('/etc/passwd'), before);
    assert.ok(existsSync(pool('pool-id')));
  });
}

test('G6: an id of 129 bytes is INVALID_ARGUMENT', async () => {
  const id = 'i'.repeat(129);
  await refused(controller().DeleteVolume({ volume_id: id }), 'INVALID_ARGUMENT', /128/);
  await refused(controller().DeleteSnapshot({ snapshot_id: id }), 'INVALID_ARGUMENT', /128/);
});

test('DV2: a volume deleted once can be deleted again, also after a restart', async () => {
  const volume = await orchestrator.create('twice');
  await orchestrator.delete(volume);
  await orchestrator.delete(volume);
  await running.restart();
  await orchestrator.delete(volume);
  assert.deepEqual(readdirSync(pool('volumes')), []);
});

test('DV2: the id of a snapshot deletes no volume, the id of a volume no snapshot', async () => {
  const volume = await orchestrator.create('kinds');
  const snapshotId = await orchestrator.snapshot(volume, 'kinds');
  await controller().DeleteVolume({ volume_id: snapshotId });
  await controller().DeleteSnapshot({ snapshot_id: volume.id });
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
  assert.deepEqual(await orchestrator.snapshotIds(), [snapshotId]);
  await orchestrator.deleteSnapshot(snapshotId);
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

test('DV4: snapshots of a deleted volume stay listed, restorable and deletable', async () => {
  const volume = await orchestrator.create('lineage');
  const snapshotId = await orchestrator.snapshot(volume, 'lineage');
  await orchestrator.delete(volume);
  const { entries } = await controller().ListSnapshots({ source_volume_id: volume.id });
  assert.equal(entries[0].snapshot.snapshot_id, snapshotId);
  const restored = await orchestrator.create('from lineage', { snapshotId });
  const { ranges } = await running.client.allocated(snapshotId);
  assert.deepEqual(ranges, []);
  await running.restart();
  const again = await orchestrator.create('from lineage', { snapshotId });
  assert.equal(again.id, restored.id);
  await orchestrator.deleteSnapshot(snapshotId);
  await orchestrator.delete(restored);
  assert.deepEqual(snapshotFiles(pool('snapshots')), []);
});

test('DV4: the name of a deleted volume with snapshots is free for another volume', async () => {
  const first = await orchestrator.create('again');
  const snapshotId = await orchestrator.snapshot(first, 'again');
  await orchestrator.delete(first);
  const second = await orchestrator.create('again', { sizeBytes: 9 * MIB });
  assert.notEqual(second.id, first.id);
  const { entries } = await controller().ListSnapshots({ source_volume_id: second.id });
  assert.deepEqual(entries, []);
  await orchestrator.deleteSnapshot(snapshotId);
  await orchestrator.delete(second);
});

test('DV6: repeating a deletion that failed half way completes it', async () => {
  const volume = await orchestrator.create('half way');
  await orchestrator.stage(volume);
  await orchestrator.unstage(volume);
  await orchestrator.delete(volume);
  assert.ok(!existsSync(pool('volumes', volume.id)));
  assert.deepEqual(await orchestrator.volumeIds(), []);
});
