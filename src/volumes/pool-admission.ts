/**
 * Keeps several creations and expansions at once from being promised the same free space.
 *
 * A pool counts a volume's promise from the moment its file is there, or has grown. Until then the
 * promise is kept here, and the pool's capacity is asked for by one operation at a time, so that none
 * falls between the two. Lives in this process alone: what a kill interrupts is undone at the next start.
 */
import type { Backend, PoolCapacity } from '../backends/backend.js';
import { CsiError } from '../base/errors.js';
import { SerialQueue } from '../base/serial-queue.js';

interface PoolPromises {
  bytes: bigint;
  queue: SerialQueue;
}

export class PoolAdmission {
  readonly #pools = new Map<string, PoolPromises>();

  /**
   * Judges what an operation adds to the pool's promises by its capacity, and runs `make` while that
   * much is promised. Throws RESOURCE_EXHAUSTED if there is not enough left, ABORTED if others that
   * are under way may take what is left, and what `size` throws. Nothing added is always admitted.
   */
  async run<T>(
    backend: Backend,
    size: (capacity: PoolCapacity) => bigint,
    make: (sizeBytes: bigint) => Promise<T>,
  ): Promise<T> {
    const sizeBytes = await this.#alone(backend.pool, async (promises) => {
      const capacity = await backend.capacity();
      const wanted = size(capacity);
      const { availableBytes } = capacity;
      if (wanted === 0n) return wanted;
      if (wanted > availableBytes) throw exhausted(backend.pool, availableBytes, wanted);
      // The capacity may count some of the promises already, so this is no proof that it is full.
      if (wanted > availableBytes - promises.bytes) throw contested(backend.pool);
      promises.bytes += wanted;
      return wanted;
    });
    try {
      return await make(sizeBytes);
    } finally {
      // Behind whoever asks for the capacity now: the answer may not count this volume yet.
      await this.#alone(backend.pool, async (promises) => {
        promises.bytes -= sizeBytes;
      });
    }
  }

  /** One after the other for each pool. */
  async #alone<T>(pool: string, work: (promises: PoolPromises) => Promise<T>): Promise<T> {
    const promises = this.#pools.get(pool) ?? {
      bytes: 0n,
      queue: new SerialQueue(`the space of pool '${pool}'`),
    };
    this.#pools.set(pool, promises);
    return promises.queue.run(() => work(promises));
  }
}

function exhausted(pool: string, left: bigint, wanted: bigint): CsiError {
  return CsiError.resourceExhausted(
    `pool '${pool}' has ${left} bytes left to promise and ${wanted} more are ` +
      'asked for; delete volumes or snapshots, or use another pool',
  );
}

function contested(pool: string): CsiError {
  return CsiError.aborted(
    `other volumes are being made or expanded in pool '${pool}' and may take what is left; try again when they are there`,
  );
}
