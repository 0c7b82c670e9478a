/**
 * The pools of this node by name. The first one configured is the default.
 *
 * A pool that could not be started does not affect the others: it is registered with the failure, and
 * every request for it is rejected with that failure.
 */
import { CsiError } from '../base/errors.js';
import type { Backend } from './backend.js';

/** A configured pool: started, or the reason why it could not be. */
export type ConfiguredPool = Backend | UnavailablePool;

export interface UnavailablePool {
  readonly pool: string;
  readonly failure: CsiError;
}

export class BackendRegistry {
  readonly #pools: ReadonlyMap<string, ConfiguredPool>;
  readonly #first: string;

  /** In the order they are configured. */
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
