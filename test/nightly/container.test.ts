/**
 * The image in podman: scripts/build-image makes it of the checkout, and deploy/container/run has the options; snapshots
 * are taken by the guardian of deploy/container/run-guardian, and fail without it. On a
 * machine without CAP_SYS_RESOURCE podman gets limits that this machine allows, and the plugin goes without the right.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { packagePath } from '../../src/base/package-root.js';
import { readMountInfo } from '../../src/base/system/mountinfo.js';
import { FILE_SYSTEMS, MINIMUM_BYTES } from '../../src/driver/host/file-systems.js';
import { checkoutText } from '../support/checkout-text.js';
import { ContainerEngine, PluginContainer } from '../support/container.js';
import { Containerd } from '../support/containerd.js';
import { blockCapability, CsiClient, mountCapability, type Range } from '../support/csi-client.js';
import { assertMountable } from '../support/file-system-features.js';
import { helmTemplate } from '../support/manifests.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { OrderedWriter, readNumber } from '../support/ordered-writer.js';
import { test } from '../support/running-plugin.js';
import { isCapabilityHere } from '../support/service-unit.js';
import { mountsBelow, Workspace } from '../support/workspace.js';

const SIZE_BYTES = 64 * MIB;
const WAIT_FOR_TOOLS = packagePath('deploy/container/wait-for-tools');

let engine: ContainerEngine;
let image = '';
before(async () => {
  engine = new ContainerEngine();
  image = await engine.loadImage();
});
after(() => engine.dispose());

interface Contained {
  workspace: Workspace;
  container: PluginContainer;
  client: CsiClient;
  orchestrator: Orchestrator;
}

async function startContainer(t: TestContext): Promise<Contained> {
  const workspace = new Workspace('container');
  let client: CsiClient | undefined;
  t.after(() => {
    client?.close();
    engine.removeContainers();
    workspace.dispose();
  });
  // Shared, as systemd makes every mount of a host.
  execFileSync('mount', ['--bind', workspace.directory, workspace.directory]);
  execFileSync('mount', ['--make-shared', workspace.directory]);
  if (!isCapabilityHere('sys_resource')) {
    t.diagnostic('not applied on this machine: --cap-add=SYS_RESOURCE');
  }
  await PluginContainer.startGuardian(engine, image, workspace);
  const container = await PluginContainer.start(engine, image, workspace);
  client = new CsiClient(container.endpoint);
  await untilReady(container, client);
  const connected = client;
  const place = { path: (...names: string[]) => workspace.path('kubelet', ...names) };
  const orchestrator = new Orchestrator(place, () => connected);
  return { workspace, container, client, orchestrator };
}

async function untilReady(container: PluginContainer, client: CsiClient): Promise<void> {
  for (;;) {
    const answer = await client.identity.Probe({}, { deadlineMs: 10_000 }).catch(() => null);
    if (answer !== null && answer['ready']?.value !== false) return;
    if (!(await container.isRunning())) throw new Error(`the container has ended:\n${container.log}`);
    await delay(100);
  }
}

test('podman and a node of a cluster import the image under the name that the chart has, and run it by that name', async (t) => {
  const chart = { pools: [{ kind: 'embedded' }], image: { repository: 'localhost/blockdelta' } };
  const nodes = helmTemplate(chart).find(({ kind }) => kind === 'DaemonSet');
  const containers: { name: string; image: string }[] = nodes?.['spec'].template.spec.containers;
  const named = containers.find(({ name }) => name === 'plugin')?.image ?? '';
  assert.equal(image, named);
  const index = execFileSync('tar', ['-xOf', engine.archive, './index.json'], { encoding: 'utf8' });
  const annotations = JSON.parse(index).manifests.map((each: { annotations: object }) => each.annotations);
  assert.deepEqual(annotations, [{ 'org.opencontainers.image.ref.name': named }]);

  const workspace = new Workspace('containerd');
  const containerd = await Containerd.start(workspace);
  t.after(async () => {
    await containerd.stop();
    workspace.dispose();
  });
  const page = checkoutText('docs/install-container.md');
  const [, options = ''] = /`ctr --namespace k8s\.io (images import .*?)blockdelta-\S+\.tar`/.exec(page) ?? [];
  const snapshotter = ['--snapshotter', 'native'];
  containerd.ctr(...options.trim().split(' '), ...snapshotter, engine.archive);
  // Any further name is one that a kubelet takes for an image of its default registry.
  assert.deepEqual(containerd.ctr('images', 'ls', '--quiet').trim().split('\n'), [named]);
  const run = ['run', '--rm', '--runc-binary', 'crun', ...snapshotter, named, 'version'];
  const said = containerd.ctr(...run, '/opt/blockdelta/bin/blockdelta', '--version');
  assert.equal(said.trim(), named.split(':').at(-1));
});

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
  assert.deepEqual(mountsBelow(workspace.directory), [workspace.directory], 'the pool is unmounted');

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

/** What happens to the container. Resolves to the one that serves afterwards. */
type Change = (was: PluginContainer, workspace: Workspace) => Promise<PluginContainer>;
const changes: Readonly<Record<string, Change>> = {
  'is stopped and started': async (was) => {
    assert.equal(await was.stop(), 0, was.log);
    await was.startAgain();
    return was;
  },
  'is killed and started': async (was) => {
    await was.kill();
    await was.startAgain();
    return was;
  },
  'is replaced by one of the next image': async (was, workspace) => {
    assert.equal(await was.stop(), 0, was.log);
    await was.remove();
    const next = image.replace(/:[^:]*$/, ':next');
    await engine.run('tag', image, next);
    return PluginContainer.start(engine, next, workspace);
  },
};

