/** Volumes that are made from a snapshot to be read by any number of workloads of their node: MULTI_NODE_READER_ONLY. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeviceReadOnly } from '../../../src/base/system/device-attributes.js';
import { majorOf, minorOf } from '../../../src/base/system/mountinfo.js';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { loopsOf } from '../../support/loops.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';
import { writeAt } from '../../support/write-at.js';

const MODE = 'MULTI_NODE_READER_ONLY';
const SIZES = { ext4: 32, xfs: 320, btrfs: 256 } as const;

const running = runPlugin('readers', { pools: { xfs: 'xfs', btrfs: 'btrfs' }, poolSizeMiB: 2048 });
const { orchestrator } = running;

/** Two publications of the volume, which go with it. */
async function publishTwice(volume: HeldVolume): Promise<string[]> {
  await orchestrator.stage(volume);
  const targets = [orchestrator.target(volume.id, 'one'), orchestrator.target(volume.id, 'two')];
  for (const target of targets) await orchestrator.publish(volume, { target });
  return targets;
}

async function remove(volume: HeldVolume, targets: readonly string[]): Promise<void> {
  for (const target of targets) await orchestrator.unpublish(volume, target);
  await orchestrator.unstage(volume);
  await orchestrator.delete(volume);
}

async function isProtected(devicePath: string): Promise<boolean> {
  const { rdev } = statSync(devicePath);
  return isDeviceReadOnly({ major: majorOf(rdev), minor: minorOf(rdev) });
}

const make = (snapshotId: string, pool: string, capability: Message, sizeBytes: number): Promise<HeldVolume> =>
  orchestrator.create(`readers of ${snapshotId}`, { snapshotId, sizeBytes, capability, parameters: { pool } });

for (const [pool, type] of [
  ['xfs', 'ext4'],
  ['btrfs', 'xfs'],
  ['xfs', 'btrfs'],
] as const) {
  test(`several pods read an ${type} that was in use when its snapshot was taken, beside its source, and none writes`, async () => {
    const sizeBytes = SIZES[type] * MIB;
    const source = await orchestrator.create(type, {
      sizeBytes,
      capability: mountCapability(type),
      parameters: { pool },
    });
    const path = await orchestrator.bringUp(source);
    const content = seededRandom(type).bytes(MIB);
    mkdirSync(join(path, 'directory'));
    writeFileSync(join(path, 'directory', 'file'), content);
    const snapshotId = await orchestrator.snapshot(source);
    const volume = await make(snapshotId, pool, mountCapability(type, MODE), sizeBytes);
    for (let round = 0; round < 2; round += 1) {
      const targets = await publishTwice(volume);
      for (const target of targets) {
        assert.ok(readFileSync(join(target, 'directory', 'file')).equals(content));
        assert.throws(() => writeFileSync(join(target, 'another'), ''), { code: 'EROFS' });
      }
      const writer = { ...volume, capability: mountCapability(type) };
      await refused(orchestrator.publish(writer), 'FAILED_PRECONDITION', /is used with no other one/);
      const [device = ''] = loopsOf(running.poolPath(pool, 'volumes', volume.id));
      assert.equal(await isProtected(device), true);
      // As after a kill between the mount and that setting.
      await orchestrator.stage(volume);
      for (const target of targets) await orchestrator.unpublish(volume, target);
      assert.equal(await isProtected(device), true);
      await orchestrator.unstage(volume);
    }
    await orchestrator.delete(volume);
    await orchestrator.remove(source);
    await orchestrator.deleteSnapshot(snapshotId);
    assert.deepEqual(running.held(), NOTHING);
  });
}

test('several pods read a raw volume, and the device refuses writes until the volume is deleted', async () => {
  const source = await orchestrator.create('raw', { sizeBytes: 8 * MIB, parameters: { pool: 'xfs' } });
  const content = seededRandom('raw').bytes(MIB);
  writeAt(await orchestrator.bringUp(source), 0, content);
  const snapshotId = await orchestrator.snapshot(source);
  const readers = { ...source, capability: blockCapability(MODE) };
  await refused(orchestrator.stage(readers), 'FAILED_PRECONDITION', /is for volumes that were made with it/);
  const volume = await make(snapshotId, 'xfs', readers.capability, 8 * MIB);
  await refused(
    orchestrator.stage({ ...volume, capability: blockCapability() }),
    'FAILED_PRECONDITION',
    /no other one/,
  );
  const targets = await publishTwice(volume);
  for (const target of targets) {
    assert.ok(readFileSync(target).subarray(0, MIB).equals(content));
    assert.throws(() => writeAt(target, 0, content), { code: 'EPERM' });
  }
  await remove(volume, targets);
  await orchestrator.remove(source);
  await orchestrator.deleteSnapshot(snapshotId);
  assert.deepEqual(running.held(), NOTHING);
});
