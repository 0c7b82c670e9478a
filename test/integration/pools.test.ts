/** The embedded default pool, pools in directories, full pools, and pools that were swapped, renamed or removed. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { BlockContents, FileContents } from '../support/contents.js';
import { blockCapability, mountCapability, probeFails } from '../support/csi-client.js';
import { copyMountNamespace } from '../support/mount-namespace.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin, type PluginOptions } from '../support/plugin.js';
import { startReport } from '../support/plugin-log.js';
import { PluginProcess } from '../support/plugin-process.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { snapshotFiles } from '../support/snapshot-files.js';
import { loopsBelow, makePoolFileSystem, mountsBelow, Workspace } from '../support/workspace.js';

const random = seededRandom('pools');
const workspaces: Workspace[] = [];
const ends: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const end of ends) await end();
  for (const workspace of workspaces) workspace.dispose();
});

function newWorkspace(label: string): Workspace {
  const workspace = new Workspace(`pools-${label}`);
  workspaces.push(workspace);
  return workspace;
}

interface Started {
  plugin: Plugin;
  orchestrator: Orchestrator;
}

async function start(workspace: Workspace, options: PluginOptions = {}): Promise<Started> {
  const plugin = await Plugin.start(workspace, options);
  ends.push(() => plugin.kill());
  return { plugin, orchestrator: new Orchestrator(workspace, () => plugin.client) };
}

/** A start that must fail: the exit code and what was said. */
async function failedStart(
  workspace: Workspace,
  options: PluginOptions,
): Promise<{ exitCode: number | null; output: string }> {
  const started = new PluginProcess(workspace, options);
  ends.push(() => started.kill());
  const exitCode = await started.exitCode();
  return { exitCode, output: started.output };
}

const hostFree = (path: string): number => {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
};

test('an embedded pool never offers more than the host has free', async () => {
  const workspace = newWorkspace('bound');
  const env = { BLOCKDELTA_EMBEDDED_POOL_SIZE: '16000Gi' };
  const { plugin } = await start(workspace, { env });
  const image = workspace.path('plugin', 'pools', 'default', 'pool.img');
  const free = hostFree(workspace.directory);
  assert.ok(statSync(image).size < free, `${statSync(image).size} of ${free} bytes`);
  assert.ok(statSync(image).blocks * 512 >= statSync(image).size, 'the image has its blocks');
  assert.ok(statSync(image).size < free / 10, 'the image leaves the host what nobody was promised');
  const { available_capacity: available } = await plugin.client.controller.GetCapacity({});
  assert.ok(Number(available) <= free, `${available} of ${free} bytes`);
  assert.ok(Number(available) > free / 2);
  // What fills the host leaves less for volumes, although the image has not changed.
  const ballast = workspace.path('ballast');
  execFileSync('fallocate', ['-l', String(2048 * MIB), ballast]);
  const later = await plugin.client.controller.GetCapacity({});
  assert.ok(Number(later['available_capacity']) <= hostFree(workspace.directory));
  rmSync(ballast);
  assert.equal(await plugin.stop(), 0);
});

test('an embedded pool is found again after a stop, which unmounts it', async () => {
  const workspace = newWorkspace('again');
  const contents = BlockContents.empty(8 * MIB);
  let { plugin, orchestrator } = await start(workspace);
  const volume = await orchestrator.create('kept');
  await contents.work(await orchestrator.bringUp(volume), random);
  const snapshotId = await orchestrator.snapshot(volume, 'kept');
  await orchestrator.takeDown(volume);
  assert.equal(await plugin.stop(), 0);
  assert.deepEqual(mountsBelow(workspace.directory), []);
  assert.deepEqual(loopsBelow(workspace.directory), []);
  ({ plugin, orchestrator } = await start(workspace));
  assert.deepEqual(startReport(plugin.log).differences, []);
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
  assert.deepEqual(await orchestrator.snapshotIds(), [snapshotId]);
  await contents.verify(await orchestrator.bringUp(volume));
  await orchestrator.takeDown(volume);
  assert.equal(await plugin.stop(), 0);
});

