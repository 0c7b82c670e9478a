/** The pools of this node by name. The first one configured is the default. */
import { CsiError } from '../errors.js';
import type { Backend } from './backend.js';

export class BackendRegistry {
  readonly #backends: ReadonlyMap<string, Backend>;
  readonly #first: Backend;

  constructor(backends: readonly Backend[]) {
    const [first] = backends;
    if (first === undefined) throw new Error('a plugin needs at least one pool');
    this.#first = first;
    this.#backends = new Map(backends.map((backend) => [backend.pool, backend]));
  }

  get all(): Backend[] {
    return [...this.#backends.values()];
  }

  /** The pool a StorageClass names; the default for an empty name. */
  select(pool: string): Backend {
    const backend = pool === '' ? this.#first : this.#backends.get(pool);
    if (backend === undefined) {
      throw CsiError.invalidArgument(
        `parameters['pool'] is '${pool}': this node has ${[...this.#backends.keys()].join(', ')}`,
      );
    }
    return backend;
  }

  /** The pool an existing volume or snapshot lives in. */
  owning(pool: string): Backend {
    const backend = this.#backends.get(pool);
    if (backend === undefined) {
      throw CsiError.failedPrecondition(
        `pool '${pool}' is not configured any more; add it to BLOCKDELTA_POOLS to reach what it holds`,
      );
    }
    return backend;
  }
}
