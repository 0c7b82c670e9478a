/**
 * A pool of worker threads that call the addon, so that the event loop never blocks. The pool starts a thread when it needs
 * one, and ends the threads beyond `kept` when they have been idle for a while. If the pool cannot start a thread (a limit of
 * processes, no memory), tasks run on the threads that it has.
 *
 * A plugin has several pools, so that a scan does not wait behind a clone that takes seconds. A running task is never aborted,
 * because that would kill its thread in the middle of an ioctl; the addon's contract bounds its duration instead.
 */
import { Piscina } from 'piscina';
import { CsiError } from '../../base/errors.js';
import { type NativeFailure, type NativeResult, toSystemError } from '../../base/system/native-result.js';
import { inSpan } from '../../base/tracing.js';
import type { FillRequest } from './addon.js';
import type { Calls } from './file-calls.js';
import type { FillAnswer, FillTask, IdleTask, UnaryTask } from './worker.js';

/** setTimeout's maximum: this pool ends idle threads, and piscina never does. */
const NEVER_MS = 2 ** 31 - 1;
/** Starting a thread costs tens of milliseconds. */
const IDLE_MS = 60_000;

export type UnaryMethod = UnaryTask['method'];
type RequestOf<M extends UnaryMethod> = Parameters<Calls[M]>[0];
type ValueOf<M extends UnaryMethod> = Exclude<ReturnType<Calls[M]>, NativeFailure>;

export interface WorkerLoad {
  threads: number;
  busy: number;
  queued: number;
}

/** Runs device operations; the interface for backends and services. */
export interface NativeRunner {
  /**
   * Calls one addon function on a worker. Rejects with SystemError; ABORTED if too many calls wait for the kernel.
   *
   * @param volumes the ids of the volumes whose file systems or devices the call may wait for; none if the call is for a pool
   */
  run<M extends UnaryMethod>(method: M, request: RequestOf<M>, volumes?: readonly string[]): Promise<ValueOf<M>>;
}

/** A runner whose calls are all for one volume. */
export function ofVolume(native: NativeRunner, volumeId: string): NativeRunner {
  const volumes = [volumeId];
  return { run: (method, request) => native.run(method, request, volumes) };
}

/** Runs scans; the interface for the scanner. */
export interface NativeFiller {
  /**
   * Fills the buffer, which is transferred to the thread and returned in the answer, also after a
   * failure.
   */
  fill(request: FillRequest, buffer: ArrayBuffer): Promise<FillAnswer>;
}

export interface PoolOptions {
  /** How many threads stay when they are idle. */
  kept?: number;
  /** Runs the tasks while this pool has no thread and can start none. */
  fallback?: NativePool;
  idleMs?: number;
}

type Task = UnaryTask | FillTask | IdleTask;

/** One thread. A piscina that starts further threads ends the process if it cannot start one (piscina 5). */
type Thread = Piscina<Task>;

export class NativePool implements NativeRunner, NativeFiller {
  readonly #threads: number;
  readonly #kept: number;
  readonly #idleMs: number;
  readonly #fallback: NativePool | null;
  readonly #started = new Set<Thread>();
  /** Idle threads. The thread that worked last is at the end and is used first, so that the others can end. */
  readonly #idle: { thread: Thread; timer: NodeJS.Timeout | undefined }[] = [];
  /** Tasks that wait for a thread. */
  readonly #waiting: ((thread: Thread) => void)[] = [];
  readonly #running = new Set<Promise<unknown>>();
  #isClosing = false;

  /** @param threads the largest number of threads */
  constructor(threads: number, { kept = 0, fallback, idleMs = IDLE_MS }: PoolOptions = {}) {
    this.#threads = threads;
    this.#kept = kept;
    this.#fallback = fallback ?? null;
    this.#idleMs = idleMs;
  }

