/**
 * Observes the health of a pool and of a volume's storage, independent of the volume's use.
 *
 * Takes no lock and changes nothing: orchestrators ask often, and most often when something is wrong. The
 * backend limits how long a question to a dead pool takes.
 */

import { CsiError, messageOf } from '../../base/errors.js';
import { SingleFlight } from '../../base/single-flight.js';
import { withTimeout } from '../../base/timeout.js';
import type { Backend, PoolCapacity } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { PendingCall } from '../native/call-places.js';
import type { PoolObservations, StorageObservations } from './volume-health.js';

export interface HealthDependencies {
  catalogue: AsyncCatalogue;
  /** Throws if the pool is not configured. */
  backendOf(pool: string): Backend;
  /** The call that waits for the volume's file system or device; null if none does. */
  pendingCall?: ((volumeId: string) => PendingCall | null) | undefined;
  /** Why a snapshot of the volume has no copy on another node yet; null if none lacks one after an attempt. */
  copyFailure?: ((volumeId: string) => string | null) | undefined;
}

/** The maximum age of a pool probe that a VolumeCondition is based on. */
export const PROBE_AGE_MS = 1000;
/** How many volumes are probed at once: one for each thread that queries devices. */
const AT_ONCE = 4;

/** Resolves to the results in the order of the items. */
export async function probeAll<T, R>(items: readonly T[], probe: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let begin = 0; begin < items.length; begin += AT_ONCE) {
    results.push(...(await Promise.all(items.slice(begin, begin + AT_ONCE).map(probe))));
  }
  return results;
}

/** A pool that answered a probe may still hang on the next query. */
const TIMEOUT_MS = 10_000;

interface Probe {
  observations: Promise<PoolObservations>;
  /** When the pool answered, which takes a dead pool seconds; Infinity if it has not answered yet. */
  answeredAt: number;
}

/** Probes each pool at most once within the maximum age, however many of its volumes are asked about. */
export class PoolProbe {
  readonly #probes = new Map<string, Probe>();
  /** The queries under way: a disk that hangs must not block one more thread with each probe. */
  readonly #capacities = new SingleFlight<string, PoolCapacity>();

  /** @param maxAgeMs how long an answer is valid; by default for ever, for a probe that serves a single request */
  constructor(
    private readonly deps: HealthDependencies,
    private readonly maxAgeMs = Number.POSITIVE_INFINITY,
    private readonly timeoutMs = TIMEOUT_MS,
  ) {}

  pool(name: string): Promise<PoolObservations> {
    const known = this.#probes.get(name);
    if (known !== undefined && performance.now() - known.answeredAt < this.maxAgeMs) {
      return known.observations;
    }
    const observations = this.#probe(name).finally(() => {
      probe.answeredAt = performance.now();
    });
    const probe: Probe = { observations, answeredAt: Number.POSITIVE_INFINITY };
    this.#probes.set(name, probe);
    return observations;
  }

  async volume(volume: VolumeRecord): Promise<StorageObservations> {
    const { sizeBytes } = volume;
    const pool = await this.pool(volume.pool);
    const known = {
      sizeBytes,
      pending: this.deps.pendingCall?.(volume.volumeId) ?? null,
      copyFailure: this.deps.copyFailure?.(volume.volumeId) ?? null,
    };
    if (pool.failure !== null) return { ...known, pool, condition: null };
    const probe = this.#probes.get(volume.pool);
    try {
      const backend = this.deps.backendOf(volume.pool);
      const condition = await this.#inTime(volume.pool, backend.volumes.condition(volume.volumeId));
      return { ...known, pool, condition };
    } catch (thrown) {
      // The pool died after its probe: the volumes after this one must not each wait for it.
      if (this.#probes.get(volume.pool) === probe) this.#probes.delete(volume.pool);
      return { ...known, pool: unreachable(thrown), condition: null };
    }
  }

  async #probe(name: string): Promise<PoolObservations> {
    try {
      const backend = this.deps.backendOf(name);
      // The check comes first, because a backend never asks a dead pool twice at once.
      await backend.check();
      const asked = this.#capacities.run(name, () => backend.capacity());
      return { failure: null, capacity: await this.#inTime(name, asked) };
    } catch (thrown) {
      return unreachable(thrown);
    }
  }

  /** Rejects if the answer takes too long; the query itself continues. */
  #inTime<T>(pool: string, question: Promise<T>): Promise<T> {
    return withTimeout(question, this.timeoutMs, (): never => {
      throw CsiError.failedPrecondition(`pool '${pool}' does not answer; check its disk`);
    });
  }
}

function unreachable(thrown: unknown): PoolObservations {
  return { failure: messageOf(thrown), capacity: null };
}
