/**
 * The event loop's side of a database: each call runs on the thread that owns the database, because
 * each commit waits for the disk. Knows no tables.
 */
import { Piscina } from 'piscina';
import { CsiError } from '../../base/errors.js';
import type { AsyncCalls } from './calls.js';
import {
  type CallDescription,
  CLOSE,
  type DatabaseAnswer,
  type DatabaseEvent,
  type DatabaseFile,
  type DatabaseTask,
  IDLE,
  OPEN,
} from './thread-task.js';

export type OpenDatabase<T> = AsyncCalls<T> & { close(): Promise<void> };

/** setTimeout's maximum. The thread holds the connection, so it must never be ended as idle. */
const NEVER_MS = 2 ** 31 - 1;

const IDLE_AFTER_MS = 1000;

export interface DatabaseObserver {
  /** A call has ended, however it ended. @param seconds including the time it waited for earlier calls */
  callEnded(onlyReads: boolean, seconds: number): void;
}

export interface ThreadOptions {
  /** The module that the thread runs; its default export comes from `serveDatabase`. */
  worker: URL;
  file: string;
  onEvent?: ((event: DatabaseEvent) => void) | undefined;
  observer?: DatabaseObserver | undefined;
  /** Called when the thread begins to load its module. The thread opens the file when this has resolved. */
  ready?: () => Promise<unknown>;
}

/** Opens the database on a new thread. `T` is the type of the calls that the worker's module serves. */
export async function openDatabase<T extends object>(options: ThreadOptions): Promise<OpenDatabase<T>> {
  const thread = new DatabaseThread(options);
  try {
    await options.ready?.();
    const calls = await thread.open();
    return Object.assign(calls as AsyncCalls<T>, { close: () => thread.close() });
  } catch (thrown) {
    await thread.end();
    throw thrown;
  }
}

class DatabaseThread {
  readonly #onEvent: ThreadOptions['onEvent'];
  readonly #observer: ThreadOptions['observer'];
  readonly #thread: Piscina<DatabaseTask, DatabaseAnswer>;
  #idle: NodeJS.Timeout | undefined;

  constructor({ worker, file, onEvent, observer }: ThreadOptions) {
    this.#onEvent = onEvent;
    this.#observer = observer;
    this.#thread = new Piscina({
      filename: worker.href,
      minThreads: 1,
      maxThreads: 1,
      idleTimeout: NEVER_MS,
      recordTiming: false,
      workerData: { file } satisfies DatabaseFile,
    });
    // A thread that fails to close emits 'error', which ends the process if nothing listens.
    this.#thread.on('error', () => undefined);
  }

  /** One function for each call that the thread serves. */
  async open(): Promise<object> {
    const descriptions = (await this.#run(OPEN, [])) as readonly CallDescription[];
    return Object.fromEntries(
      descriptions.map(({ method, onlyReads }) => [
        method,
        async (...args: unknown[]) => {
          if (!onlyReads) this.#scheduleIdle();
          return this.#observed(onlyReads, method, args);
        },
      ]),
    );
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#run(CLOSE, []);
    await this.end();
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#thread.destroy();
  }

  async #observed(onlyReads: boolean, method: string, args: unknown[]): Promise<unknown> {
    if (this.#observer === undefined) return this.#run(method, args);
    const started = performance.now();
    try {
      return await this.#run(method, args);
    } finally {
      this.#observer.callEnded(onlyReads, (performance.now() - started) / 1000);
    }
  }

  async #run(method: string, args: unknown[]): Promise<unknown> {
    const answer = await this.#thread.run({ method, args });
    for (const event of answer.events ?? []) this.#onEvent?.(event);
    if (!answer.ok) throw new CsiError(answer.code, answer.message, { cause: answer.cause });
    return answer.value;
  }

  /** The thread sleeps between calls and has no timers, so the event loop reports that it is idle. */
  #scheduleIdle(): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      this.#run(IDLE, []).catch(() => undefined);
    }, IDLE_AFTER_MS);
    this.#idle.unref();
  }
}
