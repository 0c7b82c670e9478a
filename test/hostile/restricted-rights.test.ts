/** The plugin under the limits of deploy/systemd/blockdelta.service, which are read from that file, and under fewer rights. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import {
  capabilityMask,
  isCapabilityHere,
  type RestrictedCommand,
  restrictedCommand,
  settingsWithoutTest,
  settingWords,
  UNIT_PATH,
  unitCapabilities,
} from '../support/service-unit.js';
import { mountsBelow, Workspace } from '../support/workspace.js';

const SIZE_BYTES = 320 * MIB;
const GROWN_BYTES = 384 * MIB;
const EARLY = Buffer.alloc(2 * MIB, 'early');
const LATE = Buffer.alloc(MIB, 'late');

const TYPES = ['ext4', 'xfs', 'btrfs'] as const;

interface Restricted {
  workspace: Workspace;
  plugin: Plugin;
  orchestrator: Orchestrator;
}

/** A plugin that another program starts, in a workspace of its own. */
async function startBy(t: TestContext, command: (workspace: Workspace) => RestrictedCommand): Promise<Restricted> {
  const workspace = new Workspace('restricted');
  let restricted: RestrictedCommand | undefined;
  let plugin: Plugin | undefined;
  t.after(async () => {
    await plugin?.kill();
    restricted?.dispose();
    workspace.dispose();
  });
  restricted = command(workspace);
  if (restricted.missing.length > 0) {
    t.diagnostic(`not applied on this machine: ${restricted.missing.join(', ')}`);
  }
  plugin = await Plugin.start(workspace, { by: restricted.line });
  const { client } = plugin;
  return { workspace, plugin, orchestrator: new Orchestrator(workspace, () => client) };
}

const startRestricted = (t: TestContext): Promise<Restricted> =>
  startBy(t, ({ directory }) => {
    // Shared, as systemd makes the root directory of every host.
    execFileSync('mount', ['--bind', directory, directory]);
    execFileSync('mount', ['--make-shared', directory]);
    return restrictedCommand(directory);
  });

const bounded = (capabilities: string): RestrictedCommand => ({
  line: ['setpriv', `--bounding-set=${capabilities}`],
  missing: [],
  dispose: () => undefined,
});

async function totalOf({ plugin }: Restricted, volume: HeldVolume): Promise<number> {
  const use = { volume_id: volume.id, volume_path: volume.targetPath };
  return Number((await plugin.client.node.NodeGetVolumeStats(use))['usage'][0].total);
}

test('H4: the plugin does not start without CAP_DAC_READ_SEARCH, and names the capability', async (t) => {
  let started: Workspace | undefined;
  const failed = startBy(t, (workspace) => {
    started = workspace;
    return bounded('-dac_override,-dac_read_search');
  });
  await assert.rejects(failed, /exit code 1\):\n.*the plugin lacks CAP_DAC_READ_SEARCH/s);
  assert.equal(existsSync(started?.path('plugin') ?? '/'), false, 'nothing is made before');
});

/** Of a mounted ext4 it needs CAP_SYS_RESOURCE, which not every machine for tests has. */
const isGrownMounted = (type: string): boolean => type !== 'ext4' || isCapabilityHere('sys_resource');

test('H4: a root directory of mode 0 blocks nothing for a plugin with the documented capabilities', async (t) => {
  const needed = unitCapabilities()
    .filter(isCapabilityHere)
    .map((name) => `+${name}`);
  const restricted = await startBy(t, () => bounded(`-all,${needed.join(',')}`));
  const { orchestrator } = restricted;
  for (const type of TYPES) {
    const capability = mountCapability(type);
    const spec = { capability, sizeBytes: SIZE_BYTES };
    const volume = await orchestrator.create(`closed-${type}`, spec);
    const target = await orchestrator.bringUp(volume);
    chownSync(target, 1000, 1000);
    chmodSync(target, 0);
    const snapshot = await orchestrator.snapshot(volume, `of-${type}`);
    await grow(restricted, volume, type);
    assert.equal(statSync(target).mode & 0o7777, 0);
    await orchestrator.publish(volume);
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
    await orchestrator.remove(volume);
    await orchestrator.deleteSnapshot(snapshot);
  }
});

test('the unit has no setting that these tests do not know', () => {
  assert.deepEqual(settingsWithoutTest(), []);
});

test('systemd accepts the unit', (t) => {
  const workspace = new Workspace('unit');
  t.after(() => workspace.dispose());
  // The programs that the unit starts are not installed on the machine of a test.
  const unit = readFileSync(UNIT_PATH, 'utf8').replace(/^ExecStart=.*$/m, 'ExecStart=/bin/true');
  const copy = workspace.path('blockdelta.service');
  writeFileSync(copy, unit);
  const run = spawnSync('systemd-analyze', ['verify', copy], { encoding: 'utf8' });
  assert.equal(`${run.stdout}${run.stderr}`, '');
  assert.equal(run.status, 0);
});

