/** Both ends of a process that writes one block after the other, and knows how long it waited between two of them. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Settings } from '../../../src/tools/bench/suite.js';

/** Nanoseconds of the monotonic clock, which all processes share. */
export interface Interval {
  from: bigint;
  to: bigint;
}

/** Between two finished writes, ms. */
export interface Gaps {
  writes: number;
  p50: number;
  p99: number;
  longest: number;
}

export interface Question {
  from: string;
  to: string;
}

export class Writer {
  private constructor(private readonly child: ChildProcess) {}

  /** Resolves when it writes. It writes every second block, durably. */
  static async start(settings: Pick<Settings, 'cleanup'>, device: string, blocks: number): Promise<Writer> {
    const child = fork(new URL('./writer-process.js', import.meta.url), [device, String(blocks)]);
    const writer = new Writer(child);
    settings.cleanup.defer(() => writer.stop());
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`the writer of ${device} ended with ${code}`);
    });
    ended.catch(() => undefined);
    await Promise.race([once(child, 'message'), ended]);
    return writer;
  }

  /** Of the gaps that the interval touches. */
  async gaps({ from, to }: Interval): Promise<Gaps> {
    const answer = once(this.child, 'message');
    const question: Question = { from: String(from), to: String(to) };
    this.child.send(question);
    const [gaps] = (await answer) as [Gaps];
    return gaps;
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await ended;
  }
}