test('a copy of the mount namespace delays a stop, and no loop device of the embedded pool is left', async () => {
  const workspace = newWorkspace('copied');
  const { plugin } = await start(workspace);
  const copy = await copyMountNamespace();
  const stopped = plugin.stop();
  setTimeout(() => copy.kill('SIGKILL'), 1000);
  assert.equal(await stopped, 0);
  assert.deepEqual(mountsBelow(workspace.directory), []);
  assert.deepEqual(loopsBelow(workspace.directory), []);
});

test('a stop with a published volume leaves the embedded pool mounted, and the volume in use', async () => {
  const workspace = newWorkspace('published');
  const contents = new FileContents();
  let { plugin, orchestrator } = await start(workspace);
  const spec = { capability: mountCapability('ext4'), sizeBytes: 16 * MIB };
  const volume = await orchestrator.create('published', spec);
  await contents.work(await orchestrator.bringUp(volume), random);
  assert.equal(await plugin.stop(), 0);
  await contents.work(volume.targetPath, random);
  ({ plugin, orchestrator } = await start(workspace));
  await contents.verify(volume.targetPath);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
  assert.equal(await plugin.stop(), 0);
  assert.deepEqual(mountsBelow(workspace.directory), []);
  assert.deepEqual(loopsBelow(workspace.directory), []);
});

test('a pool directory that is not mounted is refused, and serves again when it is', async () => {
  const workspace = newWorkspace('unmounted');
  const poolPath = makePoolFileSystem(workspace, 'xfs');
  const options = { pools: `main=${poolPath}` };
  const first = await start(workspace, options);
  const volume = await first.orchestrator.create('inside');
  assert.equal(await first.plugin.stop(), 0);
  execFileSync('umount', [poolPath]);
  const { exitCode, output } = await failedStart(workspace, options);
  assert.equal(exitCode, 1, output);
  assert.match(output, /pool 'main' is in the catalogue.*holds no pool.*mounted/);
  assert.deepEqual(readdirSync(poolPath), [], 'nothing was made in its place');
  assert.deepEqual(mountsBelow(workspace.directory), []);
  assert.deepEqual(loopsBelow(workspace.directory), []);
  execFileSync('mount', ['-o', 'loop', workspace.path('xfs.img'), poolPath]);
  const second = await start(workspace, options);
  assert.deepEqual(startReport(second.plugin.log).differences, []);
  assert.deepEqual(await second.orchestrator.volumeIds(), [volume.id]);
  assert.equal(await second.plugin.stop(), 0);
});

test('two pools that were swapped are refused', async () => {
  const workspace = newWorkspace('swapped');
  const [xfs, btrfs] = [
    makePoolFileSystem(workspace, 'xfs', 1024),
    makePoolFileSystem(workspace, 'btrfs', 1024),
  ];
  const first = await start(workspace, { pools: `a=${xfs},b=${btrfs}` });
  assert.equal(await first.plugin.stop(), 0);
  const { exitCode, output } = await failedStart(workspace, { pools: `a=${btrfs},b=${xfs}` });
  assert.equal(exitCode, 1, output);
  assert.match(output, /pool 'a' is recorded in the catalogue as 'b'/);
});

test('ID9: Probe is FAILED_PRECONDITION while the file system of a pool is unavailable', async () => {
  const workspace = newWorkspace('away');
  const poolPath = makePoolFileSystem(workspace, 'xfs', 1024);
  const { plugin, orchestrator } = await start(workspace, { pools: `main=${poolPath}` });
  const volume = await orchestrator.create('away');
  const snapshotId = await orchestrator.snapshot(volume, 'away');
  execFileSync('umount', [poolPath]);
  const { controller, identity } = plugin.client;
  await probeFails(plugin.client);
  await refused(identity.Probe({}), 'FAILED_PRECONDITION', /pool 'main'/);
  // What cannot be seen must not be taken for gone.
  await refused(
    controller.DeleteVolume({ volume_id: volume.id }),
    'FAILED_PRECONDITION',
    /pool 'main'/,
  );
  await refused(
    controller.DeleteSnapshot({ snapshot_id: snapshotId }),
    'FAILED_PRECONDITION',
    /pool 'main'/,
  );
  execFileSync('mount', ['-o', 'loop', workspace.path('xfs.img'), poolPath]);
  await identity.Probe({});
  const { volume: again } = await controller.CreateVolume({
    name: 'from what was there',
    volume_capabilities: [blockCapability()],
    volume_content_source: { snapshot: { snapshot_id: snapshotId } },
  });
  assert.ok(existsSync(join(poolPath, 'volumes', again.volume_id)));
  await controller.DeleteVolume({ volume_id: volume.id });
  assert.equal(await plugin.stop(), 0);
});

