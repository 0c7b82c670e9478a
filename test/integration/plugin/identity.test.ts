/** The process around the services: its socket, its files, its namespaces, and a state directory older than the pool. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../../src/base/package-root.js';
import { blockCapability, mountCapability } from '../../support/csi-client.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { Plugin } from '../../support/plugin.js';
import { allRpcs } from '../../support/raw-call.js';
import { refused } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { mountsBelow } from '../../support/workspace.js';

const running = runPlugin('identity', { pools: { main: 'xfs' } });
const { orchestrator } = running;

test('ID11: five hundred Probes at once are all answered, between other calls', async () => {
  const { client } = running;
  const probes = Array.from({ length: 500 }, () => client.identity.Probe({}));
  const other = client.controller.ListVolumes({});
  for (const answer of await Promise.all(probes)) assert.equal(answer['ready'].value, true);
  assert.deepEqual((await other)['entries'], []);
});

test('E1, E7, E11: every service answers on the one socket for as long as the process runs', async () => {
  const { client } = running;
  const { process: child } = running.plugin;
  assert.equal(new Set(allRpcs().map(({ service }) => service)).size, 5);
  await client.identity.Probe({});
  await client.controller.ControllerGetCapabilities({});
  await client.groups.GroupControllerGetCapabilities({});
  await client.node.NodeGetCapabilities({});
  await refused(client.allocated('none-exist-id'), 'NOT_FOUND');
  assert.equal(child.exitCode, null);
});

test('E8: nothing is written except to stderr, the state directory and the pools', async () => {
  const { process: child } = running.plugin;
  const find = [`/proc/${child.pid}/fd`, '-type', 'l', '-printf', '%l\\n'];
  // It fails if a file is closed meanwhile.
  const opened = spawnSync('find', find, { encoding: 'utf8' }).stdout.split('\n');
  assert.ok(opened.length > 10);
  const files = opened.filter((path) => path.startsWith('/') && !path.startsWith('/dev/'));
  const allowed = ['plugin', 'xfs.pool'].map((name) => running.workspace.path(name));
  const strays = files.filter((file) => !allowed.some((path) => file.startsWith(`${path}/`)));
  assert.deepEqual(strays, []);
});

test('E3: the plugin creates nothing beside the socket', async () => {
  const names = readdirSync(running.workspace.directory).sort();
  assert.deepEqual(names, ['plugin', 'plugin.sock', 'xfs.img', 'xfs.pool']);
});

test('a pool that another catalogue serves is refused, and left as it is', async (t) => {
  const { workspace, client } = running;
  const mounts = mountsBelow(workspace.directory);
  const pools = `main=${running.poolPath('main')}`;
  const second = Plugin.launch(workspace, { name: 'second', pools });
  t.after(() => second.kill());
  assert.equal(await second.exitCode(), 1, second.log);
  assert.match(second.log, /pool 'main'.*belongs to the catalogue.*one state directory/);
  assert.deepEqual(mountsBelow(workspace.directory), mounts);
  assert.equal((await client.identity.Probe({}))['ready'].value, true);
});

test('only its owner can read the catalogue, whatever the mode of the state directory', () => {
  const state = running.workspace.path('plugin');
  const files = readdirSync(state, { withFileTypes: true }).filter((entry) => entry.isFile());
  assert.ok(files.some(({ name }) => name.startsWith('catalogue.sqlite')));
  for (const { name } of files) assert.equal(statSync(`${state}/${name}`).mode & 0o077, 0, name);
});

const content = Buffer.alloc(65536, 'older catalogue ');

/** Used as a device, which then begins with the content: no known signature. */
async function assertRaw(volume: HeldVolume): Promise<void> {
  const held = { ...volume, capability: blockCapability() };
  const found = readFileSync(await orchestrator.bringUp(held)).subarray(0, content.length);
  assert.deepEqual(found, content);
  await orchestrator.takeDown(held);
}

// What such a catalogue calls pristine may contain data by now.
test('what a restored catalogue calls pristine is not formatted, nor are its copies', async () => {
  const [state, backup] = [running.workspace.path('plugin'), running.workspace.path('backup')];
  const files = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };
  const mounted = await orchestrator.create('mounted', files);
  const raw = await orchestrator.create('raw', { sizeBytes: 16 * MIB });
  const untouched = await orchestrator.create('untouched', files);
  await running.restart(() => cpSync(state, backup, { recursive: true }));
  writeFileSync(join(await orchestrator.bringUp(mounted), 'data'), content, { flush: true });
  await orchestrator.takeDown(mounted);
  writeFileSync(await orchestrator.bringUp(raw), content, { flag: 'r+', flush: true });
  await orchestrator.takeDown(raw);
  await running.restart(() => {
    rmSync(state, { recursive: true });
    cpSync(backup, state, { recursive: true });
  });

  const snapshotId = await orchestrator.snapshot(raw, 'snapshot');
  const clone = await orchestrator.create('clone', { sizeBytes: 16 * MIB, volumeId: raw.id });
  const restored = await orchestrator.create('restored', { sizeBytes: 16 * MIB, snapshotId });
  for (const volume of [raw, clone, restored]) {
    const staged = orchestrator.stage({ ...volume, capability: files.capability });
    await refused(staged, 'FAILED_PRECONDITION', /was used before .*nothing was formatted/);
    const file = readFileSync(running.poolPath('main', 'volumes', volume.id));
    assert.deepEqual(file.subarray(0, content.length), content);
    await assertRaw(volume);
  }
  const otherwise = orchestrator.stage({ ...mounted, capability: mountCapability('xfs') });
  await refused(otherwise, 'FAILED_PRECONDITION', /type ext4.*nothing was formatted/);
  assert.deepEqual(readFileSync(join(await orchestrator.bringUp(mounted), 'data')), content);
  await orchestrator.bringUp(untouched);
  await orchestrator.remove(mounted, untouched);
  for (const volume of [raw, clone, restored]) await orchestrator.delete(volume);
  await orchestrator.deleteSnapshot(snapshotId);
});

test('E12: the plugin works fully in its own mount and process namespaces', () => {
  const script = packagePath('.test-build/test/support/namespaced-lifecycle.js');
  const args = ['-m', '-p', '-f', '--mount-proc', process.execPath, script];
  // Throws with what it told.
  execFileSync('unshare', args);
});
