/** Pools: the embedded one, several in directories, and those that are swapped, renamed, removed or away. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { runCommand } from '../../support/command.js';
import { FileContents } from '../../support/contents.js';
import { type Message, mountCapability, probeFails } from '../../support/csi-client.js';
import { scrape } from '../../support/metrics-text.js';
import { copyMountNamespace } from '../../support/mount-namespace.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { Plugin, type PluginOptions } from '../../support/plugin.js';
import { logLines, startReport } from '../../support/plugin-log.js';
import { seededRandom } from '../../support/random.js';
import { TEST_NODE_KEY } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { RunningPlugin, type RunningPluginOptions, test } from '../../support/running-plugin.js';
import { metricsAddressOf } from '../../support/scraped-plugin.js';
import { loopsBelow, makePoolFileSystem, mountsBelow } from '../../support/workspace.js';

const random = seededRandom('pools');

/** A plugin of one test, which is started again and again on the same state. */
class Place extends RunningPlugin {
  static async of(t: TestContext, label: string, options: RunningPluginOptions): Promise<Place> {
    const place = new Place();
    t.after(() => place.tearDown());
    await place.setUp(`pools-${label}`, options);
    return place;
  }

  /** A start that ends with 1. */
  async failsWith(options: PluginOptions, said: RegExp): Promise<void> {
    const started = Plugin.launch(this.workspace, options);
    assert.equal(await started.exitCode(), 1, started.log);
    assert.match(started.log, said);
  }

  async stop(): Promise<void> {
    assert.equal(await this.plugin.stop(), 0);
  }

  assertNothingUp(): void {
    assert.deepEqual(mountsBelow(this.workspace.directory), []);
    assert.deepEqual(loopsBelow(this.workspace.directory), []);
  }

  mount(kind: 'xfs' | 'btrfs', directory: string): void {
    execFileSync('mount', ['-o', 'loop', this.workspace.path(`${kind}.img`), directory]);
  }

  /** How often the plugin has logged that message about the pool `far`. */
  count(message: string): number {
    const lines = logLines(this.plugin.log).filter(({ pool }) => pool === 'far');
    return lines.filter(({ msg }) => String(msg).startsWith(message)).length;
  }

  async logged(message: string): Promise<void> {
    while (this.count(message) === 0) await delay(100);
  }
}

const FILES = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };

test('an embedded pool offers no more than the host has, and outlives its plugins', async (t) => {
  const env = { BLOCKDELTA_EMBEDDED_POOL_SIZE: '16000Gi' };
  const place = await Place.of(t, 'embedded', { env });
  const { workspace, orchestrator, client } = place;
  const free = (): number => {
    const { bavail, bsize } = statfsSync(workspace.directory);
    return bavail * bsize;
  };
  const image = statSync(workspace.path('plugin', 'pools', 'default', 'pool.img'));
  assert.ok(image.size < free() / 10, 'the image leaves the host what nobody was promised');
  assert.ok(image.blocks * 512 >= image.size, 'the image has its blocks');
  const available = async () => Number((await client.controller.GetCapacity({}))['available_capacity']);
  const offered = await available();
  assert.ok(offered <= free() && offered > free() / 2, `${offered} of ${free()} bytes`);
  // What fills the host leaves less for volumes, although the image has not changed.
  const ballast = workspace.path('ballast');
  execFileSync('fallocate', ['-l', String(2048 * MIB), ballast]);
  assert.ok((await available()) <= free());
  rmSync(ballast);

  const contents = new FileContents();
  const volume = await orchestrator.create('kept', FILES);
  await contents.work(await orchestrator.bringUp(volume), random);
  const snapshotId = await orchestrator.snapshot(volume, 'kept');
  // The pool stays mounted, and the volume in use.
  await place.stop();
  await contents.work(volume.targetPath, random);
  const second = await place.start();
  await contents.verify(volume.targetPath);
  await orchestrator.takeDown(volume);
  const copy = await copyMountNamespace();
  const stopped = second.stop();
  setTimeout(() => copy.kill('SIGKILL'), 1000);
  assert.equal(await stopped, 0, 'the copy delays the stop');
  place.assertNothingUp();
  const third = await place.start();
  assert.deepEqual(startReport(third.log).differences, []);
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
  assert.deepEqual(await orchestrator.snapshotIds(), [snapshotId]);
  await contents.verify(await orchestrator.bringUp(volume));
  await orchestrator.remove(volume);
  await place.stop();
  place.assertNothingUp();
});