test('pools on XFS and btrfs are served side by side, and each keeps its own volumes', async () => {
  const workspace = newWorkspace('pair');
  const paths = {
    fast: makePoolFileSystem(workspace, 'xfs'),
    large: makePoolFileSystem(workspace, 'btrfs'),
  };
  const pools = Object.entries(paths).map(([name, path]) => `${name}=${path}`);
  const { plugin, orchestrator } = await start(workspace, { pools: pools.join(',') });
  for (const [pool, path] of Object.entries(paths)) {
    const contents = new FileContents();
    const capability = mountCapability('ext4');
    const spec = { capability, sizeBytes: 32 * MIB, parameters: { pool } };
    const volume = await orchestrator.create(`in ${pool}`, spec);
    assert.ok(existsSync(join(path, 'volumes', volume.id)));
    await contents.work(await orchestrator.bringUp(volume), random);
    const snapshotId = await orchestrator.snapshot(volume, `in ${pool}`);
    assert.ok(existsSync(join(path, 'snapshots', snapshotId)));
    const other = { ...spec, parameters: { pool: pool === 'fast' ? 'large' : 'fast' }, snapshotId };
    await refused(
      orchestrator.create('across', other),
      'INVALID_ARGUMENT',
      /in the pool of its source/,
    );
    const restored = await orchestrator.create(`of ${pool}`, { ...spec, snapshotId });
    await contents.verify(await orchestrator.bringUp(restored));
    for (const held of [restored, volume]) {
      await orchestrator.takeDown(held);
      await orchestrator.delete(held);
    }
    await orchestrator.deleteSnapshot(snapshotId);
  }
  const first = await orchestrator.create('default');
  assert.ok(existsSync(join(paths.fast, 'volumes', first.id)), 'the first pool is the default');
  await orchestrator.delete(first);
  assert.equal(await plugin.stop(), 0);
});

test('volumes of a pool that was removed from the configuration are kept, and the message says how to serve them', async () => {
  const workspace = newWorkspace('gone');
  const [xfs, btrfs] = [
    makePoolFileSystem(workspace, 'xfs', 1024),
    makePoolFileSystem(workspace, 'btrfs', 1024),
  ];
  const first = await start(workspace, { pools: `a=${xfs},b=${btrfs}` });
  const volume = await first.orchestrator.create('in b', { parameters: { pool: 'b' } });
  const snapshotId = await first.orchestrator.snapshot(volume, 'in b');
  assert.equal(await first.plugin.stop(), 0);
  const second = await start(workspace, { pools: `a=${xfs}` });
  for (const call of [
    () => second.orchestrator.delete(volume),
    () => second.orchestrator.deleteSnapshot(snapshotId),
    () => second.orchestrator.snapshot(volume, 'another'),
    () => second.orchestrator.stage(volume),
    () => second.plugin.client.allocated(snapshotId),
  ]) {
    await refused(call(), 'FAILED_PRECONDITION', /'b'.*BLOCKDELTA_POOLS/);
  }
  assert.equal(await second.plugin.stop(), 0);
  const third = await start(workspace, { pools: `a=${xfs},b=${btrfs}` });
  assert.deepEqual(startReport(third.plugin.log).differences, []);
  await third.orchestrator.deleteSnapshot(snapshotId);
  await third.orchestrator.delete(volume);
  assert.equal(await third.plugin.stop(), 0);
});

