/**
 * A thin backend in a process of its own, with one call at a time, whose steps can be counted and which can be
 * killed before any of them (test/faults/steps.ts). It has no threads and loads nothing but the backend: on an
 * emulated processor each start would take many seconds otherwise. The program is backend-program.ts.
 */
import { type ChildProcess, fork } from 'node:child_process';

import { packagePath } from '../../src/base/package-root.js';
import type { Backend } from '../../src/driver/backends/backend.js';
import type { ThinPoolOptions } from '../../src/driver/backends/thin/thin-backend.js';
import { end, killChildren } from './child-processes.js';

export type BackendOptions = Omit<ThinPoolOptions, 'onEvent'>;

export interface BackendCall {
  /** Of the backend, or of one of its facets: `volumes.create`. */
  method: string;
  args: unknown[];
}

export type BackendAnswer = { value: unknown } | { error: string };

export class BackendProcess {
  private constructor(private readonly child: ChildProcess) {}

  /**
   * Resolves when the backend has started.
   *
   * @param by a command that starts it, with its arguments
   */
  static async start(options: BackendOptions, by: readonly string[] = []): Promise<BackendProcess> {
    const [execPath = '', ...execArgv] = [...by, process.execPath];
    const child = fork(packagePath('.test-build/test/support/backend-program.js'), [], {
      env: { PATH: process.env['PATH'] },
      serialization: 'advanced',
      execPath,
      execArgv,
    });
    const running = new BackendProcess(child);
    await running.#ask({ method: 'start', args: [options] });
    return running;
  }

  /** Methods reject if the process dies, and otherwise with errors that have the message only. */
  get backend(): Backend {
    const called = (method: string): object =>
      new Proxy((...args: unknown[]) => this.#ask({ method, args }), {
        get: (_, name) => called(method === '' ? String(name) : `${method}.${String(name)}`),
      });
    return called('') as Backend;
  }

  async stop(): Promise<void> {
    await this.#ask({ method: 'stop', args: [] });
    await this.end();
  }

  /** Kills it, if it still runs. */
  async end(): Promise<void> {
    await end(this.child);
  }

  killGuardian(): void {
    killChildren(this.child, 'blockdelta-guardian');
  }

  #ask(call: BackendCall): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onDeath = () => reject(new Error(`the process died in ${call.method}`));
      this.child.once('exit', onDeath);
      this.child.once('message', (answer: BackendAnswer) => {
        this.child.off('exit', onDeath);
        if ('value' in answer) resolve(answer.value);
        else reject(new Error(answer.error));
      });
      this.child.send(call);
    });
  }
}
