/** What kubelet and its host do to the directories of pods: shared twice, hidden, bound again. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { SystemError } from '../../src/base/errors.js';
import type { NativeRunner } from '../../src/native/pool.js';
import { growStaged } from '../../src/node/growth.js';
import { blockCapability, mountCapability, useNode } from '../integration/node-fixture.js';
import { callContext } from '../support/call-context.js';
import { rejectsWith } from '../support/expect-status.js';
import { mount } from '../support/mounts.js';
import { mountOf } from '../support/records.js';
import { test as rootTest } from '../support/running-plugin.js';

const node = useNode('paths-kubelet');
const { workspace } = node;

const KINDS = [
  ['mount', mountCapability()],
  ['block', blockCapability()],
] as const;

function mountOver(path: string, ...how: string[]): void {
  mkdirSync(path, { recursive: true });
  execFileSync('mount', [...how, path]);
}

/** A directory bound to itself, as its host shares it. */
function shareTwice(host: string): string {
  const kubelet = `${host}/kubelet`;
  mountOver(host, '-t', 'tmpfs', 'host');
  execFileSync('mount', ['--make-shared', host]);
  mountOver(kubelet, '--bind', kubelet);
  execFileSync('mount', ['--make-shared', kubelet]);
  return kubelet;
}

rootTest('an ext4 staged below a directory shared twice can be grown unmounted', async () => {
  const host = workspace.path('host-growth');
  const kubelet = shareTwice(host);
  const staging_target_path = `${kubelet}/staging`;
  mkdirSync(staging_target_path);
  const volume = await node.makeVolume();
  await node.stage(volume, mountCapability('ext4'), { staging_target_path });
  const before = statfsSync(staging_target_path).blocks;
  await node.enlarge(volume, 2n * volume.sizeBytes);
  const attachment = await node.backend.attach(volume.volumeId, { readOnly: false });
  const source = attachment.devicePath;
  const capability = mountOf('ext4');
  assert.ok(capability.accessType === 'mount');
  const context = callContext({ note: (fields) => assert.fail(JSON.stringify(fields)) });
  // A kernel that grows this ext4 only while it is not mounted.
  const native: NativeRunner = {
    run: (name, request) =>
      name === 'growFileSystem'
        ? Promise.reject(new SystemError('EOPNOTSUPP', 'ioctl', staging_target_path, 'refused'))
        : node.native.run(name, request),
  };
  const directory = staging_target_path;
  const staging = { volume, attachment, capability, directory, context };
  await growStaged({ ...node.deps, native }, staging, 'ext4', () =>
    mount({ source, target: directory, fsType: 'ext4', options: [] }),
  );
  assert.ok(statfsSync(staging_target_path).blocks > (before * 3) / 2);
  await node.unstage(volume, { staging_target_path });
  for (const path of [kubelet, host]) execFileSync('umount', [path]);
  assert.deepEqual(node.held(), { mounts: [], loops: [] });
});

for (const [kind, capability] of KINDS) {
  rootTest(
    `a directory bound to itself and shared shows every mount twice, and works like any other, ${kind}`,
    async () => {
      const host = workspace.path(`host-${kind}`);
      const kubelet = shareTwice(host);
      const staging_target_path = `${kubelet}/staging`;
      const target_path = `${kubelet}/target`;
      mkdirSync(staging_target_path);
      const volume = await node.makeVolume();
      for (let round = 0; round < 2; round += 1) {
        await node.stage(volume, capability, { staging_target_path });
        await node.publish(volume, capability, { staging_target_path, target_path });
      }
      await node.unpublish(volume, { target_path });
      assert.equal(existsSync(target_path), false);
      await node.unstage(volume, { staging_target_path });
      assert.deepEqual(node.held(), { mounts: [host, kubelet], loops: [] });
      execFileSync('umount', [kubelet]);
      execFileSync('umount', [host]);
    },
  );

  rootTest(
    `a target that another mount hides is reported and released later, ${kind}`,
    async () => {
      const volume = await node.makeVolume();
      const pod = workspace.path(`pod-${kind}`);
      const target_path = `${pod}/target`;
      mkdirSync(pod);
      await node.stage(volume, capability);
      await node.publish(volume, capability, { target_path });
      const before = node.held();
      mountOver(pod, '-t', 'tmpfs', 'cover');
      await rejectsWith(
        node.unpublish(volume, { target_path }),
        'FAILED_PRECONDITION',
        /another mount hides it/,
      );
      const elsewhere = node.publish(volume, capability, { target_path: `${pod}-2` });
      await rejectsWith(elsewhere, 'FAILED_PRECONDITION', /is published at .* already/);
      await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /is still published at/);
      execFileSync('umount', [pod]);
      assert.deepEqual(node.held(), before);
      await node.unpublish(volume, { target_path });
      await node.unstage(volume);
      assert.deepEqual(node.held(), { mounts: [], loops: [] });
    },
  );

  rootTest(
    `an interrupted unpublish completes although another pod has binds of its own, ${kind}`,
    async () => {
      const shared = {
        ...capability,
        access_mode: { mode: 'SINGLE_NODE_MULTI_WRITER' },
      };
      const volume = await node.makeVolume();
      const [first, second] = [node.targetPath(`${kind}-1`), node.targetPath(`${kind}-2`)];
      const bound = workspace.path(`subpath-${kind}`);
      await node.stage(volume, shared);
      for (const target_path of [first, second])
        await node.publish(volume, shared, { target_path });
      if (kind === 'mount') mkdirSync(bound);
      else writeFileSync(bound, '');
      execFileSync('mount', ['--bind', second, bound]);
      // What a kill leaves: unmounted, and still on record.
      execFileSync('umount', [first]);
      await node.unpublish(volume, { target_path: first });
      assert.equal(existsSync(first), false);
      assert.equal(await node.catalogue.publicationAt(first), null);
      execFileSync('umount', [bound]);
      await node.unpublish(volume, { target_path: second });
      await node.unstage(volume);
      assert.deepEqual(node.held(), { mounts: [], loops: [] });
    },
  );
}
