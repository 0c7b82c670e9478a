/** Runs the plugin as a separate process in a workspace, started with `blockdelta serve`. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { CsiDriver } from '../client/csi-driver.js';
import type { Settings } from './suite.js';
import type { Workspace } from './workspace.js';

const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 20;
const STOP_TIMEOUT_MS = 30_000;
const LOG_LINES = 5;

export interface PluginOptions {
  /** The name of the socket and of the state directory in the workspace. */
  name?: string;
  /** BLOCKDELTA_... settings besides the socket, the state directory and the node's id. */
  env?: Record<string, string>;
}

export class PluginProcess {
  readonly #log: string[] = [];
  readonly #ended: Promise<unknown>;

  private constructor(
    readonly driver: CsiDriver,
    private readonly child: ChildProcess,
  ) {
    this.#ended = once(child, 'close');
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#log.push(chunk.toString());
      this.#log.splice(0, this.#log.length - LOG_LINES);
    });
  }

  /** Resolves when Probe says that the plugin is ready. The cleanup of the settings stops the plugin. */
  static async start(
    settings: Pick<Settings, 'cleanup' | 'program'>,
    workspace: Workspace,
    options: PluginOptions = {},
  ): Promise<PluginProcess> {
    const name = options.name ?? 'plugin';
    const socketPath = workspace.path(`${name}.sock`);
    const child = spawn(process.execPath, [settings.program, 'serve'], {
      env: {
        PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
        CSI_ENDPOINT: `unix://${socketPath}`,
        BLOCKDELTA_STATE_DIR: workspace.path(name),
        BLOCKDELTA_NODE_ID: 'bench',
        // The benchmark is in the plugin's mount namespace, and /tmp of a container may be a private mount.
        BLOCKDELTA_MOUNT_PROPAGATION: 'off',
        BLOCKDELTA_LOG_LEVEL: 'warn',
        ...options.env,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const driver = new CsiDriver(socketPath, new AbortController().signal);
    const plugin = new PluginProcess(driver, child);
    settings.cleanup.defer(() => plugin.stop());
    await plugin.#untilReady();
    return plugin;
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** Sends SIGTERM, and SIGKILL if the plugin does not end in time. */
  async stop(): Promise<void> {
    this.driver.close();
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    this.child.kill('SIGTERM');
    await this.#ended;
    clearTimeout(timer);
  }

  async #untilReady(): Promise<void> {
    const deadline = Date.now() + READY_TIMEOUT_MS;
    while (this.child.exitCode === null && Date.now() < deadline) {
      const answer = await this.driver.connection
        .unary('Probe', {}, { deadlineMs: 1000, waitForReady: true })
        .catch(() => null);
      if (answer?.['ready']?.value === true) return;
      await delay(POLL_MS);
    }
    throw new Error(`the plugin did not become ready; its log ends with: ${this.#log.join('')}`);
  }
}
