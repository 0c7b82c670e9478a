/**
 * The real plugin as a child process on a real socket. Most tests use running-plugin.ts, which adds pools and
 * an orchestrator for all tests of a file; this is for tests that start several plugins, or several times.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { CsiClient } from './csi-client.js';
import { PROGRAM } from './program.js';
import type { Workspace } from './workspace.js';

export interface PluginOptions {
  /** name=/directory pairs; without them, the embedded default pool in the state directory. */
  pools?: string;
  env?: Record<string, string>;
  /** Name of the state directory and the socket in the workspace. */
  name?: string;
  /** A program, with its arguments, that executes the plugin, such as setpriv. */
  by?: readonly string[];
  /** The script of another build. */
  program?: string;
}

export interface RouterOptions {
  /** The path of its socket. */
  socket: string;
  env: Record<string, string>;
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
    BLOCKDELTA_SCAN_THREADS: '1',
    BLOCKDELTA_DEVICE_THREADS: '2',
    // The tests are in the plugin's mount namespace, and /tmp of a container may be a private mount.
    BLOCKDELTA_MOUNT_PROPAGATION: 'off',
    ...(pools === undefined ? {} : { BLOCKDELTA_POOLS: pools }),
    ...env,
  };
}

/** Its stderr is a pipe. */
function spawnMain(
  command: string,
  env: NodeJS.ProcessEnv,
  by: readonly string[] = [],
  script = PROGRAM,
): ChildProcess {
  const [program = '', ...args] = [...by, process.execPath, script, command];
  return spawn(program, args, { env, stdio: ['ignore', 'inherit', 'pipe'] });
}

/** `blockdelta serve`, or `blockdelta route`. */
export class Plugin {
  readonly client: CsiClient;
  readonly #output: string[] = [];
  readonly #ended: Promise<unknown>;

  private constructor(
    readonly process: ChildProcess,
    readonly endpoint: string,
  ) {
    this.process.stderr?.on('data', (chunk: Buffer) => this.#output.push(chunk.toString()));
    this.#ended = once(this.process, 'close');
    this.client = new CsiClient(endpoint);
  }

  /** Waits for nothing: for starts that are killed or must fail. */
  static launch(workspace: Workspace, options: PluginOptions = {}): Plugin {
    const endpoint = `unix://${workspace.path(`${options.name ?? 'plugin'}.sock`)}`;
    const environment = pluginEnvironment(workspace, options);
    return new Plugin(spawnMain('serve', environment, options.by, options.program), endpoint);
  }

  /** `blockdelta route`, likewise. */
  static route({ socket, env, by }: RouterOptions): Plugin {
    const endpoint = `unix://${socket}`;
    const environment = { PATH: process.env['PATH'] ?? '', CSI_ENDPOINT: endpoint, ...env };
    return new Plugin(spawnMain('route', environment, by), endpoint);
  }

  /** Starts the plugin and waits until Probe answers ready. */
  static async start(workspace: Workspace, options: PluginOptions = {}): Promise<Plugin> {
    return Plugin.launch(workspace, options).ready();
  }

  /** Everything on stderr so far. */
  get log(): string {
    return this.#output.join('');
  }

  /** SIGTERM, and the exit code. */
  async stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  /** kill -9. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** When it ends by itself, or null if it has to be killed after five minutes. */
  async exitCode(): Promise<number | null> {
    const timer = setTimeout(() => this.process.kill('SIGKILL'), 300_000);
    await this.#ended;
    clearTimeout(timer);
    this.client.close();
    return this.process.exitCode;
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    this.client.close();
    this.process.kill(signal);
    await this.#ended;
    return this.process.exitCode;
  }

  /** Resolves when Probe answers ready; kills it and throws if that never comes. */
  async ready(): Promise<this> {
    // Only what hangs takes so long, also in an emulated guest on a busy machine.
    const deadline = Date.now() + 600_000;
    // The pauses grow: on a slow machine, frequent Probe calls delay the start.
    for (let pause = 20; Date.now() < deadline; pause = Math.min(pause * 1.2, 500)) {
      if (this.process.exitCode !== null || this.process.signalCode !== null) break;
      const answer = await this.client.identity.Probe({}, { deadlineMs: 10_000 }).catch(() => null);
      if (answer?.['ready']?.value === true) return this;
      await delay(pause);
    }
    await this.kill();
    throw new Error(`it did not become ready (exit code ${this.process.exitCode}):\n${this.log}`);
  }
}
