/**
 * The pools of this node by name, and whether each of them works. The first one configured is the default.
 *
 * A pool that could not be started does not affect the others: it is registered with the failure, and
 * every request for it is rejected with that failure until it is registered as started. Whoever starts
 * and checks pools (plugin/pool-recovery.ts) records here what was found, for everybody else to read.
 */
import { CsiError } from '../../base/errors.js';
import type { Backend } from './backend.js';

/** A configured pool: started, or the reason why it could not be. */
export type ConfiguredPool = Backend | UnavailablePool;

export interface UnavailablePool {
  readonly pool: string;
  readonly failure: CsiError;
}

/** A pool as it was found when it was last started or checked. */
export interface PoolState {
  readonly pool: string;
  /** Null if the pool could not be started. */
  readonly backend: Backend | null;
  /** Why calls for the pool fail; null if the pool works. */
  readonly failure: CsiError | null;
}

export class BackendRegistry {
  readonly #pools: Map<string, ConfiguredPool>;
  /** The failed checks of pools that were started. */
  readonly #failedChecks = new Map<string, CsiError>();
  readonly #first: string;

  /** @param pools in the order of the configuration */
  constructor(pools: readonly ConfiguredPool[]) {
    const [first] = pools;
    if (first === undefined) throw new Error('a plugin needs at least one pool');
    this.#first = first.pool;
    this.#pools = new Map(pools.map((pool) => [pool.pool, pool]));
  }

  /** The pools that were started. */
  get all(): Backend[] {
    return [...this.#pools.values()].filter((pool): pool is Backend => !isUnavailable(pool));
  }

  get unavailable(): UnavailablePool[] {
    return [...this.#pools.values()].filter(isUnavailable);
  }

  /** The states of all pools, in the order of the configuration. */
  get states(): PoolState[] {
    return [...this.#pools.values()].map((found) =>
      isUnavailable(found)
        ? { pool: found.pool, backend: null, failure: found.failure }
        : { pool: found.pool, backend: found, failure: this.#failedChecks.get(found.pool) ?? null },
    );
  }

  /** Replaces the entry of a configured pool. */
  register(pool: ConfiguredPool): void {
    this.#pools.set(pool.pool, pool);
    this.#failedChecks.delete(pool.pool);
  }

  /** Records the outcome of a check of a started pool; null if the pool works. */
  recordCheck(pool: string, failure: CsiError | null): void {
    if (failure === null) this.#failedChecks.delete(pool);
    else this.#failedChecks.set(pool, failure);
  }

  /** Whether a StorageClass can name this pool; an empty name stands for the default. */
  hasPool(pool: string): boolean {
    return pool === '' || this.#pools.has(pool);
  }

  /** The pool a StorageClass names; the default for an empty name. */
  select(pool: string): Backend {
    const found = this.#pools.get(pool === '' ? this.#first : pool);
    if (found === undefined) {
      throw CsiError.invalidArgument(
        `parameters['pool'] is '${pool}': this node has ${[...this.#pools.keys()].join(', ')}`,
      );
    }
    return started(found);
  }

  /** The pool an existing volume or snapshot lives in. */
  owning(pool: string): Backend {
    const found = this.#pools.get(pool);
    if (found === undefined) {
      throw CsiError.failedPrecondition(
        `pool '${pool}' is not configured any more; add it to BLOCKDELTA_POOLS to reach what it holds`,
      );
    }
    return started(found);
  }
}

function isUnavailable(pool: ConfiguredPool): pool is UnavailablePool {
  return 'failure' in pool;
}

function started(pool: ConfiguredPool): Backend {
  if (isUnavailable(pool)) throw pool.failure;
  return pool;
}
