/** NodeGetInfo, and what NodeGetVolumeStats says of usage and condition. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { nodeCapabilities, rpcCapabilities } from '../../../src/base/csi/capabilities.js';
import { nodeConditionOf } from '../../../src/driver/health/node-health.js';
import { blockCapability, mountCapability } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { NODE_CONFIG, SIZE, useNode } from './node-fixture.js';

const node = useNode('node-stats');
const { workspace } = node;

test('NV2, NV3, NV4: usage is told where a volume is staged or published, nowhere else', async () => {
  const stats = (volume_id: string, volume_path: string): Promise<Record<string, unknown>> =>
    node.call('NodeGetVolumeStats', { volume_id, volume_path });
  await refused(stats('', '/x'), 'INVALID_ARGUMENT', /volume_id/);
  await refused(stats('x', ''), 'INVALID_ARGUMENT', /volume_path/);
  await refused(stats('fake-vol-id', 'some/path'), 'NOT_FOUND');
  const volume = await node.staged();
  await node.publish(volume, mountCapability());
  const paths = [node.targetPath(volume.volumeId), node.stagingPath(volume.volumeId)];
  for (const path of paths) {
    const { usage } = await stats(volume.volumeId, path);
    const [bytes, inodes] = usage as Record<string, string>[];
    assert.equal(bytes?.['unit'], 'BYTES');
    assert.equal(inodes?.['unit'], 'INODES');
    const [total, used] = [BigInt(bytes?.['total'] ?? 0), BigInt(bytes?.['used'] ?? 0)];
    assert.ok(total > 0n && total <= SIZE && used < total);
    assert.ok(BigInt(inodes?.['used'] ?? 0) >= 11n);
  }
  for (const path of ['some/path', workspace.directory, `${paths[0]}/..`, '/no/such/path']) {
    await refused(stats(volume.volumeId, path), 'NOT_FOUND');
  }
  await node.unpublish(volume);
  await refused(stats(volume.volumeId, paths[0] ?? ''), 'NOT_FOUND');
  await node.cleared(volume, node.targetPath(volume.volumeId));
});

test('NV4: a raw volume reports its size', async () => {
  const volume = await node.staged(blockCapability());
  await node.publish(volume, blockCapability());
  const volume_id = volume.volumeId;
  for (const volume_path of [node.targetPath(volume_id), node.stagingPath(volume_id)]) {
    const answer = await node.call('NodeGetVolumeStats', { volume_id, volume_path });
    assert.deepEqual(answer, { usage: [{ total: SIZE.toString(), unit: 'BYTES' }] });
  }
  await node.cleared(volume, node.targetPath(volume.volumeId));
});

test('NI1, NI2, NI3, NI4, NI5: the node tells its capabilities, id, limit and topology', async () => {
  const { capabilities } = await node.call('NodeGetCapabilities', {});
  assert.deepEqual(capabilities, rpcCapabilities(nodeCapabilities(NODE_CONFIG)));
  for (let time = 0; time < 2; time += 1) {
    assert.deepEqual(await node.call('NodeGetInfo', {}), {
      node_id: 'test-node',
      max_volumes_per_node: '7',
      accessible_topology: { segments: { 'blockdelta.csi/node': 'test-node' } },
    });
  }
});

test('NV5: the condition of the volume is reported with its usage, up to CSI 1.12', async () => {
  const volume = await node.staged();
  const request = { volume_id: volume.volumeId, volume_path: node.stagingPath(volume.volumeId) };
  assert.equal((await node.call('NodeGetVolumeStats', request))['volume_condition'], undefined);
  const condition = { abnormal: true, message: 'a test says so' };
  node.conditionOf = async ({ volume }) => ({ ...condition, message: volume.volumeId });
  const told = await node.call('NodeGetVolumeStats', request);
  assert.deepEqual(told['volume_condition'], { abnormal: true, message: volume.volumeId });
  assert.equal((told['usage'] as unknown[]).length, 2);
  node.config = { ...NODE_CONFIG, csiLevel: '1.13' };
  assert.equal((await node.call('NodeGetVolumeStats', request))['volume_condition'], undefined);
  node.config = NODE_CONFIG;
  delete node.conditionOf;
  await node.unstage(volume);
});

test('the log line of a routine call has no note, but that a device is used with direct I/O', async () => {
  const volume = await node.staged();
  await node.publish(volume, mountCapability());
  const volume_path = node.targetPath(volume.volumeId);
  await node.call('NodeGetVolumeStats', { volume_id: volume.volumeId, volume_path });
  await node.cleared(volume, node.targetPath(volume.volumeId));
  for (const note of node.notes) assert.deepEqual(Object.keys(note), ['directIo']);
});

test('NV4, NV5: a file system that does not respond is reported without its usage', async () => {
  const volume = await node.staged();
  const fifo = join(node.stagingPath(volume.volumeId), 'fifo');
  const volume_path = node.targetPath('silent');
  // Opening a pipe to read waits until somebody opens it to write, as a dead disk does for ever.
  execFileSync('mkfifo', [fifo]);
  writeFileSync(volume_path, '');
  execFileSync('mount', ['--bind', fifo, volume_path]);
  const ask = () => node.call('NodeGetVolumeStats', { volume_id: volume.volumeId, volume_path });
  try {
    // More than there are threads to wait with.
    const answers = await Promise.all(Array.from({ length: 12 }, ask));
    for (const answer of answers) assert.deepEqual(answer, { usage: [] });
    const condition = { abnormal: true, message: 'it does not answer' };
    node.conditionOf = async () => condition;
    // Orchestrators want some usage with a condition.
    const size = { unit: 'BYTES', total: SIZE.toString() };
    assert.deepEqual(await ask(), { usage: [size], volume_condition: condition });
  } finally {
    delete node.conditionOf;
    await (await open(fifo, 'w')).close();
    // Busy until the question that had waited has closed the pipe.
    await eventually('the pipe is unmounted', () => spawnSync('umount', [volume_path]).status === 0);
    rmSync(volume_path);
    rmSync(fifo);
  }
  await node.unstage(volume);
});

test('NV5: many conditions are reported from one probe of the pool', async (t) => {
  const volume = await node.staged();
  const { catalogue, backendOf } = node.deps;
  const capacity = t.mock.method(node.backend, 'capacity');
  const found = t.mock.method(node.backend.attachments, 'find');
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  node.conditionOf = nodeConditionOf({ native: node.native, catalogue, backendOf });
  const request = { volume_id: volume.volumeId, volume_path: node.stagingPath(volume.volumeId) };
  for (const looks of [1, 2]) {
    for (let time = 0; time < 5; time += 1) {
      const { volume_condition } = await node.call('NodeGetVolumeStats', request);
      assert.deepEqual(volume_condition, { abnormal: false, message: 'the volume is healthy' });
    }
    assert.equal(capacity.mock.callCount(), looks);
    assert.equal(found.mock.callCount(), 5 * looks, 'the device is looked for once a call');
    now += 1001;
  }
  delete node.conditionOf;
  await node.unstage(volume);
});