test('the restricted plugin has the rights of the unit and no others', async (t) => {
  const { workspace, plugin } = await startRestricted(t);
  const proc = `/proc/${plugin.process.pid}`;
  const status = readFileSync(join(proc, 'status'), 'utf8');
  const field = (name: string): string => new RegExp(`^${name}:\\s+(\\w+)$`, 'm').exec(status)?.[1] ?? '';
  const wanted = capabilityMask(unitCapabilities().filter(isCapabilityHere));
  for (const name of ['CapBnd', 'CapPrm', 'CapEff']) {
    assert.equal(BigInt(`0x${field(name)}`), wanted, name);
  }
  assert.equal(field('NoNewPrivs'), '1');
  assert.equal(field('Seccomp'), '2');
  const mounts = readFileSync(join(proc, 'mountinfo'), 'utf8').trim().split('\n');
  const optionsAt = (path: string): string[] =>
    mounts.map((line) => line.split(' ')).find((fields) => fields[4] === path) ?? [];
  assert.match(optionsAt('/')[5] ?? '', /^ro,/, 'the root directory is read-only');
  assert.match(optionsAt(workspace.directory).slice(5).join(' '), /^rw,.*shared:/);
});

test('the restricted plugin serves the life of an ext4, an xfs, a btrfs and a raw volume', async (t) => {
  const restricted = await startRestricted(t);
  for (const type of TYPES) await liveAsFileSystem(restricted, type);
  await liveAsDevice(restricted);
  assert.deepEqual(await restricted.orchestrator.volumeIds(), []);
  const { plugin, workspace } = restricted;
  assert.equal(await plugin.stop(), 0);
  assert.deepEqual(mountsBelow(workspace.directory), [workspace.directory], 'the pool is unmounted');
});

/** Snapshots, a delta, a restored copy and growth, seen from outside of the plugin's mount namespace. */
async function liveAsFileSystem(restricted: Restricted, type: string): Promise<void> {
  const { orchestrator, plugin } = restricted;
  const capability = mountCapability(type);
  const volume = await orchestrator.create(`live-${type}`, { capability, sizeBytes: SIZE_BYTES });
  const target = await orchestrator.bringUp(volume);
  assert.ok(mountsBelow(target).includes(target), `${type} is mounted where the host sees it`);
  writeFileSync(join(target, 'early'), EARLY, { flush: true });
  const first = await orchestrator.snapshot(volume, `first-${type}`);
  writeFileSync(join(target, 'late'), LATE, { flush: true });
  const second = await orchestrator.snapshot(volume, `second-${type}`);
  const delta = await plugin.client.delta(first, second);
  const bytes = delta.ranges.reduce((sum, { size }) => sum + size, 0n);
  assert.ok(bytes >= BigInt(LATE.length) && bytes < BigInt(SIZE_BYTES), `${type}: ${bytes} bytes`);

  await grow(restricted, volume, type);

  const spec = { capability, sizeBytes: SIZE_BYTES, snapshotId: first };
  const copy = await orchestrator.create(`copy-${type}`, spec);
  const copied = await orchestrator.bringUp(copy);
  assert.deepEqual(readFileSync(join(copied, 'early')), EARLY);
  assert.equal(existsSync(join(copied, 'late')), false);
  await orchestrator.remove(copy, volume);
  for (const id of [first, second]) await orchestrator.deleteSnapshot(id);
}

async function grow(restricted: Restricted, volume: HeldVolume, type: string): Promise<void> {
  const { orchestrator } = restricted;
  await orchestrator.expand(volume, GROWN_BYTES);
  const before = await totalOf(restricted, volume);
  if (isGrownMounted(type)) {
    await orchestrator.nodeExpand(volume);
  } else {
    await refused(orchestrator.nodeExpand(volume), 'FAILED_PRECONDITION');
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
  }
  assert.ok((await totalOf(restricted, volume)) > before, `${type} has grown`);
}

async function liveAsDevice({ orchestrator, plugin }: Restricted): Promise<void> {
  const volume = await orchestrator.create('raw', { capability: blockCapability() });
  const target = await orchestrator.bringUp(volume);
  writeFileSync(target, LATE, { flag: 'r+', flush: true });
  const snapshot = await orchestrator.snapshot(volume, 'of-raw');
  const allocated = await plugin.client.allocated(snapshot);
  assert.deepEqual(allocated.ranges, [{ offset: 0n, size: BigInt(LATE.length) }]);
  await orchestrator.remove(volume);
  await orchestrator.deleteSnapshot(snapshot);
}

test('the unit stops the plugin alone, and gives it enough time', () => {
  assert.deepEqual(settingWords('KillMode'), ['process']);
  // The default of BLOCKDELTA_SHUTDOWN_GRACE_SECONDS and the last resort after it.
  assert.ok(Number(settingWords('TimeoutStopSec')[0]) > 20 + 15);
});
