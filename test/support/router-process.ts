/** `blockdelta route` as a child process on a real socket. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { packagePath } from '../../src/base/package-root.js';
import { CsiClient } from './csi-client.js';

export interface RouterProcessOptions {
  /** The path of its socket. */
  socket: string;
  env: Record<string, string>;
  /** A program, with its arguments, that executes the router, such as nsenter. */
  by?: readonly string[];
}

export class RouterProcess {
  readonly client: CsiClient;
  readonly endpoint: string;
  readonly #child: ChildProcess;
  readonly #output: string[] = [];

  private constructor({ socket, env, by = [] }: RouterProcessOptions) {
    const main = packagePath('.test-build/src/main.js');
    const [program = '', ...args] = [...by, process.execPath, main, 'route'];
    this.endpoint = `unix://${socket}`;
    this.#child = spawn(program, args, {
      env: { PATH: process.env['PATH'] ?? '', CSI_ENDPOINT: this.endpoint, ...env },
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    this.#child.stderr?.on('data', (chunk: Buffer) => this.#output.push(chunk.toString()));
    this.client = new CsiClient(this.endpoint);
  }

  /** Does not wait for anything. */
  static launch(options: RouterProcessOptions): RouterProcess {
    return new RouterProcess(options);
  }

  /** Resolves when it has found a node. */
  static async start(options: RouterProcessOptions): Promise<RouterProcess> {
    const router = new RouterProcess(options);
    for (;;) {
      if (router.#child.exitCode !== null) throw new Error(`the router exited: ${router.log}`);
      const answer = await router.client.identity.Probe({}).catch(() => null);
      if (answer?.['ready']?.value === true) return router;
      await delay(20);
    }
  }

  get log(): string {
    return this.#output.join('');
  }

  get rssMiB(): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1]) / 1024;
  }

  /** SIGTERM, and the exit code. */
  async stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    this.client.close();
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, 'exit');
      this.#child.kill(signal);
      await ended;
    }
    return this.#child.exitCode;
  }
}
