/**
 * A plugin in a mount namespace of its own: its mounts are seen outside, or it refuses to make them.
 * unit/host/mounts.test.ts judges more kinds of mounts.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ExitCode } from '../../../src/cli/exit-codes.js';
import { end } from '../../support/child-processes.js';
import { runCommand } from '../../support/command.js';
import { specOf } from '../../support/contents.js';
import { mountCapability, probeFails } from '../../support/csi-client.js';
import { copyMountNamespace } from '../../support/mount-namespace.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { refused, statusOf } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { mountsBelow } from '../../support/workspace.js';

/** Where the orchestrator stages and publishes. */
const TREES = ['csi', 'pods'];

const running = runPlugin('propagation', {
  pools: { main: 'xfs' },
  poolSizeMiB: 512,
  prepare({ workspace }) {
    for (const tree of TREES) {
      mkdirSync(workspace.path(tree));
      execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', workspace.path(tree)]);
      execFileSync('mount', ['--make-shared', workspace.path(tree)]);
    }
  },
});
const { orchestrator } = running;
const mounted = (): string[] => mountsBelow(running.workspace.directory);

/** The plugin anew with that setting, by a program that executes it. */
async function startWith(mode: string, by: readonly string[] = []): Promise<void> {
  await running.plugin.stop();
  const pools = `main=${running.poolPath('main')}`;
  await running.start({ pools, env: { BLOCKDELTA_MOUNT_PROPAGATION: mode }, by });
}

/** In a new mount namespace; `script` runs in it first. */
const startIn = (propagation: string, script = ':', mode = 'auto'): Promise<void> =>
  startWith(mode, [
    'unshare',
    '--mount',
    '--propagation',
    propagation,
    '--',
    'sh',
    '-c',
    `${script} && exec "$@"`,
    'sh',
  ]);

function create(name: string): Promise<HeldVolume> {
  return orchestrator.create(name, { capability: mountCapability('ext4'), sizeBytes: 32 * MIB });
}

test('mounts in directories that are shared with the caller are made, and the caller sees them', async () => {
  await startIn('unchanged');
  const volume = await create('shared');
  await orchestrator.bringUp(volume);
  const seen = mounted();
  for (const path of [volume.stagingPath, volume.targetPath]) {
    assert.ok(seen.includes(path), `${path} is not mounted here: ${seen.join(' ')}`);
  }
  await orchestrator.remove(volume);
});

for (const [title, propagation, script] of [
  ['private copies', 'private', ':'],
  ['slaves that are shared again, as of a systemd service,', 'slave', 'mount --make-rshared /'],
] as const) {
  test(`a plugin in a namespace whose mounts are ${title} stages nothing, and the reason says so`, async () => {
    await startIn(propagation, script);
    const volume = await create(title);
    const before = mounted();
    const said = /^staging_target_path .*seen by the plugin alone.*csi.*shared.*bidirectional/;
    await refused(orchestrator.stage(volume), 'FAILED_PRECONDITION', said);
    assert.deepEqual(mounted(), before);
    await orchestrator.unstage(volume);
    await orchestrator.delete(volume);
  });
}

/** Unpublished and still staged, by a plugin whose mounts are seen. */
async function leftStaged(kind: 'ext4' | 'block'): Promise<HeldVolume> {
  const volume = await orchestrator.create(`left ${kind}`, specOf(kind));
  await orchestrator.bringUp(volume);
  await orchestrator.unpublish(volume);
  return volume;
}

