/**
 * Watches the pools while the plugin runs: retries the pools that could not be started, checks the started ones, and
 * logs each change of a pool once.
 *
 * The registry holds the results. Knows nothing of what a pool needs before it is served: `prepare` does that.
 */
import { bestEffort, type Leftover, logLeftover } from '../../base/best-effort.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { Periodic } from '../../base/periodic.js';
import { withTimeout } from '../../base/timeout.js';
import type { Backend } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';

export interface PoolRecoveryDependencies {
  registry: BackendRegistry;
  /** Starts a pool; see StartedPools. */
  startAgain(pool: string): Promise<Backend>;
  /** Reconciles a started pool with the catalogue, before the first call reaches it. */
  prepare(backend: Backend): Promise<void>;
  logger: Pick<Logger, 'info' | 'warn' | 'debug'>;
  /** Replaced in tests. */
  times?: Partial<RecoveryTimes>;
}

export interface RecoveryTimes {
  /** The wait before the second attempt at a pool; each later wait is twice as long. */
  firstRetryMs: number;
  /** The longest wait between two attempts. */
  longestRetryMs: number;
  /** The wait between two checks of the started pools. */
  checkMs: number;
  /** How long a stop waits for an attempt that a dead disk blocks. */
  stopMs: number;
}

const TIMES: RecoveryTimes = {
  firstRetryMs: 1000,
  longestRetryMs: 30_000,
  checkMs: 10_000,
  stopMs: 5000,
};

/** What remains of a backend whose start failed and that could not be stopped. */
export const halfStarted = (pool: string): Leftover => ({
  stays: `devices, mounts or files of pool '${pool}', whose start failed, in use by this plugin`,
  removedBy: 'the next attempt to start the pool takes them over; the end of the plugin frees its files',
});

export class PoolRecovery {
  readonly #deps: PoolRecoveryDependencies;
  readonly #times: RecoveryTimes;
  readonly #checks: Periodic;
  readonly #loops: readonly Periodic[];

  constructor(deps: PoolRecoveryDependencies) {
    this.#deps = deps;
    this.#times = { ...TIMES, ...deps.times };
    this.#checks = new Periodic(this.#times.checkMs, () => this.check());
    this.#loops = [this.#checks, ...deps.registry.unavailable.map(({ pool }) => this.#attempts(pool))];
  }

  /** Begins to watch. Call this when all pools that were started are reconciled and served. */
  start(): void {
    for (const loop of this.#loops) loop.start();
  }

  async stop(): Promise<void> {
    const stopped = Promise.all(this.#loops.map((loop) => loop.stop()));
    await withTimeout(stopped, this.#times.stopMs, () => undefined);
  }

  /** Checks all started pools at once and records the outcome. Each check is bounded by its backend. */
  async check(): Promise<void> {
    await Promise.all(this.#deps.registry.all.map((backend) => this.#checkOne(backend)));
  }

  /** Attempts at a pool until one succeeds. */
  #attempts(pool: string): Periodic {
    const { firstRetryMs, longestRetryMs } = this.#times;
    let waitMs = firstRetryMs;
    return new Periodic(firstRetryMs, async () => {
      if (await this.#attempt(pool)) return null;
      waitMs = Math.min(2 * waitMs, longestRetryMs);
      return waitMs;
    });
  }

  async #attempt(pool: string): Promise<boolean> {
    const { registry, startAgain, prepare, logger } = this.#deps;
    let backend: Backend | null = null;
    try {
      backend = await startAgain(pool);
      await prepare(backend);
    } catch (thrown) {
      const failure = CsiError.from(thrown);
      const onFailure = logLeftover(logger, halfStarted(pool));
      if (backend !== null) await bestEffort(async () => backend?.stop(), onFailure);
      registry.register({ pool, failure });
      logger.debug({ pool, err: failure }, 'the pool still cannot be started');
      return false;
    }
    // A plugin that is stopping serves no more pools; its teardown stops the backend.
    if (this.#checks.isStopped) return true;
    registry.register(backend);
    logger.info({ pool }, 'the pool could be started and is served from now on');
    return true;
  }

  async #checkOne(backend: Backend): Promise<void> {
    const { registry, logger } = this.#deps;
    const { pool } = backend;
    const failure = await backend.check().then(
      () => null,
      (thrown: unknown) => CsiError.from(thrown),
    );
    // The plugin is busy with other calls, and has learnt nothing about the pool.
    if (failure?.code === StatusCode.ABORTED) return;
    const before = registry.states.find((state) => state.pool === pool)?.failure ?? null;
    registry.recordCheck(pool, failure);
    if (failure !== null && before === null) {
      logger.warn({ pool, err: failure }, 'the pool has stopped working; calls for it fail');
    } else if (failure === null && before !== null) {
      logger.info({ pool }, 'the pool works again');
    }
  }
}
