/**
 * Runs what awaits very often on a thread of its own: the test runner follows every promise of its thread, which takes longer than
 * what is tested.
 */
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

interface Task {
  readonly module: string;
  readonly asked: readonly unknown[];
}

interface Answer {
  readonly said: readonly string[];
  /** What was thrown, with its causes: the message alone crosses to another thread. */
  readonly failure: string | null;
}

/**
 * Resolves to what `enumerate` of the module resolves to there.
 *
 * @param module the URL of the module
 */
export async function enumerateThere(module: string, asked: readonly unknown[]): Promise<readonly string[]> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { module, asked } satisfies Task });
  const [[{ said, failure }]] = (await Promise.all([once(worker, 'message'), once(worker, 'exit')])) as [
    [Answer],
    unknown,
  ];
  if (failure !== null) throw new Error(failure);
  return said;
}

async function run({ module, asked }: Task): Promise<Answer> {
  try {
    const { enumerate } = (await import(module)) as { enumerate(asked: readonly unknown[]): Promise<string[]> };
    return { said: await enumerate(asked), failure: null };
  } catch (thrown) {
    return { said: [], failure: whole(thrown) };
  }
}

function whole(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return thrown.cause === undefined ? thrown.message : `${thrown.message}: ${whole(thrown.cause)}`;
}

if (!isMainThread) {
  // Only messages are told, and stacks take a while.
  Error.stackTraceLimit = 0;
  parentPort?.postMessage(await run(workerData as Task));
  // Calls that a test has stopped wait for ever.
  process.exit();
}