  /** How many threads there may be, how many of them are working, and how many tasks wait for one. */
  get load(): WorkerLoad {
    const tasks = this.#running.size;
    const busy = Math.min(tasks, this.#threads);
    return { threads: this.#threads, busy, queued: tasks - busy };
  }

  /** How many threads run now. */
  get started(): number {
    return this.#started.size;
  }

  /** Resolves when every thread that is kept has loaded the addon; rejects if it cannot be loaded. */
  async warm(): Promise<void> {
    const idle: IdleTask = { method: null };
    await Promise.all(Array.from({ length: this.#kept }, () => this.#run(idle)));
  }

  async run<M extends UnaryMethod>(method: M, request: RequestOf<M>): Promise<ValueOf<M>> {
    const task: UnaryTask = { method, request };
    return inSpan({ name: `device ${method}`, attributes: {} }, async () => {
      const result = (await this.#run(task)) as NativeResult<object>;
      if (!result.ok) throw toSystemError(result);
      return result as ValueOf<M>;
    });
  }

  async fill(request: FillRequest, buffer: ArrayBuffer): Promise<FillAnswer> {
    const task: FillTask = { method: 'fillMetadata', request, buffer };
    return (await this.#run(task, [buffer])) as FillAnswer;
  }

  /** Waits for running tasks, then ends the threads. Calls made meanwhile fail with UNAVAILABLE. */
  async close(): Promise<void> {
    this.#isClosing = true;
    // Ending a thread while it runs a task would end the process.
    await Promise.allSettled(this.#running);
    for (const { timer } of this.#idle) clearTimeout(timer);
    await Promise.all([...this.#started].map((thread) => thread.destroy()));
  }

  async #run(task: Task, transferList: ArrayBuffer[] = []): Promise<unknown> {
    if (this.#isClosing) throw CsiError.unavailable('the plugin is stopping');
    const running = this.#runOnThread(task, transferList);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  async #runOnThread(task: Task, transferList: ArrayBuffer[]): Promise<unknown> {
    const thread = this.#takeIdle() ?? this.#start() ?? (await this.#nextFree());
    if (thread === null) return this.#instead(task, transferList);
    try {
      return await thread.run(task, { transferList });
    } finally {
      this.#release(thread);
    }
  }

  #takeIdle(): Thread | null {
    const idle = this.#idle.pop();
    clearTimeout(idle?.timer);
    return idle?.thread ?? null;
  }

  /** Null if the pool has its largest number of threads, or if the system cannot start one. */
  #start(): Thread | null {
    if (this.#started.size >= this.#threads) return null;
    try {
      const thread: Thread = new Piscina({
        filename: new URL('./worker.js', import.meta.url).href,
        minThreads: 1,
        maxThreads: 1,
        idleTimeout: NEVER_MS,
        concurrentTasksPerWorker: 1,
        // V8 does not see the memory of the histograms, so it does not free that memory in time.
        recordTiming: false,
      });
      // A piscina that fails to close emits 'error'; without a listener that would end the process.
      thread.on('error', () => undefined);
      this.#started.add(thread);
      return thread;
    } catch {
      return null;
    }
  }

  /** Null if there is no thread to wait for. */
  async #nextFree(): Promise<Thread | null> {
    if (this.#started.size === 0) return null;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async #instead(task: Task, transferList: ArrayBuffer[]): Promise<unknown> {
    if (this.#fallback !== null) return this.#fallback.#run(task, transferList);
    throw CsiError.unavailable(
      'no thread can be started for device work; raise the limit of processes (pids.max, TasksMax) or free some memory',
    );
  }

  #release(thread: Thread): void {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      next(thread);
      return;
    }
    const end = (): void => this.#end(thread);
    const timer = this.#started.size > this.#kept ? setTimeout(end, this.#idleMs).unref() : undefined;
    this.#idle.push({ thread, timer });
  }

  #end(thread: Thread): void {
    const index = this.#idle.findIndex((idle) => idle.thread === thread);
    if (index < 0 || this.#started.size <= this.#kept) return;
    this.#idle.splice(index, 1);
    this.#started.delete(thread);
    void thread.destroy();
  }
}