test('a plugin that does not see the mounts of its caller releases no staging', async () => {
  await startIn('unchanged');
  const volumes = [await leftStaged('ext4'), await leftStaged('block')];
  const before = mounted();
  // Private copies of the mounts, and none.
  for (const script of [':', `umount --recursive ${running.workspace.path('csi')}`]) {
    await startIn('private', script);
    for (const volume of volumes) {
      const said = /where it is staged, and the plugin cannot see what is mounted there: .*rshared/;
      await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', said);
    }
    assert.deepEqual(mounted(), before);
  }
  await startIn('unchanged');
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('copies of a staging in other mount namespaces go with the staging, and a use of their own keeps it', async () => {
  await startIn('unchanged');
  const { workspace } = running;
  // In the same file system as the stagings, so that only the place in it differs.
  const elsewhere = { ext4: workspace.path('csi', 'elsewhere'), block: workspace.path('csi', 'node') };
  mkdirSync(elsewhere.ext4);
  writeFileSync(elsewhere.block, '');
  const copy = await copyMountNamespace('slave');
  const inside = (...command: string[]): Buffer =>
    execFileSync('nsenter', ['--target', String(copy.pid), '--mount', ...command]);
  try {
    for (const kind of ['ext4', 'block'] as const) {
      const volume = await leftStaged(kind);
      const before = mounted();
      const staged = kind === 'block' ? join(volume.stagingPath, 'device') : volume.stagingPath;
      inside('mount', '--bind', staged, elsewhere[kind]);
      const said = / in the mount namespace of process \d+ .*, beside its staging at /;
      await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', said);
      assert.deepEqual(mounted(), before);
      inside('umount', elsewhere[kind]);
      assert.match(String(inside('cat', '/proc/self/mountinfo')), new RegExp(staged));
      await orchestrator.delete(volume);
    }
  } finally {
    await end(copy);
  }
});

test('a target that is not shared is refused although the volume is staged, and not made', async () => {
  await startIn('unchanged', `mount --make-private ${running.workspace.path('pods')}`);
  const volume = await create('target');
  await orchestrator.stage(volume);
  await refused(orchestrator.publish(volume), 'FAILED_PRECONDITION', /^target_path .*pods/);
  assert.ok(!existsSync(volume.targetPath));
  await orchestrator.remove(volume);
});

test('a command says which directory it needs for a plugin that cannot mount in its own', async (t) => {
  await startIn('unchanged');
  const { workspace, plugin } = running;
  const volume = await create('backed up');
  const snapshot = await orchestrator.snapshot(volume, 'backed-up');
  const backup = (directory: string) =>
    runCommand(t, ['backup', snapshot, '--to', workspace.path('backups')], {
      CSI_ENDPOINT: plugin.endpoint,
      BLOCKDELTA_RUNTIME_DIR: directory,
    });
  const refusal = await backup(workspace.path('hidden'));
  assert.equal(refusal.code, ExitCode.FAILED_PRECONDITION, refusal.stderr);
  assert.match(refusal.stderr, /target_path .*hidden.*set BLOCKDELTA_RUNTIME_DIR to a directory in/);
  const made = await backup(workspace.path('csi', 'commands'));
  assert.equal(made.code, 0, made.stderr);
  await orchestrator.deleteSnapshot(snapshot);
  await orchestrator.remove(volume);
});

test('ID10: a plugin with the setting off serves a private mount, until the loop driver is away', async () => {
  await startIn('private', ':', 'off');
  const volume = await create('off');
  await orchestrator.bringUp(volume);
  assert.ok(!mounted().includes(volume.targetPath));
  await orchestrator.remove(volume);
  const { client, process: child } = running.plugin;
  const inside = (...command: string[]): void => {
    execFileSync('nsenter', ['--target', String(child.pid), '--mount', ...command]);
  };
  inside('mount', '-t', 'tmpfs', 'tmpfs', '/dev');
  await probeFails(client);
  await refused(client.identity.Probe({}), 'FAILED_PRECONDITION', /loop-control.*loop driver/);
  inside('umount', '/dev');
  while ((await statusOf(client.identity.Probe({}))) !== 'OK') await delay(100);
});

test('a plugin with the setting required refuses a directory that is not shared, in any namespace', async () => {
  await startWith('required');
  const volume = await create('required');
  await orchestrator.bringUp(volume);
  await orchestrator.takeDown(volume);
  const other = { ...volume, stagingPath: running.workspace.path('plain', 'staging') };
  await refused(orchestrator.stage(other), 'FAILED_PRECONDITION', /is not shared/);
  await orchestrator.delete(volume);
});
