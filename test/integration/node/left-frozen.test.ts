/** A file system that a backup program's hook has frozen: kept as it is between its hooks, thawed when nobody else can. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach } from 'node:test';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { describeHolders, isHeldExclusively } from '../../../src/driver/host/device-holders.js';
import { FILE_SYSTEMS } from '../../../src/driver/host/file-systems.js';
import { end } from '../../support/child-processes.js';
import { type Message, mountCapability } from '../../support/csi-client.js';
import { freeze, isFrozen, thaw, thawUnmounted } from '../../support/freeze.js';
import { copyMountNamespace } from '../../support/mount-namespace.js';
import { namesHolder } from '../../support/refusal.js';
import { NOTHING, test } from '../../support/running-plugin.js';
import { useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('left-frozen');

const capabilityOf = (type: string): Message => mountCapability(type, 'SINGLE_NODE_MULTI_WRITER');

async function frozen(type: string): Promise<VolumeRecord> {
  const volume = await node.staged(capabilityOf(type), { sizeBytes: XFS_SIZE });
  await node.publish(volume, capabilityOf(type));
  freeze(node.targetPath(volume.volumeId));
  return volume;
}

/** Staged and published again, it can be written to. */
async function usableAgain(volume: VolumeRecord, type: string): Promise<void> {
  const target = node.targetPath(volume.volumeId);
  await node.stage(volume, capabilityOf(type));
  assert.ok(!isFrozen(node.stagingPath(volume.volumeId)));
  await node.publish(volume, capabilityOf(type));
  writeFileSync(join(target, 'again'), 'written', { flush: true });
  await node.cleared(volume, target);
}

/** As an operator, a kubelet or a plugin that is killed in between may do it. */
function unmountAll({ volumeId }: VolumeRecord): void {
  for (const path of [node.targetPath(volumeId), node.stagingPath(volumeId)]) {
    execFileSync('umount', [path]);
  }
}

/** What a failed test leaves would keep the pool mounted. */
afterEach(() => node.held().loops.forEach(thawUnmounted));

for (const type of FILE_SYSTEMS) {
  test(`${type} stays frozen between the hooks, whatever is staged, published or unpublished again`, async () => {
    const volume = await frozen(type);
    const { volumeId } = volume;
    const [target, second] = [node.targetPath(volumeId), node.targetPath(`${volumeId}-2`)];
    await node.stage(volume, capabilityOf(type));
    await node.publish(volume, capabilityOf(type));
    await node.publish(volume, capabilityOf(type), { target_path: second });
    assert.ok(isFrozen(second));
    await node.unpublish(volume, { target_path: second });
    assert.ok(isFrozen(target));
    thaw(target);
    await node.cleared(volume, target);
  });

  test(`${type} whose second hook never comes is unstaged with its device, and staged again writable`, async () => {
    const volume = await frozen(type);
    await node.cleared(volume, node.targetPath(volume.volumeId));
    await usableAgain(volume, type);
  });

  test(`${type} that was unmounted frozen by others is thawed by the mount that is the first again`, async () => {
    const volume = await frozen(type);
    unmountAll(volume);
    const device = await node.attachedPath(volume);
    assert.match(await describeHolders(device), /its file system is frozen/);
    await usableAgain(volume, type);
  });

  test(`a freeze of ${type} that another mount namespace can lift stays`, async () => {
    const volume = await frozen(type);
    const copy = await copyMountNamespace();
    const device = await node.attachedPath(volume);
    try {
      unmountAll(volume);
      // It shares the file system with the mount there.
      await node.stage(volume, capabilityOf(type));
      assert.ok(isFrozen(node.stagingPath(volume.volumeId)));
      const named = /mounted at .* in the mount namespace of process/;
      await namesHolder(() => node.unstage(volume, {}, { deadline: Date.now() + 3000 }), named);
    } finally {
      await end(copy);
    }
    assert.ok(await isHeldExclusively(device), 'nobody has thawed it');
    await node.unstage(volume);
    assert.deepEqual(node.held(), NOTHING);
    await usableAgain(volume, type);
  });
}

test('a frozen file system that is mounted read-only is thawed', async () => {
  const capability = mountCapability('ext4', 'SINGLE_NODE_WRITER', ['ro']);
  const volume = await node.used(mountCapability('ext4'));
  await node.stage(volume, capability);
  freeze(node.stagingPath(volume.volumeId));
  await node.cleared(volume);
  await usableAgain(volume, 'ext4');
});

test('what a snapshot found frozen is known until something is written', async () => {
  const volume = await frozen('ext4');
  const { volumeId } = volume;
  const frozenForMs = async () => (await node.backend.volumes.condition(volumeId)).frozenForMs;
  await node.snapshot(volume);
  assert.equal(typeof (await frozenForMs()), 'number');
  thaw(node.targetPath(volumeId));
  writeFileSync(join(node.targetPath(volumeId), 'written'), 'after the thaw', { flush: true });
  assert.equal(await frozenForMs(), undefined);
  await node.snapshot(volume);
  assert.equal(await frozenForMs(), undefined);
  await node.cleared(volume, node.targetPath(volumeId));
});
