/**
 * Traps that a pod leaves on its volume: set-user-ID programs and device nodes. The tests use them as a
 * user without privileges, on every path at which the volume is mounted.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, copyFileSync, openSync } from 'node:fs';
import { join } from 'node:path';
import type { VolumeRecord } from '../../src/driver/catalogue/records.js';
import { FILE_SYSTEMS } from '../../src/driver/host/file-systems.js';
import { topMount } from '../../src/driver/host/mounter.js';
import { useNode, XFS_SIZE } from '../integration/node/node-fixture.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';

const NOBODY = '65534';
const WRITER = 'SINGLE_NODE_WRITER';

const node = useNode('tenant-programs');
chmodSync(node.workspace.directory, 0o755);

interface InUse {
  volume: VolumeRecord;
  staging: string;
  target: string;
}

/** A volume that is staged so, where somebody has planted the traps as root in a pod would, and published. */
async function trapped(capability: Message): Promise<InUse> {
  const volume = await node.staged(capability, { sizeBytes: XFS_SIZE });
  const staging = node.stagingPath(volume.volumeId);
  plant(staging);
  chmodSync(staging, 0o755);
  await node.publish(volume, capability);
  return { volume, staging, target: node.targetPath(volume.volumeId) };
}

function plant(directory: string): void {
  copyFileSync('/usr/bin/id', join(directory, 'id'));
  chmodSync(join(directory, 'id'), 0o4755);
  execFileSync('mknod', [join(directory, 'null'), 'c', '1', '3']);
}

/** The effective user that a program planted there runs as, for a user without rights. */
function userAt(directory: string): string {
  const user = ['--reuid', NOBODY, '--regid', NOBODY, '--clear-groups'];
  const args = [...user, join(directory, 'id'), '-u'];
  return execFileSync('setpriv', args, { encoding: 'utf8' }).trim();
}

function opensDevice(directory: string): boolean {
  try {
    closeSync(openSync(join(directory, 'null'), 'r'));
    return true;
  } catch (thrown) {
    assert.equal((thrown as NodeJS.ErrnoException).code, 'EACCES');
    return false;
  }
}

const flags = async (path: string): Promise<string[]> =>
  ((await topMount(path))?.options ?? []).filter((option) => /^no(suid|dev)$/.test(option)).sort();

const ended = (volume: VolumeRecord): Promise<void> => node.cleared(volume, node.targetPath(volume.volumeId));

for (const type of FILE_SYSTEMS) {
  test(`H3: ${type}: a planted set-user-ID program runs without privileges and a planted device cannot be opened, on any path`, async () => {
    const { volume, staging, target } = await trapped(mountCapability(type));
    for (const path of [staging, target]) {
      assert.equal(userAt(path), NOBODY);
      assert.equal(opensDevice(path), false);
      assert.deepEqual(await flags(path), ['nodev', 'nosuid']);
    }
    await ended(volume);
  });
}

test('H3: suid in the capability applies to its own target only, and does not allow device nodes', async () => {
  const capability = mountCapability('ext4', WRITER, ['nosuid,suid', 'noatime']);
  const { volume, staging, target } = await trapped(capability);
  await node.publish(volume, capability);
  assert.equal(userAt(staging), NOBODY);
  assert.equal(userAt(target), '0');
  assert.equal(opensDevice(target), false);
  assert.deepEqual(await flags(staging), ['nodev', 'nosuid']);
  assert.deepEqual(await flags(target), ['nodev']);
  await node.unpublish(volume);
  await node.publish(volume, capability, { readonly: true });
  assert.deepEqual(await flags(target), ['nodev']);
  assert.equal((await topMount(target))?.readOnly, true);
  await ended(volume);
});

test('H3: suid of a StorageClass applies unless the capability has nosuid', async () => {
  for (const [own, asked, shown] of [
    ['suid', [], ['nodev']],
    ['suid', ['nosuid'], ['nodev', 'nosuid']],
    ['nosuid', ['suid'], ['nodev']],
  ] as const) {
    const capability = mountCapability('ext4', WRITER, [...asked]);
    const volume = await node.staged(capability, { parameters: { mountOptions: own } });
    await node.publish(volume, capability);
    assert.deepEqual(await flags(node.targetPath(volume.volumeId)), shown);
    assert.deepEqual(await flags(node.stagingPath(volume.volumeId)), ['nodev', 'nosuid']);
    await ended(volume);
  }
});

test('H3: dev is refused, and a raw device remains usable at its target', async () => {
  const volume = await node.makeVolume();
  const answer = node.stage(volume, mountCapability('ext4', WRITER, ['dev']));
  await refused(answer, 'INVALID_ARGUMENT', /mount_flags/);
  await node.stage(volume, blockCapability());
  await node.publish(volume, blockCapability());
  closeSync(openSync(node.targetPath(volume.volumeId), 'r+'));
  await ended(volume);
});