test('a pool is an image, or a directory, only where that is meant', async (t) => {
  const env = { BLOCKDELTA_EMBEDDED_POOL_SIZE: '1Gi' };
  const place = await Place.of(t, 'meant', { env });
  const at = place.workspace.path('plugin', 'pools', 'default');
  const warnings = (): string[] =>
    logLines(place.plugin.log)
      .map(({ msg }) => String(msg))
      .filter((msg) => /is an image/.test(msg));
  const findings = async (more = {}): Promise<string> =>
    (await runCommand(t, ['doctor'], { ...place.settings, ...more })).stdout.replaceAll(
      /[^\n]*does not outlive.*/g,
      '',
    );
  assert.match(warnings().join(), /^pool 'default' is an image, .*pool\.img on the .*=image:/);
  assert.match(await findings(), /FINDING.* is an image, .*pool\.img on the /s);
  await place.stop();
  await place.failsWith({ env, pools: `default=directory:${at}` }, /holds an image.*default=image:/);
  await place.start({ env, pools: `default=image:${at}` });
  assert.deepEqual(warnings(), []);
  assert.doesNotMatch(await findings({ BLOCKDELTA_POOLS: `default=image:${at}` }), /is an image/);
  await place.stop();

  // As where its disk is not mounted.
  const unmounted = makePoolFileSystem(place.workspace, 'ext4', 64);
  const before = readdirSync(unmounted);
  const directory = { name: 'second', pools: `default=directory:${unmounted}` };
  await place.failsWith(directory, /cannot clone files: mount an XFS/);
  assert.deepEqual(readdirSync(unmounted), before);
  const mounted = makePoolFileSystem(place.workspace, 'xfs', 512);
  const plugin = await Plugin.start(place.workspace, { name: 'third', pools: `default=directory:${mounted}` });
  assert.equal(await plugin.stop(), 0);
  const image = { name: 'third', pools: `default=image:${mounted}` };
  await place.failsWith(image, /holds a pool and no image: write default=directory:/);
});

test('pools are served side by side, each under its name and from its own file system', async (t) => {
  const pools = { fast: 'xfs', large: 'btrfs' } as const;
  const place = await Place.of(t, 'pair', { pools, poolSizeMiB: 1024 });
  const { orchestrator } = place;
  const [fast, large] = [place.poolPath('fast'), place.poolPath('large')];
  for (const [pool, path] of Object.entries(place.poolPaths)) {
    const contents = new FileContents();
    const spec = { ...FILES, parameters: { pool } };
    const volume = await orchestrator.create(`in ${pool}`, spec);
    assert.ok(existsSync(join(path, 'volumes', volume.id)));
    await contents.work(await orchestrator.bringUp(volume), random);
    const snapshotId = await orchestrator.snapshot(volume, `in ${pool}`);
    assert.ok(existsSync(join(path, 'snapshots', snapshotId)));
    const other = { ...spec, parameters: { pool: pool === 'fast' ? 'large' : 'fast' }, snapshotId };
    const across = orchestrator.create('across', other);
    await refused(across, 'INVALID_ARGUMENT', /in the pool of its source/);
    const restored = await orchestrator.create(`of ${pool}`, { ...spec, snapshotId });
    await contents.verify(await orchestrator.bringUp(restored));
    await orchestrator.remove(restored, volume);
    await orchestrator.deleteSnapshot(snapshotId);
  }
  const first = await orchestrator.create('default');
  assert.ok(existsSync(join(fast, 'volumes', first.id)), 'the first pool is the default');
  const volume = await orchestrator.create('in large', { parameters: { pool: 'large' } });
  const snapshotId = await orchestrator.snapshot(volume, 'in large');
  await place.stop();

  const swapped = { pools: `fast=${large},large=${fast}` };
  await place.failsWith(swapped, /pool 'fast' is recorded in the catalogue as 'large'/);
  await place.failsWith({ pools: `slow=${fast}` }, /pool 'slow'.*'fast'/);
  const one = { pools: `fast=${fast}` };
  execFileSync('umount', [fast]);
  await place.failsWith(one, /pool 'fast' is in the catalogue.*holds no pool.*mounted/);
  assert.deepEqual(readdirSync(fast), [], 'nothing was made in its place');
  place.mount('xfs', fast);

  // A pool that is not configured any more is kept, and the message says how to serve it.
  const { client } = await place.start(one);
  for (const call of [
    () => orchestrator.delete(volume),
    () => orchestrator.deleteSnapshot(snapshotId),
    () => orchestrator.snapshot(volume, 'another'),
    () => orchestrator.stage(volume),
    () => client.allocated(snapshotId),
  ]) {
    await refused(call(), 'FAILED_PRECONDITION', /'large'.*BLOCKDELTA_POOLS/);
  }
  await place.stop();
  const last = await place.start();
  assert.deepEqual(startReport(last.log).differences, []);
  await orchestrator.deleteSnapshot(snapshotId);
  for (const each of [first, volume]) await orchestrator.delete(each);
  await place.stop();
});

