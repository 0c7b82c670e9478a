/**
 * The real plugin as a child process on a real socket. Most tests use running-plugin.ts, which adds pools and
 * an orchestrator for all tests of a file; this is for tests that start several plugins, or several times.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { packagePath } from '../../src/base/package-root.js';
import { CsiClient } from './csi-client.js';
import type { Workspace } from './workspace.js';

export interface PluginOptions {
  /** name=/directory pairs; without them, the embedded default pool in the state directory. */
  pools?: string;
  env?: Record<string, string>;
  /** Name of the state directory and the socket in the workspace. */
  name?: string;
  /** A program, with its arguments, that executes the plugin, such as setpriv. */
  by?: readonly string[];
}

/** A plugin, wherever it runs. */
export type AnyPlugin = Pick<Plugin, 'client' | 'endpoint' | 'log' | 'stop' | 'kill'>;

/** The settings of a test. */
export function pluginEnvironment(
  workspace: Pick<Workspace, 'path'>,
  { name = 'plugin', pools, env }: PluginOptions,
): NodeJS.ProcessEnv {
  return {
    PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
    CSI_ENDPOINT: `unix://${workspace.path(`${name}.sock`)}`,
    BLOCKDELTA_STATE_DIR: workspace.path(name),
    BLOCKDELTA_NODE_ID: 'test-node',
    BLOCKDELTA_EMBEDDED_POOL_SIZE: '4Gi',
    // Each thread that is started costs as much as loading a tenth of the plugin.
    BLOCKDELTA_DEVICE_THREADS: '2',
    // The tests are in the plugin's mount namespace, and /tmp of a container may be a private mount.
    BLOCKDELTA_MOUNT_PROPAGATION: 'off',
    ...(pools === undefined ? {} : { BLOCKDELTA_POOLS: pools }),
    ...env,
  };
}

/** Starts `blockdelta serve` with the settings of a test. Its stderr is a pipe. */
export function spawnPlugin(workspace: Workspace, options: PluginOptions = {}): ChildProcess {
  const main = packagePath('.test-build/src/main.js');
  const [program, ...args] = [...(options.by ?? []), process.execPath, main, 'serve'];
  return spawn(program as string, args, {
    env: pluginEnvironment(workspace, options),
    stdio: ['ignore', 'inherit', 'pipe'],
  });
}

export class Plugin {
  private constructor(
    readonly process: ChildProcess,
    readonly client: CsiClient,
    readonly endpoint: string,
    private readonly output: string[],
  ) {}

  /** Starts the plugin and waits until Probe answers ready. */
  static async start(workspace: Workspace, options: PluginOptions = {}): Promise<Plugin> {
    const name = options.name ?? 'plugin';
    const endpoint = `unix://${workspace.path(`${name}.sock`)}`;
    const output: string[] = [];
    const child = spawnPlugin(workspace, options);
    child.stderr?.on('data', (chunk: Buffer) => output.push(chunk.toString()));
    const plugin = new Plugin(child, new CsiClient(endpoint), endpoint, output);
    try {
      await plugin.#waitReady();
    } catch (thrown) {
      await plugin.kill();
      throw thrown;
    }
    return plugin;
  }

  /** Everything the plugin has logged so far. */
  get log(): string {
    return this.output.join('');
  }

  /** SIGTERM, and the exit code. */
  async stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  /** kill -9. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    this.client.close();
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const ended = once(this.process, 'exit');
      this.process.kill(signal);
      await ended;
    }
    return this.process.exitCode;
  }

  async #waitReady(): Promise<void> {
    // Only what hangs takes so long, also in an emulated guest on a busy machine.
    const deadline = Date.now() + 600_000;
    // The pauses grow: on a slow machine, frequent Probe calls delay the start.
    for (let pause = 20; ; pause = Math.min(pause * 1.2, 500)) {
      if (this.process.exitCode !== null) {
        throw new Error(`the plugin exited with ${this.process.exitCode}:\n${this.log}`);
      }
      try {
        const answer = await this.client.identity.Probe({}, { deadlineMs: 10_000 });
        if (answer['ready']?.value !== false) return;
      } catch {
        // Not listening yet.
      }
      if (Date.now() > deadline) throw new Error(`the plugin did not become ready:\n${this.log}`);
      await delay(pause);
    }
  }
}
