/** A tool that moves extents, run repeatedly in the background until it is stopped. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import type { Workspace } from './workspace.js';

let started = 0;

export class Mover {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #rounds = 0;
  #output = '';

  private constructor(
    private readonly runFile: string,
    script: string,
    args: readonly string[],
  ) {
    writeFileSync(runFile, '');
    const loop = `run="$1"; shift; while [ -e "$run" ]; do ${script}\necho ROUND; done 2>&1`;
    this.#child = spawn('bash', ['-c', loop, 'mover', runFile, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      const text = chunk.toString();
      this.#rounds += text.split('ROUND').length - 1;
      this.#output = (this.#output + text).slice(-4000);
    });
    this.#ended = once(this.#child, 'close');
  }

  /** `script` finds `args` as $1 and so on, and its own exit status is ignored. */
  static start(workspace: Workspace, script: string, args: readonly string[]): Mover {
    started += 1;
    return new Mover(workspace.path(`mover-${started}.run`), script, args);
  }

  get rounds(): number {
    return this.#rounds;
  }

  /** The end of what the tool said. */
  get output(): string {
    return this.#output;
  }

  /** Lets the current round come to its end. */
  async stop(): Promise<void> {
    rmSync(this.runFile, { force: true });
    await this.#ended;
  }
}
