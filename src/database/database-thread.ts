/**
 * A database for the event loop: each call goes to a thread of its own, because each commit waits for
 * the disk. Knows no tables.
 */
import { Piscina } from 'piscina';
import { CsiError } from '../base/errors.js';
import { type CallKinds, CLOSE, TIDY } from './database-service.js';
import type { DatabaseAnswer, DatabaseEvent, DatabaseFile, DatabaseTask } from './thread-task.js';

/** The same calls, answered by the thread that owns the database. */
export type OnThread<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;
};

export type OpenDatabase<T> = OnThread<T> & { close(): Promise<void> };

/** Started once and kept: the thread holds the connection. */
const KEEP_MS = 2 ** 31 - 1;

/** How long nothing may be written before the log is emptied. */
const TIDY_AFTER_MS = 1000;

export interface ThreadOptions<T> {
  /** The module that the thread runs; it opens the database at its first call. */
  worker: URL;
  file: DatabaseFile;
  kinds: CallKinds<T>;
  /**
   * A call without arguments that is made at once, so that a database which cannot be opened is told
   * here.
   */
  first: keyof T;
  onEvent?: ((event: DatabaseEvent) => void) | undefined;
}

export async function openDatabase<T extends object>(
  options: ThreadOptions<T>,
): Promise<OpenDatabase<T>> {
  const thread = new DatabaseThread(options);
  try {
    await thread.call(String(options.first), []);
  } catch (thrown) {
    await thread.end();
    throw thrown;
  }
  const calls = Object.fromEntries(
    Object.keys(options.kinds).map((method) => [
      method,
      (...args: unknown[]) => thread.call(method, args),
    ]),
  ) as OnThread<T>;
  return Object.assign(calls, { close: () => thread.close() });
}

class DatabaseThread<T extends object> {
  readonly #options: ThreadOptions<T>;
  readonly #thread: Piscina<DatabaseTask, DatabaseAnswer>;
  #tidying: NodeJS.Timeout | undefined;

  constructor(options: ThreadOptions<T>) {
    this.#options = options;
    this.#thread = new Piscina({
      filename: options.worker.href,
      minThreads: 1,
      maxThreads: 1,
      idleTimeout: KEEP_MS,
      workerData: options.file,
    });
    // A thread that fails to close reports it as an 'error' event; unheard, it would end the process.
    this.#thread.on('error', () => undefined);
  }

  async call(method: string, args: unknown[]): Promise<unknown> {
    if (this.#options.kinds[method as keyof T] !== 'reads') this.#tidyLater();
    return this.#run(method, args);
  }

  async close(): Promise<void> {
    clearTimeout(this.#tidying);
    await this.#run(CLOSE, []);
    await this.end();
  }

  async end(): Promise<void> {
    clearTimeout(this.#tidying);
    await this.#thread.destroy();
  }

  async #run(method: string, args: unknown[]): Promise<unknown> {
    const answer = await this.#thread.run({ method, args });
    for (const event of answer.events ?? []) this.#options.onEvent?.(event);
    if (!answer.ok) throw new CsiError(answer.code, answer.message, { cause: answer.cause });
    return answer.value;
  }

  /** A second after the last write: the thread itself has no timers, it sleeps between its calls. */
  #tidyLater(): void {
    clearTimeout(this.#tidying);
    this.#tidying = setTimeout(() => {
      this.#run(TIDY, []).catch(() => undefined);
    }, TIDY_AFTER_MS);
    this.#tidying.unref();
  }
}
