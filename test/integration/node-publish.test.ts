import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { rejectsWith } from '../support/expect-status.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode } from './node-fixture.js';

const node = useNode('node-publish');
const { workspace } = node;

type Capability = ReturnType<typeof mountCapability>;

const WRITER = 'SINGLE_NODE_WRITER';
const READER = 'SINGLE_NODE_READER_ONLY';

async function staged(capability: Capability): Promise<VolumeRecord> {
  const volume = await node.makeVolume();
  await node.stage(volume, capability);
  return volume;
}

/** Opening a read-only device for writing succeeds; writing to it does not. */
function writeBlock(path: string): void {
  const descriptor = openSync(path, 'r+');
  try {
    writeSync(descriptor, Buffer.alloc(4096, 1), 0, 4096, 0);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

async function cleared(volume: VolumeRecord): Promise<void> {
  await node.unpublish(volume);
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
  assert.deepEqual(readdirSync(workspace.path('pods')), []);
  assert.deepEqual(await node.catalogue.publications(volume.volumeId), []);
  assert.deepEqual(await node.catalogue.stagings(volume.volumeId), []);
}

rootTest(
  'NP2, NP3, NP8: an unknown volume is NOT_FOUND, an unstaged one FAILED_PRECONDITION',
  async () => {
    const volume = await node.makeVolume();
    const capability = mountCapability();
    const unknown = { volume_id: 'fake-vol-id-0123456789', target_path: 'some/path' };
    await rejectsWith(node.publish(volume, capability, unknown), 'NOT_FOUND');
    const unnamed = { staging_target_path: '' };
    await rejectsWith(node.publish(volume, capability, unnamed), 'FAILED_PRECONDITION', /staging/);
    await rejectsWith(node.publish(volume, capability), 'FAILED_PRECONDITION', /not staged/);
    await rejectsWith(node.publish(volume, blockCapability()), 'FAILED_PRECONDITION', /not staged/);
    for (const field of ['target_path', 'staging_target_path']) {
      const relative = node.publish(volume, capability, { [field]: 'some/path' });
      await rejectsWith(relative, 'INVALID_ARGUMENT', new RegExp(field));
    }
    assert.deepEqual(readdirSync(workspace.path('pods')), []);
  },
);

rootTest('NP5: more access than was staged is FAILED_PRECONDITION', async () => {
  const volume = await staged(mountCapability('ext4', READER));
  for (const capability of [
    mountCapability('ext4', WRITER),
    mountCapability('xfs', READER),
    blockCapability(READER),
  ]) {
    await rejectsWith(node.publish(volume, capability), 'FAILED_PRECONDITION', /is staged at/);
  }
  const multi = mountCapability('ext4', 'MULTI_NODE_READER_ONLY');
  await rejectsWith(node.publish(volume, multi), 'FAILED_PRECONDITION', /not supported/);
  await node.publish(volume, mountCapability('ext4', READER));
  const target = node.targetPath(volume.volumeId);
  assert.throws(() => writeFileSync(`${target}/x`, ''), /EROFS/);
  await cleared(volume);
});

rootTest('NP6: the target is created, its parent is not', async () => {
  const volume = await staged(mountCapability());
  const orphan = { target_path: workspace.path('no-pod', 'target') };
  const answer = node.publish(volume, mountCapability(), orphan);
  await rejectsWith(answer, 'FAILED_PRECONDITION', /no-pod|parent directory/);
  await node.publish(volume, mountCapability());
  writeFileSync(`${node.targetPath(volume.volumeId)}/file`, 'written');
  const seen = readFileSync(`${node.stagingPath(volume.volumeId)}/file`, 'utf8');
  assert.equal(seen, 'written');
  await cleared(volume);
});

rootTest(
  'an empty target created by the orchestrator is accepted, one with content is not',
  async () => {
    const volume = await staged(mountCapability());
    const target = node.targetPath(volume.volumeId);
    mkdirSync(target);
    writeFileSync(`${target}/precious`, 'data');
    await rejectsWith(node.publish(volume, mountCapability()), 'FAILED_PRECONDITION', /not empty/);
    await rejectsWith(node.unpublish(volume), 'FAILED_PRECONDITION', /left as it is/);
    assert.equal(readFileSync(`${target}/precious`, 'utf8'), 'data');
    rmSync(`${target}/precious`);
    await node.publish(volume, mountCapability());
    await cleared(volume);
  },
);

for (const [name, make] of [
  ['mount', mountCapability],
  ['block', blockCapability],
] as const) {
  const capability = make === mountCapability ? mountCapability('ext4') : blockCapability();

  rootTest(`a publication from before a reboot does not count, ${name}`, async () => {
    const volume = await staged(capability);
    await node.publish(volume, capability);
    const target = node.targetPath(volume.volumeId);
    // After a reboot the mounts and loop devices are gone; files and records are there.
    for (const path of node.held().mounts.reverse()) execFileSync('umount', [path]);
    await node.backend.detach(volume.volumeId);
    await node.stage(volume, capability);
    const next = node.targetPath('after-reboot');
    await node.publish(volume, capability, { target_path: next });
    await node.unpublish(volume, { target_path: target });
    assert.equal(existsSync(target), false);
    await node.unpublish(volume, { target_path: next });
    await cleared(volume);
  });

  rootTest(`a mount without a record is adopted if it matches the request, ${name}`, async () => {
    const volume = await staged(capability);
    await node.publish(volume, capability, { readonly: true });
    await node.catalogue.removePublication(node.targetPath(volume.volumeId));
    await node.catalogue.removeStaging(volume.volumeId, node.stagingPath(volume.volumeId));
    await node.stage(volume, capability);
    await rejectsWith(node.publish(volume, capability), 'ALREADY_EXISTS');
    await node.publish(volume, capability, { readonly: true });
    assert.equal((await node.catalogue.publications(volume.volumeId)).length, 1);
    await cleared(volume);
  });

  rootTest(`unpublishing clears every layer on the target, ${name}`, async () => {
    const volume = await staged(capability);
    await node.publish(volume, capability);
    const target = node.targetPath(volume.volumeId);
    for (let time = 0; time < 3; time += 1) execFileSync('mount', ['--bind', target, target]);
    await node.catalogue.removePublication(target);
    await cleared(volume);
  });
}

rootTest('a read-only file system publication refuses writing, the staging does not', async () => {
  const volume = await staged(mountCapability());
  await node.publish(volume, mountCapability(), { readonly: true });
  const target = node.targetPath(volume.volumeId);
  assert.throws(() => writeFileSync(`${target}/x`, ''), /EROFS/);
  writeFileSync(`${node.stagingPath(volume.volumeId)}/x`, 'through staging');
  assert.equal(readFileSync(`${target}/x`, 'utf8'), 'through staging');
  await cleared(volume);
});

rootTest('a read-only raw publication refuses writing, and only as long as it lasts', async () => {
  const volume = await staged(blockCapability());
  const target = node.targetPath(volume.volumeId);
  await node.publish(volume, blockCapability(), { readonly: true });
  assert.ok(statSync(target).isBlockDevice());
  assert.throws(() => writeBlock(target), /EPERM/);
  await node.unpublish(volume);
  assert.equal(await node.deviceReadOnly(volume), false);
  await node.publish(volume, blockCapability());
  writeBlock(target);
  await node.unpublish(volume);
  await node.publish(volume, blockCapability(READER));
  assert.throws(() => writeBlock(target), /EPERM/);
  await cleared(volume);
});

rootTest('a kill between the bind and its read-only flag is repaired by the retry', async () => {
  const volume = await staged(mountCapability());
  const target = node.targetPath(volume.volumeId);
  await node.publish(volume, mountCapability(), { readonly: true });
  execFileSync('mount', ['-o', 'remount,bind,rw', target]);
  writeFileSync(`${target}/x`, '');
  await node.publish(volume, mountCapability(), { readonly: true });
  assert.throws(() => writeFileSync(`${target}/y`, ''), /EROFS/);
  await cleared(volume);
});

rootTest('a device left read-only by a kill is writable again for its next user', async () => {
  const volume = await staged(blockCapability());
  execFileSync('blockdev', ['--setro', await node.attachedPath(volume)]);
  await node.publish(volume, blockCapability());
  writeBlock(node.targetPath(volume.volumeId));
  await node.unpublish(volume);
  const device = await node.attachedPath(volume);
  execFileSync('blockdev', ['--setro', device]);
  await node.unstage(volume);
  assert.equal(execFileSync('blockdev', ['--getro', device], { encoding: 'utf8' }).trim(), '0');
  await cleared(volume);
});

rootTest('mount flags a bind can take are applied to the publication', async () => {
  const volume = await staged(mountCapability('', WRITER, ['noatime']));
  const flags = ['noatime', 'nosuid,nodev', 'discard'];
  await node.publish(volume, mountCapability('', WRITER, flags));
  const line = execFileSync('grep', [`pods/${volume.volumeId}`, '/proc/self/mountinfo'], {
    encoding: 'utf8',
  });
  assert.match(line, /rw,nosuid,nodev,noatime/);
  await cleared(volume);
});

rootTest('a target that is a link or a foreign mount is refused and not changed', async () => {
  const volume = await staged(mountCapability());
  const real = workspace.path('real');
  mkdirSync(real);
  const link = node.targetPath('link');
  symlinkSync(real, link);
  const at = (target_path: string): Promise<unknown> =>
    node.publish(volume, mountCapability(), { target_path });
  await rejectsWith(at(link), 'FAILED_PRECONDITION', /symbolic link/);
  await rejectsWith(node.unpublish(volume, { target_path: link }), 'FAILED_PRECONDITION', /link/);
  assert.ok(existsSync(link));
  rmSync(link);
  const foreign = node.targetPath('foreign');
  mkdirSync(foreign);
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', foreign]);
  await rejectsWith(at(foreign), 'FAILED_PRECONDITION', /something else mounted/);
  const left = node.unpublish(volume, { target_path: foreign });
  await rejectsWith(left, 'FAILED_PRECONDITION', /something else mounted/);
  execFileSync('umount', [foreign]);
  rmSync(foreign, { recursive: true });
  const viaStaging = { staging_target_path: workspace.path('staging-link') };
  symlinkSync(node.stagingPath(volume.volumeId), viaStaging.staging_target_path);
  await rejectsWith(
    node.publish(volume, mountCapability(), viaStaging),
    'FAILED_PRECONDITION',
    /not staged/,
  );
  await cleared(volume);
});

rootTest(
  'a target below a linked directory works, as below a linked /var/lib/kubelet',
  async () => {
    const volume = await staged(mountCapability());
    node.targetPath('x');
    symlinkSync(workspace.path('pods'), workspace.path('linked-pods'));
    const fields = { target_path: workspace.path('linked-pods', 'target') };
    for (let time = 0; time < 2; time += 1) await node.publish(volume, mountCapability(), fields);
    assert.equal(node.held().mounts.length, 2);
    await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
    await node.unpublish(volume, fields);
    await cleared(volume);
  },
);

rootTest('NQ2, NQ4: nothing is published, or the volume is unknown', async () => {
  const unknown = { volume_id: 'some-id', target_path: '/some/path' };
  await node.call('NodeUnpublishVolume', unknown);
  const nowhere = { ...unknown, target_path: 'relative' };
  await rejectsWith(node.call('NodeUnpublishVolume', nowhere), 'NOT_FOUND');
  const system = { ...unknown, target_path: '/etc' };
  await rejectsWith(node.call('NodeUnpublishVolume', system), 'INVALID_ARGUMENT', /etc cannot be/);
  const volume = await node.makeVolume();
  for (let time = 0; time < 3; time += 1) await node.unpublish(volume);
  const target = node.targetPath('leftover');
  mkdirSync(target);
  await node.call('NodeUnpublishVolume', { volume_id: 'none-exist-id', target_path: target });
  assert.equal(existsSync(target), true, 'nothing proves it to be ours');
  rmSync(target, { recursive: true });
});

rootTest("another volume's publication is not unpublished", async () => {
  const [first, second] = [await staged(mountCapability()), await node.makeVolume()];
  await node.publish(first, mountCapability());
  const target = { target_path: node.targetPath(first.volumeId) };
  await rejectsWith(node.unpublish(second, target), 'FAILED_PRECONDITION', /something else/);
  const unknown = { ...target, volume_id: 'none-exist-id' };
  await rejectsWith(node.call('NodeUnpublishVolume', unknown), 'FAILED_PRECONDITION', /else/);
  await cleared(first);
});
