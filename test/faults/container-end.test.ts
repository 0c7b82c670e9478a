/**
 * The end of a container during a snapshot: the plugin and everything it has started are killed at once, with their
 * PID namespace, while a file system is frozen. Only a guardian in another container is left to thaw it.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { binaryPath } from '../../src/base/system/binaries.js';
import { mountCapability } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { refused } from '../support/refusal.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';
import { killChildren } from './scene.js';
import { buildPreload, Steps } from './steps.js';

/** All processes in it end with its first one. */
const IN_PID_NAMESPACE = ['unshare', '--pid', '--fork', '--kill-child=KILL'];
const WHILE_FROZEN = 'FICLONE <pool>/snapshots/<snap>.tmp #1';

/** A plugin with a mounted volume, in a PID namespace, whose steps can be held. */
class Container {
  #plugin: Plugin | undefined;
  #volume: HeldVolume | undefined;
  readonly orchestrator: Orchestrator;

  private constructor(
    readonly workspace: Workspace,
    private readonly pool: string,
    private readonly steps: Steps,
    private readonly guardianSocket: string | null,
  ) {
    this.orchestrator = new Orchestrator(workspace, () => this.plugin.client);
  }

  static async make(
    name: string,
    kind: 'xfs' | 'btrfs',
    withGuardian: boolean,
  ): Promise<Container> {
    buildPreload();
    const workspace = new Workspace(name);
    const pool = makePoolFileSystem(workspace, kind);
    const roots = { pool, state: workspace.path('plugin'), work: workspace.directory };
    const steps = await Steps.listen(workspace.path('steps'), roots);
    const socket = withGuardian ? workspace.path('guardian.sock') : null;
    return new Container(workspace, pool, steps, socket);
  }

  get plugin(): Plugin {
    if (this.#plugin === undefined) throw new Error('no plugin was started');
    return this.#plugin;
  }

  async start(): Promise<void> {
    const { guardianSocket: socket } = this;
    const env: Record<string, string> =
      socket === null ? {} : { BLOCKDELTA_GUARDIAN_SOCKET: socket };
    // The library is for the plugin alone: the first program that loads it is the one whose steps it reports.
    const preload = Object.entries(this.steps.environment).map(
      ([name, value]) => `${name}=${value}`,
    );
    const by = [...(socket === null ? [] : IN_PID_NAMESPACE), 'env', ...preload];
    this.#plugin = await Plugin.start(this.workspace, { pools: `main=${this.pool}`, env, by });
  }

  async mountedVolume(): Promise<HeldVolume> {
    const spec = { capability: mountCapability('ext4'), sizeBytes: 64 * MIB };
    const volume = await this.orchestrator.create('written', spec);
    await this.orchestrator.bringUp(volume);
    this.#volume = volume;
    return volume;
  }

  /** kill -9 of all processes while the file systems of a snapshot are frozen. */
  async endDuringSnapshot(volume: HeldVolume): Promise<void> {
    const until = (): Promise<void> => {
      // The end of a namespace may let a guardian in it thaw, or not; this one cannot.
      if (this.guardianSocket === null) killChildren(this.plugin.process, 'blockdelta-guardian');
      return this.plugin.kill();
    };
    this.steps.begin({ step: WHILE_FROZEN, does: 'wait', until });
    await assert.rejects(this.orchestrator.snapshot(volume, 'cut-short'));
    assert.ok(
      this.steps.isReached,
      'the snapshot came to the moment at which its volume is frozen',
    );
    await this.plugin.kill();
    this.steps.begin();
  }

  async dispose(): Promise<void> {
    await this.#plugin?.kill();
    // What a failed test leaves frozen cannot be unmounted.
    const target = this.#volume?.targetPath;
    if (target !== undefined) spawnSync('fsfreeze', ['--unfreeze', target], { stdio: 'ignore' });
    await this.steps.close();
    this.workspace.dispose();
  }
}

function startGuardian(socket: string): ChildProcess {
  return spawn(binaryPath('blockdelta-guardian'), ['--listen', socket], { stdio: 'inherit' });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

/** Freezing what is frozen already fails. */
function isFrozen(mountPoint: string): boolean {
  const isDone = (option: string): boolean =>
    spawnSync('fsfreeze', [option, mountPoint], { stdio: 'ignore' }).status === 0;
  if (!isDone('--freeze')) return true;
  assert.ok(isDone('--unfreeze'));
  return false;
}

for (const kind of ['xfs', 'btrfs'] as const) {
  test(`H19: a guardian in another container thaws when the plugin's is killed during a snapshot on ${kind}`, {
    skip: skipUnlessRoot,
  }, async () => {
    const container = await Container.make(`container-end-${kind}`, kind, true);
    const socket = container.workspace.path('guardian.sock');
    let guardian = startGuardian(socket);
    try {
      await eventually('the guardian listens', () => existsSync(socket));
      await container.start();
      const volume = await container.mountedVolume();
      const file = join(volume.targetPath, 'file');
      await container.endDuringSnapshot(volume);
      await eventually('the file system is thawed', () => !isFrozen(volume.targetPath));
      writeFileSync(file, 'written without a plugin', { flush: true });
      await container.start();
      assert.equal(readFileSync(file, 'utf8'), 'written without a plugin');
      await container.orchestrator.snapshot(volume, 'taken');

      guardian.kill('SIGTERM');
      await ended(guardian);
      const cut = () => container.orchestrator.snapshot(volume, 'without-guardian');
      await refused(cut(), 'UNAVAILABLE', /no guardian answers at .*BLOCKDELTA_GUARDIAN_SOCKET/);
      assert.ok(!isFrozen(volume.targetPath));
      guardian = startGuardian(socket);
      await eventually('the guardian listens', () => existsSync(socket));
      await cut();
      await container.orchestrator.takeDown(volume);
    } finally {
      guardian.kill('SIGKILL');
      await ended(guardian);
      await container.dispose();
    }
  });
}

test('a guardian that ends with the plugin leaves the file system frozen until the next start', {
  skip: skipUnlessRoot,
}, async () => {
  const container = await Container.make('container-end', 'xfs', false);
  try {
    await container.start();
    const volume = await container.mountedVolume();
    await container.endDuringSnapshot(volume);
    assert.ok(isFrozen(volume.targetPath));
    await container.start();
    assert.ok(!isFrozen(volume.targetPath));
    await container.orchestrator.takeDown(volume);
  } finally {
    await container.dispose();
  }
});