for (const [change, apply] of Object.entries(changes)) {
  test(`writers of staged volumes go on while the container ${change}`, async (t) => {
    const { workspace, container, client, orchestrator } = await startContainer(t);
    const volumes = [
      await orchestrator.create('files', { capability: mountCapability('xfs'), sizeBytes: 320 * MIB }),
      await orchestrator.create('raw', { capability: blockCapability(), sizeBytes: SIZE_BYTES }),
    ];
    const [files = '', raw = ''] = await Promise.all(volumes.map((volume) => orchestrator.bringUp(volume)));
    const writers = [
      await OrderedWriter.start([join(files, 'first'), join(files, 'second')]),
      await OrderedWriter.start([raw, join(files, 'of-raw')]),
    ];
    const before = writers.map(({ finished }) => finished);
    const now = await apply(container, workspace);
    const meanwhile = writers.map(({ finished }) => finished);
    await untilReady(now, client);
    for (const volume of volumes) await orchestrator.snapshot(volume, `of-${volume.name}`);
    await Promise.all(writers.map((writer) => writer.stop()));
    const finished = writers.map((writer) => writer.finished);
    t.diagnostic(`${before} records before, ${meanwhile} when it was back, ${finished} at the end`);
    for (const [index, number] of meanwhile.entries()) {
      assert.ok(number > (before[index] ?? 0), 'the writer went on without the plugin');
    }
    assert.deepEqual(
      [join(files, 'second'), raw].map((path) => readNumber(path)),
      finished,
    );
    for (const volume of volumes) {
      await orchestrator.takeDown(volume);
      await orchestrator.delete(volume);
    }
  });
}

test('the image has a read-only root directory, the programs that the plugin needs, the guardian and no compiler', async (t) => {
  const { container } = await startContainer(t);
  assert.match(await container.shell('cat /proc/1/mountinfo'), /^\d+ \d+ \S+ \S+ \/ ro,/m);
  assert.match(await container.shell('cat /proc/1/cmdline'), /^\/usr\/bin\/tini\0/);
  assert.match(await container.shell('cat /proc/1/environ'), /NODE_OPTIONS=--max-semi-space-size=2\0/);
  const missing = (names: string): Promise<string> =>
    container.shell(`for name in ${names}; do command -v $name >&2 || echo $name; done`);
  const needed =
    'env unshare flock mount umount blkid mkfs.ext4 fsck.ext4 resize2fs mkfs.xfs mkfs.btrfs btrfstune nbdkit nbdcopy nbdinfo tini';
  assert.equal(await missing(`${needed} /opt/blockdelta/bin/blockdelta-guardian`), '');
  // With all their libraries and modules, some of which the image leaves out.
  const transfers =
    'nbdcopy --version && nbdinfo --version && nbdkit --filter=exportname --filter=rate --filter=extentlist file --version';
  assert.match(await container.shell(transfers), /^nbdcopy [\s\S]*\nextentlist .*\nfile /);
  const useless = 'gcc g++ cc make npm python3 perl apt-get dpkg';
  assert.deepEqual((await missing(useless)).trim().split('\n'), useless.split(' '));
});

test('the oldest supported kernel mounts what the tools of the image make', async (t) => {
  const { orchestrator } = await startContainer(t);
  for (const type of FILE_SYSTEMS) {
    const sizeBytes = Number(MINIMUM_BYTES[type]);
    const volume = await orchestrator.create(type, { capability: mountCapability(type), sizeBytes });
    const target = await orchestrator.bringUp(volume);
    const mount = (await readMountInfo()).find(({ mountPoint }) => mountPoint === target);
    assertMountable(type, mount?.source ?? '');
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
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