test('ID9: Probe and /readyz fail while no pool works, and nothing is taken for gone', async (t) => {
  const env = { BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:0' };
  const place = await Place.of(t, 'away', { pools: { main: 'xfs' }, poolSizeMiB: 512, env });
  const { orchestrator, client } = place;
  const { controller, identity } = client;
  const poolPath = place.poolPath('main');
  const url = `http://${metricsAddressOf(place.plugin.log)}`;
  /** Waits until the page has the status, and the pool the state: answers are kept for a second. */
  const becomes = async (status: number, up: number): Promise<string> => {
    for (;;) {
      const response = await fetch(`${url}/readyz`);
      const text = await response.text();
      const found = (await scrape(`${url}/metrics`)).value('blockdelta_pool_up', { pool: 'main' });
      if (response.status === status && found === up) return text;
      await delay(100);
    }
  };
  const volume = await orchestrator.create('away');
  const snapshotId = await orchestrator.snapshot(volume, 'away');
  await becomes(200, 1);
  execFileSync('umount', [poolPath]);
  await probeFails(client);
  const code = 'FAILED_PRECONDITION';
  await refused(identity.Probe({}), code, /pool 'main' cannot be reached/);
  assert.match(await becomes(503, 0), /^not ready: .*main/);
  assert.equal((await fetch(`${url}/healthz`)).status, 200);
  await refused(controller.DeleteVolume({ volume_id: volume.id }), code, /pool 'main'/);
  await refused(controller.DeleteSnapshot({ snapshot_id: snapshotId }), code, /pool 'main'/);
  place.mount('xfs', poolPath);
  assert.deepEqual(await identity.Probe({}), { ready: { value: true } });
  await becomes(200, 1);
  const again = await orchestrator.create('from what was there', { snapshotId });
  assert.ok(existsSync(join(poolPath, 'volumes', again.id)));
  await orchestrator.delete(volume);
  await place.stop();
});

test('a pool that is away does not stop the others, and is taken up when it is back', async (t) => {
  const pools = { near: 'xfs', far: 'btrfs' } as const;
  const place = await Place.of(t, 'far', { pools, poolSizeMiB: 1024 });
  const { orchestrator } = place;
  const far = place.poolPath('far');
  const make = (pool: string): Promise<HeldVolume> =>
    orchestrator.create(`in ${pool}`, { ...FILES, parameters: { pool } });
  const contents = new FileContents();
  const [here, away] = [await make('near'), await make('far')];
  await contents.work(await orchestrator.bringUp(here), random);
  await place.plugin.kill();
  execFileSync('umount', [far]);

  const { client } = await place.start();
  assert.equal(place.count('the pool could not be started'), 1);
  await contents.work(here.targetPath, random);
  await orchestrator.takeDown(here);
  await contents.verify(await orchestrator.bringUp(here));
  const code = 'FAILED_PRECONDITION';
  const lost = /pool 'far' could not be started: .*holds no pool.*tries again/s;
  await refused(orchestrator.bringUp(away), code, lost);
  await refused(orchestrator.delete(away), code, lost);
  const { entries } = await client.controller.ListVolumes({});
  const told = entries.find(({ volume }: Message) => volume.volume_id === away.id);
  assert.equal(told.status.volume_condition.abnormal, true);
  assert.match(told.status.volume_condition.message, /^PoolUnreachable/);
  const { backend_health } = await client.node.NodeGetStorageHealth({});
  assert.match(JSON.stringify(backend_health), /'far' could not be started/);

  place.mount('btrfs', far);
  await place.logged('the pool could be started and is served from now on');
  await client.identity.Probe({});
  assert.deepEqual(startReport(place.plugin.log).differences, []);
  assert.equal(place.count('the pool could not be started'), 1, 'logged once, for all attempts');

  // That a started pool is away, and back, is logged once each: unit/plugin/pool-recovery.
  execFileSync('umount', [far]);
  await refused(orchestrator.bringUp(away), code, /'far' cannot be reached/);
  assert.deepEqual(await client.identity.Probe({}), { ready: { value: true } });
  place.mount('btrfs', far);
  await orchestrator.bringUp(away);
  await orchestrator.takeDown(away);

  // It comes back with an object that the catalogue does not know: that stops every change.
  await place.plugin.kill();
  const strange = `vol-${TEST_NODE_KEY}-00000000-0000-4000-8000-000000000000`;
  writeFileSync(`${far}/volumes/${strange}`, 'x');
  execFileSync('umount', [far]);
  await place.start();
  await orchestrator.create('before', { sizeBytes: 16 * MIB });
  place.mount('btrfs', far);
  await place.logged('the pool could be started and is served from now on');
  const refusal = /has lost rows.*in pool 'far'/;
  await refused(orchestrator.create('after'), code, refusal);
  await refused(orchestrator.delete(away), code, refusal);
  await orchestrator.takeDown(here);
  await orchestrator.bringUp(here);
  await orchestrator.takeDown(here);
});
