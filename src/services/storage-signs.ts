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

/** Each pool is looked at once in a while, however many of its volumes are asked about. */
export class PoolLook {
  readonly #looks = new Map<string, { at: number; signs: Promise<PoolSigns> }>();

  /** @param maxAgeMs how long a look is good; for one answer, as long as that takes */
  constructor(
    private readonly deps: HealthDependencies,
    private readonly maxAgeMs = Number.POSITIVE_INFINITY,
  ) {}

  pool(name: string): Promise<PoolSigns> {
    const known = this.#looks.get(name);
    const now = performance.now();
    if (known !== undefined && now - known.at < this.maxAgeMs) return known.signs;
    const signs = this.#look(name);
    this.#looks.set(name, { at: now, signs });
    return signs;
  }

  async volume(volume: VolumeRecord): Promise<StorageSigns> {
    const { sizeBytes } = volume;
    const pool = await this.pool(volume.pool);
    if (pool.failure !== null) return { sizeBytes, pool, condition: null };
    try {
      const backend = this.deps.backendOf(volume.pool);
      return { sizeBytes, pool, condition: await backend.condition(volume.volumeId) };
    } catch (thrown) {
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
