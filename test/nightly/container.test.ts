/**
 * The plugin in a container: the packages and the entry point of deploy/container/Containerfile under the options of
 * deploy/container/run. The first run on a machine makes the root file system with mmdebstrap (half a minute with a
 * mirror nearby); later ones take it from .native-build.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { packagePath } from '../../src/base/package-root.js';
import { baseRootFileSystem, PluginContainer, readImage } from '../support/container.js';
import { blockCapability, CsiClient, mountCapability, type Range } from '../support/csi-client.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { test } from '../support/running-plugin.js';
import { isCapabilityHere } from '../support/service-unit.js';
import { mountsBelow, Workspace } from '../support/workspace.js';

const SIZE_BYTES = 64 * MIB;
const WAIT_FOR_TOOLS = packagePath('deploy/container/wait-for-tools');

interface Contained {
  workspace: Workspace;
  container: PluginContainer;
  client: CsiClient;
  orchestrator: Orchestrator;
}

async function startContainer(t: TestContext): Promise<Contained> {
  const workspace = new Workspace('container');
  let container: PluginContainer | undefined;
  let client: CsiClient | undefined;
  t.after(async () => {
    client?.close();
    await container?.dispose();
    workspace.dispose();
  });
  // Shared, as systemd makes every mount of a host.
  execFileSync('mount', ['--bind', workspace.directory, workspace.directory]);
  execFileSync('mount', ['--make-shared', workspace.directory]);
  if (!isCapabilityHere('sys_resource')) {
    t.diagnostic('not applied on this machine: --cap-add=SYS_RESOURCE');
  }
  container = PluginContainer.start(workspace);
  client = new CsiClient(container.endpoint);
  await untilReady(container, client);
  const connected = client;
  const place = { path: (...names: string[]) => workspace.path('kubelet', ...names) };
  const orchestrator = new Orchestrator(place, () => connected);
  return { workspace, container, client, orchestrator };
}

async function untilReady(container: PluginContainer, client: CsiClient): Promise<void> {
  for (;;) {
    if (container.process.exitCode !== null) {
      throw new Error(`the container ended with ${container.process.exitCode}:\n${container.log}`);
    }
    const answer = await client.identity.Probe({}, { deadlineMs: 10_000 }).catch(() => null);
    if (answer !== null && answer['ready']?.value !== false) return;
    await delay(100);
  }
}

test('a plugin in a container answers what changed, and the list rebuilds the second snapshot', async (t) => {
  const { workspace, container, client, orchestrator } = await startContainer(t);
  const spec = { capability: mountCapability('ext4'), sizeBytes: SIZE_BYTES };
  const volume = await orchestrator.create('data', spec);
  const target = await orchestrator.bringUp(volume);
  assert.ok(mountsBelow(target).includes(target), 'the host sees what the plugin mounts');
  writeFileSync(join(target, 'kept'), Buffer.alloc(3 * MIB, 'kept'));
  writeFileSync(join(target, 'changed'), Buffer.alloc(MIB, 'before'), { flush: true });
  const first = await orchestrator.snapshot(volume, 'first');
  writeFileSync(join(target, 'changed'), Buffer.alloc(2 * MIB, 'after'), { flush: true });
  const second = await orchestrator.snapshot(volume, 'second');

  const allocated = await client.allocated(first);
  assert.equal(allocated.capacity, BigInt(SIZE_BYTES));
  const { ranges } = await client.delta(first, second);
  const changed = ranges.reduce((sum, { size }) => sum + size, 0n);
  assert.ok(changed >= BigInt(2 * MIB) && changed < BigInt(SIZE_BYTES), `${changed} bytes`);
  const [before, after] = [await readSnapshot(first), await readSnapshot(second)];
  assert.ok(!before.equals(after));
  assert.ok(rebuild(before, after, ranges).equals(after));

  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
  for (const id of [first, second]) await orchestrator.deleteSnapshot(id);
  assert.equal(await container.stop(), 0, container.log);
  assert.deepEqual(
    mountsBelow(workspace.directory),
    [workspace.directory],
    'the pool is unmounted',
  );

  /** Through a read-only raw volume, as a backup program reads it. */
  async function readSnapshot(snapshotId: string): Promise<Buffer> {
    const capability = blockCapability();
    const source = { capability, sizeBytes: SIZE_BYTES, snapshotId };
    const copy = await orchestrator.create(`of-${snapshotId}`, source);
    await orchestrator.stage(copy);
    const device = await orchestrator.publish(copy, { readonly: true });
    const content = readFileSync(device);
    await orchestrator.takeDown(copy);
    await orchestrator.delete(copy);
    return content;
  }
});

function rebuild(before: Buffer, after: Buffer, ranges: readonly Range[]): Buffer {
  const image = Buffer.from(before);
  for (const { offset, size } of ranges) {
    after.copy(image, Number(offset), Number(offset), Number(offset + size));
  }
  return image;
}

test('the image has a read-only root directory, the programs the plugin needs and no compiler', async (t) => {
  const { container } = await startContainer(t);
  const { pid } = container.process;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  const firstProcess = children.trim().split(' ')[0] ?? '';
  const mounts = readFileSync(`/proc/${firstProcess}/mountinfo`, 'utf8');
  assert.match(mounts, /^\d+ \d+ \S+ \S+ \/ ro,/m);
  assert.match(readFileSync(`/proc/${firstProcess}/cmdline`, 'utf8'), /^\/usr\/bin\/tini\0/);
  const isThere = (program: string): boolean =>
    ['usr/bin', 'usr/sbin', 'bin', 'sbin'].some((directory) =>
      existsSync(join(baseRootFileSystem(), directory, program)),
    );
  const needed =
    'env unshare flock mount umount blkid mkfs.ext4 fsck.ext4 resize2fs mkfs.xfs mkfs.btrfs btrfstune tini';
  for (const program of needed.split(' ')) {
    assert.ok(isThere(program), `${program} is in ${readImage().packages.join(', ')}`);
  }
  for (const program of ['gcc', 'g++', 'cc', 'make', 'npm']) assert.ok(!isThere(program), program);
});

test('a container ends with the code of the plugin, also after a signal, and after the tools that must not stop half way', (t) => {
  const workspace = new Workspace('wait-for-tools');
  t.after(() => workspace.dispose());
  const tool = workspace.path('resize2fs');
  copyFileSync('/bin/sleep', tool);
  chmodSync(tool, 0o755);
  const run = (plugin: string) => {
    const isolated = ['--pid', '--fork', '--mount-proc', WAIT_FOR_TOOLS, 'sh', '-c', plugin];
    return spawnSync('unshare', isolated, { encoding: 'utf8' });
  };
  const begun = `setsid '${tool}' 1 & until grep -q resize2fs /proc/$!/comm; do :; done; exit 7`;
  const ended = run(begun);
  assert.equal(ended.status, 7);
  assert.match(ended.stderr, /waiting for resize2fs/);
  const slow = "trap 'sleep 0.5; exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.05; done";
  assert.equal(run(slow).status, 9);
});
