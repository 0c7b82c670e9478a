/**
 * NodeGetVolumeStats of volumes whose pool or file disappears while they are in use. Up to CSI 1.12
 * this is the only RPC that reports the node's conditions.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('health-stats', { pools: { main: 'xfs' }, poolSizeMiB: 512 });
const { orchestrator } = running;

const stats = (volume: HeldVolume, volume_path: string): Promise<Message> =>
  running.client.node.NodeGetVolumeStats({ volume_id: volume.id, volume_path });

async function inUse(): Promise<{ mounted: HeldVolume; raw: HeldVolume }> {
  const capability = mountCapability('ext4');
  const mounted = await orchestrator.create('mounted', { capability, sizeBytes: 32 * MIB });
  const raw = await orchestrator.create('raw', { capability: blockCapability() });
  for (const volume of [mounted, raw]) await orchestrator.bringUp(volume);
  return { mounted, raw };
}

/** Wherever they are in use, and nowhere else. */
async function bothTell(
  { mounted, raw }: { mounted: HeldVolume; raw: HeldVolume },
  expected: RegExp | null,
): Promise<void> {
  for (const volume of [mounted, raw]) {
    for (const path of [volume.stagingPath, volume.targetPath]) {
      const { usage, volume_condition } = await stats(volume, path);
      assert.equal(volume_condition.abnormal, expected !== null, path);
      if (expected !== null) assert.match(volume_condition.message, expected);
      const units = usage.map(({ unit }: Message) => String(unit));
      assert.deepEqual(units, volume === raw ? ['BYTES'] : ['BYTES', 'INODES']);
      for (const { total } of usage) assert.ok(BigInt(total) > 0n);
    }
    const other = volume === raw ? mounted : raw;
    for (const path of [other.targetPath, other.stagingPath, running.workspace.directory, '/no']) {
      await refused(stats(volume, path), 'NOT_FOUND', /neither staged nor published/);
    }
  }
}

test('volumes whose pool is unavailable report that, and their usage', async () => {
  const volumes = await inUse();
  await bothTell(volumes, null);
  renameSync(running.poolPath('main', 'volumes'), running.poolPath('main', 'away'));
  try {
    await bothTell(volumes, /^PoolUnreachable: /);
  } finally {
    renameSync(running.poolPath('main', 'away'), running.poolPath('main', 'volumes'));
  }
  await bothTell(volumes, null);
  for (const volume of Object.values(volumes)) {
    await orchestrator.takeDown(volume);
    await refused(stats(volume, volume.targetPath), 'NOT_FOUND');
    await orchestrator.delete(volume);
  }
});

test('volumes whose file was removed report that, and their usage', async () => {
  const volumes = await inUse();
  for (const { id } of Object.values(volumes)) rmSync(running.poolPath('main', 'volumes', id));
  await bothTell(volumes, /^BackingFileDeleted: /);
  for (const volume of Object.values(volumes)) {
    await orchestrator.takeDown(volume);
    for (const path of [volume.targetPath, volume.stagingPath]) {
      await refused(stats(volume, path), 'NOT_FOUND');
    }
    const list = execFileSync('losetup', ['-n', '-O', 'NAME,BACK-FILE'], { encoding: 'utf8' });
    const line = list.split('\n').find((found) => found.includes(volume.id));
    execFileSync('losetup', ['-d', line?.split(' ')[0] ?? assert.fail('its device is gone')]);
    await orchestrator.delete(volume);
  }
});
