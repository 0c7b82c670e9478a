/**
 * A database for the event loop: each call goes to a thread of its own, because each commit waits for
 * the disk. Knows no tables.
 */
import { Piscina } from 'piscina';
import { CsiError } from '../errors.js';
import type { DatabaseAnswer, DatabaseFile, DatabaseTask } from './thread-task.js';

/** The same calls, answered by the thread that owns the database. */
export type OnThread<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;
};

export type OpenDatabase<T> = OnThread<T> & { close(): Promise<void> };

/** Started once and kept: the thread holds the connection. */
const KEEP_MS = 2 ** 31 - 1;

/**
 * @param worker the module that the thread runs; it opens the database at its first call
 * @param methods the names of all calls; the compiler refuses one too few
 * @param first a call without arguments that is made at once, so that a database which cannot be
 *   opened is told here
 */
export async function openDatabase<T extends object>(
  worker: URL,
  file: DatabaseFile,
  methods: Readonly<Record<keyof T, true>>,
  first: keyof T,
): Promise<OpenDatabase<T>> {
  const thread = new Piscina<DatabaseTask, DatabaseAnswer>({
    filename: worker.href,
    minThreads: 1,
    maxThreads: 1,
    idleTimeout: KEEP_MS,
    workerData: file,
  });
  // A thread that fails to close reports it as an 'error' event; unheard, it would end the process.
  thread.on('error', () => undefined);
  const call = async (method: string, args: unknown[]): Promise<unknown> => {
    const answer = await thread.run({ method, args });
    if (!answer.ok) throw new CsiError(answer.code, answer.message, { cause: answer.cause });
    return answer.value;
  };
  try {
    await call(String(first), []);
  } catch (thrown) {
    await thread.destroy();
    throw thrown;
  }
  const calls = Object.fromEntries(
    Object.keys(methods).map((method) => [method, (...args: unknown[]) => call(method, args)]),
  ) as OnThread<T>;
  return Object.assign(calls, {
    close: async () => {
      await call('close', []);
      await thread.destroy();
    },
  });
}
