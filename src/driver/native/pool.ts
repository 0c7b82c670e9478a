/**
 * A pool of pre-warmed worker threads that call the addon, so that the event loop never blocks.
 *
 * A plugin has several pools, so that a scan does not wait behind a clone that takes seconds. A running
 * task is never aborted, which would kill its thread in the middle of an ioctl; the addon's
 * contract bounds its duration instead.
 */
import { Piscina } from 'piscina';
import { CsiError } from '../../base/errors.js';
import {
  type NativeFailure,
  type NativeResult,
  toSystemError,
} from '../../base/system/native-result.js';
import { inSpan } from '../../base/tracing.js';
import type { Addon, FillRequest } from './addon.js';
import type { FillAnswer, FillTask, IdleTask, UnaryTask } from './worker.js';

/** Idle threads of a fixed pool never end: starting one costs tens of milliseconds. */
const NEVER_MS = 2 ** 31 - 1;
const IDLE_TIMEOUT_MS = 60_000;

export type UnaryMethod = UnaryTask['method'];
type RequestOf<M extends UnaryMethod> = Parameters<Addon[M]> extends [infer R] ? R : undefined;
type ValueOf<M extends UnaryMethod> = Exclude<ReturnType<Addon[M]>, NativeFailure>;

export interface WorkerLoad {
  threads: number;
  busy: number;
  queued: number;
}

/** Runs device operations; the interface for backends and services. */
export interface NativeRunner {
  /** Calls one addon function on a worker. Rejects with SystemError. */
  run<M extends UnaryMethod>(method: M, request: RequestOf<M>): Promise<ValueOf<M>>;
}

/** Runs scans; the interface for the scanner. */
export interface NativeFiller {
  /**
   * Fills the buffer, which is transferred to the thread and returned in the answer, also after a
   * failure.
   */
  fill(request: FillRequest, buffer: ArrayBuffer): Promise<FillAnswer>;
}

export class NativePool implements NativeRunner, NativeFiller {
  readonly #pool: Piscina<UnaryTask | FillTask | IdleTask>;
  readonly #threads: number;
  readonly #kept: number;
  readonly #running = new Set<Promise<unknown>>();
  #isClosing = false;

  /** @param kept threads that stay when they are idle; the others are started when they are needed */
  constructor(threads: number, kept = threads) {
    this.#threads = threads;
    this.#kept = kept;
    this.#pool = new Piscina({
      filename: new URL('./worker.js', import.meta.url).href,
      minThreads: kept,
      maxThreads: threads,
      idleTimeout: kept === threads ? NEVER_MS : IDLE_TIMEOUT_MS,
      concurrentTasksPerWorker: 1,
    });
    // A pool that fails to close emits 'error'; without a listener that would end the process.
    this.#pool.on('error', () => undefined);
  }

  /** How many threads there are, how many of them are working, and how many tasks wait for one. */
  get load(): WorkerLoad {
    const tasks = this.#running.size;
    const busy = Math.min(tasks, this.#threads);
    return { threads: this.#threads, busy, queued: tasks - busy };
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
    // Piscina's close() waits for one task only, and ending a thread while it runs another task
    // would end the process.
    await Promise.allSettled(this.#running);
    await this.#pool.close();
  }

  async #run(task: UnaryTask | FillTask | IdleTask, transferList: ArrayBuffer[] = []) {
    if (this.#isClosing) throw CsiError.unavailable('the plugin is stopping');
    const running: Promise<unknown> = this.#pool.run(task, { transferList });
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }
}