for (const kind of ['xfs', 'btrfs'] as const) {
  test(`CS6: a full pool on ${kind} fails writers and creations, not the plugin`, async () => {
    const workspace = newWorkspace(`full-${kind}`);
    const poolPath = makePoolFileSystem(workspace, kind, 600);
    const { plugin, orchestrator } = await start(workspace, { pools: `main=${poolPath}` });
    const volume = await orchestrator.create('full', { sizeBytes: 256 * MIB });
    const target = await orchestrator.bringUp(volume);
    const snapshotIds: string[] = [];
    // Each round writes everything anew, and a snapshot keeps what was there.
    const outcome = await fillUp(target, async (round) => {
      snapshotIds.push(await orchestrator.snapshot(volume, `round ${round}`));
    });
    assert.match(outcome, /ENOSPC|EIO|RESOURCE_EXHAUSTED/);
    await plugin.client.identity.Probe({});
    const call = orchestrator.create('too much', { sizeBytes: 128 * MIB });
    await refused(call, ['RESOURCE_EXHAUSTED', 'OUT_OF_RANGE']);
    await orchestrator.snapshot(volume, 'when full').then(
      (id) => snapshotIds.push(id),
      (error: Error) => assert.match(error.message, /RESOURCE_EXHAUSTED/),
    );
    assert.deepEqual((await orchestrator.snapshotIds()).sort(), snapshotIds.sort());
    assert.deepEqual(snapshotFiles(join(poolPath, 'snapshots')).sort(), snapshotIds);
    for (const id of snapshotIds) await plugin.client.allocated(id);
    for (const id of snapshotIds) await orchestrator.deleteSnapshot(id);
    await settled(async () => {
      writeAll(target, 7);
    });
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
    assert.equal(await plugin.stop(), 0);
  });
}

function writeAll(device: string, value: number): void {
  execFileSync('dd', [
    ...['if=/dev/urandom', `of=${device}`, 'bs=1M', 'count=240'],
    ...['conv=notrunc,fsync', 'status=none', `seek=${value % 2}`],
  ]);
}

/** Writes the device again and again until something fails; says what. */
async function fillUp(device: string, between: (round: number) => Promise<void>): Promise<string> {
  for (let round = 0; round < 8; round += 1) {
    try {
      writeAll(device, round);
      await between(round);
    } catch (thrown) {
      const { message } = thrown as Error;
      return /Input\/output error|No space left/.test(message) ? 'EIO' : message;
    }
  }
  return 'never full';
}

/** btrfs gives deleted space back a little later. */
async function settled(work: () => Promise<void>): Promise<void> {
  for (let attempts = 0; ; attempts += 1) {
    try {
      await work();
      return;
    } catch (thrown) {
      if (attempts === 20) throw thrown;
      execFileSync('sync');
    }
  }
}

test('a second plugin on the same state directory is refused and does not affect the first', async () => {
  const workspace = newWorkspace('second');
  const poolPath = makePoolFileSystem(workspace, 'xfs', 1024);
  const pools = `main=${poolPath}`;
  const { plugin, orchestrator } = await start(workspace, { pools });
  const volume = await orchestrator.create('before');
  const env = { CSI_ENDPOINT: `unix://${workspace.path('second.sock')}` };
  const other = await failedStart(workspace, { pools, env });
  assert.equal(other.exitCode, 1, other.output);
  assert.match(other.output, /catalogue.*in use by another process/);
  const same = await failedStart(workspace, { pools });
  assert.equal(same.exitCode, 1, same.output);
  await orchestrator.delete(volume);
  assert.equal(await plugin.stop(), 0);
});

test('a renamed pool is refused, because its volumes are recorded under the first name', async () => {
  const workspace = newWorkspace('renamed');
  const poolPath = makePoolFileSystem(workspace, 'xfs', 1024);
  const { plugin } = await start(workspace, { pools: `first=${poolPath}` });
  assert.equal(await plugin.stop(), 0);
  const { exitCode, output } = await failedStart(workspace, { pools: `second=${poolPath}` });
  assert.equal(exitCode, 1, output);
  assert.match(output, /pool 'second'.*'first'/);
});
