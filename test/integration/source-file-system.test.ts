/** CreateVolume from a source that holds another file system than the one requested. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB, type VolumeSpec } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('source-type', { pools: { main: 'xfs' }, poolSizeMiB: 2048 });
const { orchestrator } = running;
const SIZE = 320 * MIB;

/** A volume that was staged with that capability once. */
async function used(name: string, capability: Message): Promise<HeldVolume> {
  const volume = await orchestrator.create(name, { capability, sizeBytes: SIZE });
  await useOnce(volume);
  return volume;
}

const copied = (name: string, capability: Message, source: Partial<VolumeSpec>) =>
  orchestrator.create(name, { capability, sizeBytes: SIZE, ...source });

async function useOnce(volume: HeldVolume): Promise<void> {
  await orchestrator.bringUp(volume);
  await orchestrator.takeDown(volume);
}

test('a copy for another file system is INVALID_ARGUMENT, and both are named', async () => {
  const types = ['ext4', 'xfs', 'btrfs'];
  for (const [index, held] of types.entries()) {
    const asked = types[(index + 1) % 3] ?? '';
    const volume = await used(held, mountCapability(held));
    const snapshotId = await orchestrator.snapshot(volume, held);
    const message = new RegExp(
      `^volume_capabilities\\[0\\].mount.fs_type is '${asked}' and (volume|snapshot) .* holds ${held}: `,
    );
    for (const source of [{ snapshotId }, { volumeId: volume.id }]) {
      const copy = copied(`${held} as ${asked}`, mountCapability(asked), source);
      await refused(copy, 'INVALID_ARGUMENT', message);
    }
    assert.deepEqual(await orchestrator.volumeIds(), [volume.id], 'nothing was made');
    await orchestrator.deleteSnapshot(snapshotId);
    await orchestrator.delete(volume);
  }
});

test('a copy for the same file system, for any, or as a raw device is made', async () => {
  // The volume asks for none, so the record does not say what it holds.
  const volume = await used('default', mountCapability(''));
  const snapshotId = await orchestrator.snapshot(volume, 'default');
  const copies = [
    await copied('same', mountCapability('ext4'), { snapshotId }),
    await copied('any', mountCapability(''), { snapshotId }),
    await copied('raw', blockCapability(), { snapshotId }),
  ];
  for (const copy of copies.slice(0, 2)) await useOnce(copy);
  const again = copied('copy of a copy', mountCapability('xfs'), { volumeId: copies[1]?.id ?? '' });
  await refused(again, 'INVALID_ARGUMENT', /holds ext4/);
  for (const each of [...copies, volume]) await orchestrator.delete(each);
  await orchestrator.deleteSnapshot(snapshotId);
});

test('what was never written to, and what was written as a raw device, decides nothing', async () => {
  const pristine = await orchestrator.create('pristine', {
    capability: mountCapability('ext4'),
    sizeBytes: SIZE,
  });
  const raw = await orchestrator.create('raw', { sizeBytes: SIZE });
  execFileSync('mkfs.ext4', ['-q', '-F', await orchestrator.bringUp(raw)]);
  await orchestrator.takeDown(raw);
  const first = await copied('of pristine', mountCapability('xfs'), { volumeId: pristine.id });
  await useOnce(first);
  const second = await copied('of raw', mountCapability('xfs'), { volumeId: raw.id });
  await refused(orchestrator.stage(second), 'FAILED_PRECONDITION', /nothing was formatted/);
  for (const each of [pristine, raw, first, second]) await orchestrator.delete(each);
});
