/**
 * A plugin in a mount namespace of its own: its mounts are seen outside, or it refuses to make them.
 * unit/host/propagation.test.ts judges more kinds of mounts.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { after, before } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { mountCapability, probeFails } from '../support/csi-client.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { refused, statusOf } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import {
  makePoolFileSystem,
  mountsBelow,
  skipUnlessRoot,
  Workspace,
} from '../support/workspace.js';

/** Where the orchestrator stages and publishes. */
const TREES = ['csi', 'pods'];

let workspace: Workspace;
let pool: string;
let plugin: Plugin | undefined;
const orchestrator = new Orchestrator({ path: (...names) => workspace.path(...names) }, () => {
  if (plugin === undefined) throw new Error('no plugin runs');
  return plugin.client;
});

before(() => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('propagation');
  pool = makePoolFileSystem(workspace, 'xfs', 512);
  for (const tree of TREES) {
    mkdirSync(workspace.path(tree));
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', workspace.path(tree)]);
    execFileSync('mount', ['--make-shared', workspace.path(tree)]);
  }
});
after(async () => {
  await plugin?.kill();
  if (skipUnlessRoot === false) workspace.dispose();
});

/** A plugin in a new mount namespace; `script` runs in it first. */
async function startIn(propagation: string, script = ':', mode = 'auto'): Promise<void> {
  await plugin?.stop();
  const by = ['unshare', '--mount', '--propagation', propagation, '--'];
  plugin = await Plugin.start(workspace, {
    pools: `main=${pool}`,
    env: { BLOCKDELTA_MOUNT_PROPAGATION: mode },
    by: [...by, 'sh', '-c', `${script} && exec "$@"`, 'sh'],
  });
}

function create(name: string): Promise<HeldVolume> {
  return orchestrator.create(name, { capability: mountCapability('ext4'), sizeBytes: 32 * MIB });
}

test('mounts in directories that are shared with the caller are made, and the caller sees them', async () => {
  await startIn('unchanged');
  const volume = await create('shared');
  await orchestrator.bringUp(volume);
  const seen = mountsBelow(workspace.directory);
  for (const path of [volume.stagingPath, volume.targetPath]) {
    assert.ok(seen.includes(path), `${path} is not mounted here: ${seen.join(' ')}`);
  }
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

for (const [title, propagation, script] of [
  ['private copies', 'private', ':'],
  ['slaves that are shared again, as of a systemd service,', 'slave', 'mount --make-rshared /'],
] as const) {
  test(`in a namespace whose mounts are ${title} nothing is staged, and the reason says so`, async () => {
    await startIn(propagation, script);
    const volume = await create(title);
    const before = mountsBelow(workspace.directory);
    await refused(
      orchestrator.stage(volume),
      'FAILED_PRECONDITION',
      /^staging_target_path .*seen by the plugin alone.*csi.*shared.*bidirectional/,
    );
    assert.deepEqual(mountsBelow(workspace.directory), before);
    await orchestrator.unstage(volume);
    await orchestrator.delete(volume);
  });
}

test('a target that is not shared is refused although the volume is staged, and not made', async () => {
  await startIn('unchanged', `mount --make-private ${workspace.path('pods')}`);
  const volume = await create('target');
  await orchestrator.stage(volume);
  await refused(orchestrator.publish(volume), 'FAILED_PRECONDITION', /^target_path .*pods/);
  assert.ok(!existsSync(volume.targetPath));
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('ID10: with the setting off a private mount is served, until the loop driver is away', async () => {
  await startIn('private', ':', 'off');
  const volume = await create('off');
  await orchestrator.bringUp(volume);
  assert.ok(!mountsBelow(workspace.directory).includes(volume.targetPath));
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
  const { client, process: child } = plugin ?? assert.fail();
  const inside = (...command: string[]): void => {
    execFileSync('nsenter', ['--target', String(child.pid), '--mount', ...command]);
  };
  inside('mount', '-t', 'tmpfs', 'tmpfs', '/dev');
  await probeFails(client);
  await refused(client.identity.Probe({}), 'FAILED_PRECONDITION', /loop-control.*loop driver/);
  inside('umount', '/dev');
  while ((await statusOf(client.identity.Probe({}))) !== 'OK') await delay(100);
});

test('where it is required, a directory that is not shared is refused in any namespace', async () => {
  await plugin?.stop();
  const env = { BLOCKDELTA_MOUNT_PROPAGATION: 'required' };
  plugin = await Plugin.start(workspace, { pools: `main=${pool}`, env });
  const volume = await create('required');
  await orchestrator.bringUp(volume);
  await orchestrator.takeDown(volume);
  const other = { ...volume, stagingPath: workspace.path('plain', 'staging') };
  await refused(orchestrator.stage(other), 'FAILED_PRECONDITION', /is not shared/);
  await orchestrator.delete(volume);
});
