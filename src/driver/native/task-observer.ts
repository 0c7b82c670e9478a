/**
 * Reports the tasks of a runner to whoever counts them. The observer's methods run on the event loop after
 * every task, so they must return at once and never throw.
 */
import type { NativeRunner, UnaryMethod } from './pool.js';

export interface TaskObserver {
  /** @param seconds including the time it waited for a thread */
  taskEnded(method: UnaryMethod, seconds: number, hasFailed: boolean): void;
  /** Snapshots or clones were taken of volumes that are in use, and their writers waited this long. */
  writersStalled(seconds: number): void;
}

export function observeTasks(runner: NativeRunner, observer: TaskObserver): NativeRunner {
  return {
    run: async (method, request, volumes) => {
      const started = performance.now();
      let hasFailed = true;
      try {
        const value = await runner.run(method, request, volumes);
        hasFailed = false;
        const stalledNs = stallOf(value);
        if (stalledNs > 0n) observer.writersStalled(Number(stalledNs) / 1e9);
        return value;
      } finally {
        observer.taskEnded(method, (performance.now() - started) / 1000, hasFailed);
      }
    },
  };
}

/** How long a task has stopped writers according to its result, ns. */
function stallOf(value: object): bigint {
  const { frozenNs, suspendedNs } = value as { frozenNs?: bigint; suspendedNs?: bigint };
  return frozenNs ?? suspendedNs ?? 0n;
}
