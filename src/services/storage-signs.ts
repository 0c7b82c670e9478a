/**
 * Gathers the signs of health that a pool and a volume's storage show, whoever uses the volume.
 *
 * Takes no lock and changes nothing: orchestrators ask often, and most of all when something is
 * wrong. A question to a dead pool ends after the time its backend allows for it.
 */
import type { Backend } from '../backends/backend.js';
import { CsiError } from '../errors.js';
import type { AsyncCatalogue, VolumeRecord } from '../volumes/records.js';
import type { PoolSigns, StorageSigns } from '../volumes/volume-health.js';

export interface HealthDependencies {
  catalogue: AsyncCatalogue;
  /** Throws if the pool is not configured. */
  backendOf(pool: string): Backend;
}

/** How old the look at a pool may be that a VolumeCondition is answered with. */
export const LOOK_AGE_MS = 1000;
/** How many volumes are looked at together: as many as there are threads to ask the devices. */
const AT_ONCE = 4;

/** The results in the order of the items. */
export async function lookAtAll<T, R>(
  items: readonly T[],
  look: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  for (let begin = 0; begin < items.length; begin += AT_ONCE) {
    results.push(...(await Promise.all(items.slice(begin, begin + AT_ONCE).map(look))));
  }
  return results;
}

interface Look {
  signs: Promise<PoolSigns>;
  /** When it was answered: a dead pool takes seconds for that. Infinity: not yet. */
  answeredAt: number;
}

/** Each pool is looked at once in a while, however many of its volumes are asked about. */
export class PoolLook {
  readonly #looks = new Map<string, Look>();

  /** @param maxAgeMs how long an answer is good; for one request, as long as that takes */
  constructor(
    private readonly deps: HealthDependencies,
    private readonly maxAgeMs = Number.POSITIVE_INFINITY,
  ) {}

  pool(name: string): Promise<PoolSigns> {
    const known = this.#looks.get(name);
    if (known !== undefined && performance.now() - known.answeredAt < this.maxAgeMs) {
      return known.signs;
    }
    const signs = this.#look(name).finally(() => {
      look.answeredAt = performance.now();
    });
    const look: Look = { signs, answeredAt: Number.POSITIVE_INFINITY };
    this.#looks.set(name, look);
    return signs;
  }

  async volume(volume: VolumeRecord): Promise<StorageSigns> {
    const { sizeBytes } = volume;
    const pool = await this.pool(volume.pool);
    if (pool.failure !== null) return { sizeBytes, pool, condition: null };
    const look = this.#looks.get(volume.pool);
    try {
      const backend = this.deps.backendOf(volume.pool);
      return { sizeBytes, pool, condition: await backend.condition(volume.volumeId) };
    } catch (thrown) {
      // It died after it was looked at: the volumes after this one must not wait for it each.
      if (this.#looks.get(volume.pool) === look) this.#looks.delete(volume.pool);
      return { sizeBytes, pool: unreachable(thrown), condition: null };
    }
  }

  async #look(name: string): Promise<PoolSigns> {
    try {
      const backend = this.deps.backendOf(name);
      // First, because it alone is bounded in time.
      await backend.check();
      return { failure: null, capacity: await backend.capacity() };
    } catch (thrown) {
      return unreachable(thrown);
    }
  }
}

function unreachable(thrown: unknown): PoolSigns {
  return { failure: CsiError.from(thrown).message, capacity: null };
}
