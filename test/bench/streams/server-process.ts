/**
 * A gRPC server in a process of its own, so that its CPU time and memory are its alone. Both ends of it: what the
 * benchmark holds, and what the child runs. The child ends with its parent.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Settings } from '../../../src/tools/bench/suite.js';
import { ProcessMeter } from '../process-meter.js';

/** Event-loop delay since the last question, ms. */
export interface LoopDelay {
  p50: number;
  p99: number;
  max: number;
}

export interface StartOptions {
  arguments?: readonly string[];
  env?: Record<string, string>;
  /** A program, with its arguments, that executes the server, such as nsenter. */
  by?: readonly string[];
  /** The name, without its extension, of a module of this directory that every thread of the server loads first. */
  preload?: string;
}

const NS_PER_MS = 1e6;
/** The timer of the measurement itself; a part of each delay. */
const DELAY_RESOLUTION_MS = 1;

export class ServerProcess {
  readonly meter: ProcessMeter;

  private constructor(
    readonly socketPath: string,
    private readonly child: ChildProcess,
  ) {
    this.meter = new ProcessMeter(child.pid ?? 0);
  }

  /**
   * Starts a script of this directory on a socket; resolves when it serves. The cleanup of the settings stops it.
   *
   * @param script name of the module without its extension, or its whole URL
   */
  static async fork(
    settings: Pick<Settings, 'cleanup'>,
    script: string,
    socketPath: string,
    options: StartOptions = {},
  ): Promise<ServerProcess> {
    const file = new URL(script.includes(':') ? script : `./${script}.js`, import.meta.url);
    const [execPath = process.execPath, ...execArgv] = [...(options.by ?? []), process.execPath];
    const { preload } = options;
    if (preload !== undefined) execArgv.push('--import', new URL(`./${preload}.js`, import.meta.url).href);
    const child = fork(file, [`unix://${socketPath}`, ...(options.arguments ?? [])], {
      env: { ...process.env, ...options.env },
      execPath,
      execArgv,
    });
    const server = new ServerProcess(socketPath, child);
    settings.cleanup.defer(() => server.stop());
    await serves(child, once(child, 'message'), script);
    return server;
  }

  /** Starts a peer, which prints a line when it serves and ends when its stdin is closed. */
  static async spawn(
    settings: Pick<Settings, 'cleanup'>,
    program: string,
    args: readonly string[],
    socketPath: string,
  ): Promise<ServerProcess> {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const server = new ServerProcess(socketPath, child);
    settings.cleanup.defer(() => server.stop());
    await serves(child, once(child.stdout, 'data'), program);
    return server;
  }

  get endpoint(): string {
    return `unix://${this.socketPath}`;
  }

  get pid(): number {
    return this.meter.pid;
  }

  /** Only of a script of this directory. */
  async loopDelay(): Promise<LoopDelay> {
    const answer = once(this.child, 'message');
    this.child.send('loop-delay');
    const [delay] = (await answer) as [LoopDelay];
    return delay;
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}

async function serves(child: ChildProcess, sign: Promise<unknown>, name: string): Promise<void> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${name} ended with ${code} before it served`);
  });
  ended.catch(() => undefined);
  sign.catch(() => undefined);
  await Promise.race([sign, ended]);
}

/** The child's side: says that it serves, answers each question of the parent, ends with it. */
export function reportToParent(): void {
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  process.on('message', () => {
    const answer: LoopDelay = {
      p50: delay.percentile(50) / NS_PER_MS,
      p99: delay.percentile(99) / NS_PER_MS,
      max: delay.max / NS_PER_MS,
    };
    // Enabled by the first question: the timer would cost CPU in rows that do not ask.
    delay.enable();
    delay.reset();
    process.send?.(answer);
  });
  process.on('disconnect', () => process.exit());
  process.send?.('serving');
}

/** The endpoint that the parent gave to this child. */
export function givenEndpoint(): string {
  return givenArgument(0);
}

/** What the parent gave: 0 is the endpoint, 1 the first argument after it. */
export function givenArgument(index: number): string {
  const argument = process.argv[2 + index];
  if (argument === undefined) throw new Error(`started without argument ${index + 1}`);
  return argument;
}
