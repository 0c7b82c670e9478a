/** The plugin as a bare process: for starts that are killed, must fail, or have to be quick. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { packagePath } from '../../src/base/package-root.js';
import { CsiClient } from './csi-client.js';
import type { PluginOptions } from './plugin.js';
import type { Workspace } from './workspace.js';

export class PluginProcess {
  readonly child: ChildProcess;
  readonly #output: string[] = [];
  readonly #ended: Promise<unknown>;
  readonly #socketPath: string;

  constructor(workspace: Workspace, options: PluginOptions = {}) {
    const name = options.name ?? 'plugin';
    this.#socketPath = workspace.path(`${name}.sock`);
    this.child = spawn(process.execPath, [packagePath('.test-build/src/main.js'), 'serve'], {
      env: {
        PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
        CSI_ENDPOINT: `unix://${this.#socketPath}`,
        BLOCKDELTA_STATE_DIR: workspace.path(name),
        BLOCKDELTA_NODE_ID: 'test-node',
        BLOCKDELTA_EMBEDDED_POOL_SIZE: '4Gi',
        ...(options.pools === undefined ? {} : { BLOCKDELTA_POOLS: options.pools }),
        ...options.env,
      },
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    this.child.stderr?.on('data', (chunk: Buffer) => this.#output.push(chunk.toString()));
    this.#ended = once(this.child, 'close');
  }

  /** Everything written to stderr so far. */
  get output(): string {
    return this.#output.join('');
  }

  /**
   * A client, as soon as the plugin is ready. It is made only when somebody listens: a client that
   * finds nobody waits a second before it tries again.
   */
  async ready(): Promise<CsiClient> {
    const deadline = Date.now() + 60_000;
    let client: CsiClient | undefined;
    while (this.child.exitCode === null && Date.now() < deadline) {
      if (client === undefined && (await isServed(this.#socketPath))) {
        client = new CsiClient(`unix://${this.#socketPath}`);
      }
      const answer = await client?.identity.Probe({}, { deadlineMs: 1000 }).catch(() => null);
      if (client !== undefined && answer?.['ready']?.value === true) return client;
      await delay(15);
    }
    client?.close();
    throw new Error(
      `the plugin did not get ready (exit code ${this.child.exitCode}): ${this.output}`,
    );
  }

  /** kill -9, unless it has ended by itself. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.#ended;
  }

  /** The exit code, or null if it had to be killed because it did not end in time. */
  async exitCode(timeoutMs: number): Promise<number | null> {
    const timer = setTimeout(() => this.child.kill('SIGKILL'), timeoutMs);
    await this.#ended;
    clearTimeout(timer);
    return this.child.exitCode;
  }
}

function isServed(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
