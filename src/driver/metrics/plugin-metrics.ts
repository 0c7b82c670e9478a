/** The metrics of `blockdelta serve`: those of every server, and those that only a node's plugin has. */

import { Metrics, type MetricsOptions } from '../../server/metrics/metrics.js';
import type { NativeRunner, WorkerLoad } from '../native/pool.js';
import { observeTasks } from '../native/task-observer.js';
import { GuardianMetrics } from './guardian-metrics.js';
import { ScanMetrics } from './scan-metrics.js';
import { StorageMetrics, type StorageSources } from './storage-metrics.js';
import { TaskMetrics } from './task-metrics.js';

export interface PluginMetricsOptions extends Omit<MetricsOptions, 'command'> {
  /** Whether each volume gets series of its own. */
  showsVolumes: boolean;
}

export class PluginMetrics extends Metrics {
  readonly scans: ScanMetrics;
  readonly storage: StorageMetrics;
  readonly #tasks: TaskMetrics;
  readonly #guardian: GuardianMetrics;

  constructor({ showsVolumes, ...options }: PluginMetricsOptions) {
    super({ ...options, command: 'serve' });
    this.scans = new ScanMetrics(this.registry);
    this.#tasks = new TaskMetrics(this.registry);
    this.storage = new StorageMetrics(this.registry, showsVolumes);
    this.#guardian = new GuardianMetrics(this.registry);
    this.add(() => this.storage.collect());
  }

  get catalogue() {
    return this.#tasks.catalogue;
  }

  /** From this call on, each collection sees whether the guardian serves its socket. */
  observeGuardian(socketPath: string): void {
    this.add(this.#guardian.source(socketPath));
  }

  /** From this call on, each collection reads the pools and the catalogue. */
  observeStorage(sources: StorageSources): void {
    this.storage.observe(sources);
  }

  /** @param set names the threads, such as `scan` */
  observeWorkers(set: string, read: () => WorkerLoad): void {
    this.#tasks.addWorkers(set, read);
  }

  /** @param pool the only pool that uses the runner; null if there is no such pool */
  observedRunner(runner: NativeRunner, pool: string | null): NativeRunner {
    return observeTasks(runner, this.#tasks.tasksOf(pool));
  }
}
