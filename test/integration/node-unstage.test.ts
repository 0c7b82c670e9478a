import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { CsiError } from '../../src/base/errors.js';
import { rejectsWith } from '../support/expect-status.js';
import { copyMountNamespace } from '../support/mount-namespace.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-unstage');
const { workspace } = node;

rootTest('NU2, NU3: unstaging succeeds without a staging, a directory or a volume', async () => {
  const volume = await node.makeVolume();
  await node.unstage(volume);
  await node.unstage(volume, { staging_target_path: workspace.path('no', 'such', 'path') });
  const unknown = { volume_id: 'none-exist-id', staging_target_path: node.stagingPath('x') };
  await node.call('NodeUnstageVolume', unknown);
  const nowhere = { ...unknown, staging_target_path: 'relative' };
  await rejectsWith(node.call('NodeUnstageVolume', nowhere), 'NOT_FOUND');
  const system = { ...unknown, staging_target_path: '/etc' };
  await rejectsWith(node.call('NodeUnstageVolume', system), 'INVALID_ARGUMENT', /etc cannot be/);
  const relative = node.unstage(volume, { staging_target_path: 'relative' });
  await rejectsWith(relative, 'INVALID_ARGUMENT', /absolute/);
});

rootTest('NU3: mounts left by an unknown volume of the plugin are removed', async () => {
  for (const capability of [mountCapability(), blockCapability()]) {
    const volume = await node.makeVolume();
    await node.stage(volume, capability);
    await node.publish(volume, capability);
    const target = node.targetPath(volume.volumeId);
    await node.catalogue.removeVolume(volume.volumeId);
    await node.unpublish(volume);
    await node.unstage(volume);
    assert.equal(existsSync(target), false);
    assert.deepEqual(node.held().mounts, []);
    assert.deepEqual(readdirSync(node.stagingPath(volume.volumeId)), []);
    await node.backend.detach(volume.volumeId);
  }
});

rootTest('NU4: a volume that is published is not unstaged', async () => {
  const volume = await node.makeVolume();
  for (const capability of [mountCapability(), blockCapability()]) {
    if (capability['block'] !== null) await node.catalogue.markVolumeInitialized(volume.volumeId);
    await node.stage(volume, capability);
    await node.publish(volume, capability);
    const target = new RegExp(node.targetPath(volume.volumeId));
    await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', target);
    await node.unpublish(volume);
    await node.unstage(volume);
  }
  assert.deepEqual(node.held(), NOTHING);
});

rootTest('NU4: unstaging waits for a copy of the mount namespace until its deadline', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability());
  const copy = await copyMountNamespace();
  const unstaged = node.unstage(volume, {}, { deadline: Date.now() + 60_000 });
  setTimeout(() => copy.kill('SIGKILL'), 500);
  await unstaged;
  assert.deepEqual(node.held(), NOTHING);
});

rootTest('NU4: unstaging stops waiting for a held device when the caller cancels', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability());
  const copy = await copyMountNamespace();
  try {
    const cancelled = new AbortController();
    const reason = CsiError.cancelled('the caller went away');
    setTimeout(() => cancelled.abort(reason), 200);
    await rejectsWith(
      node.unstage(volume, {}, { signal: cancelled.signal }),
      'CANCELLED',
      /went away/,
    );
  } finally {
    copy.kill('SIGKILL');
    await once(copy, 'close');
  }
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});

rootTest(
  'a volume still mounted in a copy of the mount namespace can be staged again',
  async () => {
    const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
    await node.stage(volume, mountCapability('xfs'));
    const copy = await copyMountNamespace();
    try {
      const who = new RegExp(
        `mounted at ${node.stagingPath(volume.volumeId)} in the mount namespace of process ${copy.pid} `,
      );
      const soon = { deadline: Date.now() + 1000 };
      await rejectsWith(node.unstage(volume, {}, soon), 'FAILED_PRECONDITION', who);
      await node.stage(volume, mountCapability('xfs'));
    } finally {
      copy.kill('SIGKILL');
      await once(copy, 'close');
    }
    await node.unstage(volume);
    assert.deepEqual(node.held(), NOTHING);
  },
);

rootTest('unstaging a path in use is FAILED_PRECONDITION, and succeeds later', async () => {
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability());
  const holder = execFileSync('sh', [
    '-c',
    `sleep 600 >/dev/null 2>&1 < "${node.stagingPath(volume.volumeId)}" & echo $!`,
  ]);
  await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /busy/);
  process.kill(Number(holder.toString()));
  await new Promise((resolve) => setTimeout(resolve, 200));
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});

rootTest(
  'an unrecorded mount of the volume keeps the device attached, and the error names it',
  async () => {
    const volume = await node.makeVolume();
    await node.stage(volume, mountCapability());
    const elsewhere = node.stagingPath('by-hand');
    execFileSync('mount', ['--bind', node.stagingPath(volume.volumeId), elsewhere]);
    await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /by-hand/);
    execFileSync('umount', [elsewhere]);
    await node.unstage(volume);
    assert.deepEqual(node.held(), NOTHING);
  },
);

rootTest('a foreign file in the staging directory stays', async () => {
  const volume = await node.makeVolume();
  const file = `${node.stagingPath(volume.volumeId)}/device`;
  writeFileSync(file, "somebody else's");
  await node.unstage(volume);
  assert.ok(lstatSync(file).isFile());
  await rejectsWith(node.stage(volume, blockCapability()), 'FAILED_PRECONDITION', /not empty/);
  rmSync(file);
  assert.deepEqual(node.held(), NOTHING);
});
