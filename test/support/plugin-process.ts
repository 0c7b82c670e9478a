/** The plugin as a bare process, without waiting for readiness: for starts that are killed, must fail or must be fast. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { CsiClient } from './csi-client.js';
import { type PluginOptions, spawnPlugin } from './plugin.js';
import type { Workspace } from './workspace.js';

export class PluginProcess {
  readonly child: ChildProcess;
  readonly #output: string[] = [];
  readonly #ended: Promise<unknown>;
  readonly #socketPath: string;

  constructor(workspace: Workspace, options: PluginOptions = {}) {
    const name = options.name ?? 'plugin';
    this.#socketPath = workspace.path(`${name}.sock`);
    this.child = spawnPlugin(workspace, options);
    this.child.stderr?.on('data', (chunk: Buffer) => this.#output.push(chunk.toString()));
    this.#ended = once(this.child, 'close');
  }

  /** Everything written to stderr so far. */
  get output(): string {
    return this.#output.join('');
  }

  /**
   * Resolves to a client once the plugin is ready. The client is created only when the socket accepts
   * connections, because gRPC waits a second after a failed connection.
   */
  async ready(): Promise<CsiClient> {
    const deadline = Date.now() + 180_000;
    let client: CsiClient | undefined;
    const hasEnded = (): boolean => this.child.exitCode !== null || this.child.signalCode !== null;
    while (!hasEnded() && Date.now() < deadline) {
      if (client === undefined && (await isServed(this.#socketPath))) {
        client = new CsiClient(`unix://${this.#socketPath}`);
      }
      const answer = await client?.identity.Probe({}, { deadlineMs: 10_000 }).catch(() => null);
      if (client !== undefined && answer?.['ready']?.value === true) return client;
      await delay(15);
    }
    client?.close();
    throw new Error(
      `the plugin did not become ready (exit code ${this.child.exitCode}): ${this.output}`,
    );
  }

  /** Resolves when the socket accepts connections: it has its name from bind() on, before listen(). */
  async accepts(): Promise<void> {
    while (!(await isServed(this.#socketPath))) await delay(1);
  }

  /** kill -9, unless it has already exited. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.#ended;
  }

  /** The exit code, or null if it was killed after the timeout. */
  async exitCode(timeoutMs = 300_000): Promise<number | null> {
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
