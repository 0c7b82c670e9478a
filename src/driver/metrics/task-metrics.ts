/** The metrics of worker threads, of the tasks on them, and of the calls of the catalogue. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { DatabaseObserver } from '../database/database-thread.js';
import type { WorkerLoad } from '../native/pool.js';
import type { TaskObserver } from '../native/task-observer.js';

/** The buckets range from an ioctl that returns at once to a copy that takes minutes. */
const TASK_SECONDS = [0.001, 0.01, 0.1, 0.5, 1, 5, 30, 120];
/** The buckets range from a clone of a small file to a stall that fails the health checks of a writer. */
const STALL_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const CATALOGUE_SECONDS = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30];

export class TaskMetrics {
  readonly #tasks: Histogram<'task'>;
  readonly #failures: Counter<'task'>;
  readonly #stalls: Histogram<'pool'>;
  readonly #catalogue: Histogram<'kind'>;
  readonly #workers = new Map<string, () => WorkerLoad>();

  constructor(registry: Registry) {
    const registers = [registry];
    this.#tasks = new Histogram({
      name: 'blockdelta_device_task_seconds',
      help: 'duration of tasks on devices and files, including the wait for a thread',
      labelNames: ['task'],
      buckets: TASK_SECONDS,
      registers,
    });
    this.#failures = new Counter({
      name: 'blockdelta_device_task_failures_total',
      help: 'tasks that the kernel refused, which some calls expect',
      labelNames: ['task'],
      registers,
    });
    this.#stalls = new Histogram({
      name: 'blockdelta_snapshot_stall_seconds',
      help: 'how long writers waited while a snapshot or clone of volumes in use was taken',
      labelNames: ['pool'],
      buckets: STALL_SECONDS,
      registers,
    });
    this.#catalogue = new Histogram({
      name: 'blockdelta_catalogue_call_seconds',
      help: 'duration of reads and writes of the catalogue, including the wait for its thread',
      labelNames: ['kind'],
      buckets: CATALOGUE_SECONDS,
      registers,
    });
    this.#gauge(registers, 'blockdelta_worker_threads', 'the most worker threads there may be', 'threads');
    this.#gauge(registers, 'blockdelta_worker_busy', 'worker threads that are working', 'busy');
    this.#gauge(registers, 'blockdelta_worker_queued', 'tasks or chunks that wait for a worker thread', 'queued');
  }

  tasksOf(pool: string | null): TaskObserver {
    return {
      taskEnded: (task, seconds, hasFailed) => {
        this.#tasks.observe({ task }, seconds);
        // The counter also gets 0, so that the first failure changes the series.
        this.#failures.inc({ task }, hasFailed ? 1 : 0);
      },
      writersStalled: (seconds) => {
        if (pool !== null) this.#stalls.observe({ pool }, seconds);
      },
    };
  }

  readonly catalogue: DatabaseObserver = {
    callEnded: (onlyReads, seconds) => this.#catalogue.observe({ kind: onlyReads ? 'read' : 'write' }, seconds),
  };

  /** @param read the load at the moment of the call */
  addWorkers(set: string, read: () => WorkerLoad): void {
    this.#workers.set(set, read);
  }

  #gauge(registers: Registry[], name: string, help: string, value: keyof WorkerLoad): void {
    const workers = this.#workers;
    new Gauge({
      name,
      help,
      registers,
      labelNames: ['set'],
      collect() {
        for (const [set, read] of workers) this.set({ set }, read()[value]);
      },
    });
  }
}
