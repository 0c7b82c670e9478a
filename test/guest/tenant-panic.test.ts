/** An ext4 that asks the kernel to panic and has an error in it. Only a guest can test this safely. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { useNode } from '../integration/node/node-fixture.js';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { NOTHING } from '../support/running-plugin.js';
import { isGuest, test } from './guest.js';

const node = useNode('tenant-panic', isGuest);

/** As a tenant with a raw volume would: fsck -p believes a clean file system, `ls` does not. */
function craft(device: string): void {
  execFileSync('mkfs.ext4', ['-F', '-q', '-e', 'panic', device]);
  for (const request of ['mkdir trap', 'set_inode_field trap block[0] 0x12345678']) {
    execFileSync('debugfs', ['-w', '-R', request, device], { stdio: 'ignore' });
  }
}

test('H1: a crafted ext4 that asks for a panic becomes read-only, and the node keeps running', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, blockCapability());
  craft(await node.attachedPath(volume));
  await node.unstage(volume);
  const sourceSnapshotId = await node.snapshot(volume);
  const restored = await node.makeVolume({ sourceSnapshotId, pristine: false });
  for (const one of [volume, restored]) {
    await node.stage(one, mountCapability('ext4'));
    const staging = node.stagingPath(one.volumeId);
    writeFileSync(join(staging, 'before'), '');
    assert.throws(() => readdirSync(join(staging, 'trap')), /-117|EUCLEAN|EIO/);
    assert.throws(() => writeFileSync(join(staging, 'after'), ''), /EROFS|EIO/);
    await node.unstage(one);
  }
  assert.deepEqual(node.held(), NOTHING);
});
