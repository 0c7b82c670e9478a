/**
 * A gRPC server in a process of its own, so that its CPU time and memory are its alone. Both ends
 * of it: what the benchmark holds, and what the child runs. The child ends with its parent.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { packagePath } from '../../src/base/package-root.js';

interface Report {
  cpuMicros: number;
}

const MIB = 1 << 20;
/** proc_pid_clear_refs(5): sets VmHWM back to VmRSS. */
const RESET_PEAK = '5\n';

export class ServerProcess {
  private constructor(
    readonly endpoint: string,
    readonly pid: number,
    private readonly process: ChildProcess,
  ) {}

  /**
   * Starts test/bench/<script>.js on a socket; resolves when it serves.
   *
   * @param by a program, with its arguments, that executes it, such as nsenter
   */
  static async start(
    script: string,
    endpoint: string,
    options: readonly string[] = [],
    { env = {}, by = [] }: { env?: Record<string, string>; by?: readonly string[] } = {},
  ): Promise<ServerProcess> {
    const file = packagePath(`.test-build/test/bench/${script}.js`);
    const [program = process.execPath, ...args] = [...by, process.execPath];
    const child = fork(file, [endpoint, ...options], {
      env: { ...process.env, ...env },
      execPath: program,
      execArgv: args,
    });
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`${script} ended with ${code} before it served`);
    });
    await Promise.race([once(child, 'message'), ended]);
    ended.catch(() => undefined);
    return new ServerProcess(endpoint, child.pid ?? 0, child);
  }

  /** CPU time of all its threads until now, user and system, ms. */
  async cpuMs(): Promise<number> {
    const answer = once(this.process, 'message');
    this.process.send('report');
    const [report] = (await answer) as [Report];
    return report.cpuMicros / 1000;
  }

  rssMiB(): number {
    return this.#statusMiB('VmRSS');
  }

  /** The highest RSS since it was reset. */
  peakMiB(): number {
    return this.#statusMiB('VmHWM');
  }

  resetPeak(): void {
    writeFileSync(`/proc/${this.pid}/clear_refs`, RESET_PEAK);
  }

  async stop(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
  }

  #statusMiB(field: string): number {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    const kib = new RegExp(`^${field}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1];
    if (kib === undefined) throw new Error(`/proc/${this.pid}/status has no ${field}`);
    return (Number(kib) * 1024) / MIB;
  }
}

/** The child's side: says that it serves, answers every question of the parent, ends with it. */
export function reportToParent(): void {
  process.on('message', () => {
    const { user, system } = process.cpuUsage();
    const report: Report = { cpuMicros: user + system };
    process.send?.(report);
  });
  process.on('disconnect', () => process.exit());
  process.send?.('serving');
}

/** The endpoint the parent gave to this child. */
export function givenEndpoint(): string {
  return givenOption(0);
}

/** What the parent gave: 0 is the endpoint, 1 the first option. */
export function givenOption(index: number): string {
  const option = process.argv[2 + index];
  if (option === undefined) throw new Error(`started without argument ${index + 1}`);
  return option;
}
