/**
 * Prevents concurrent creations and expansions from being granted the same free space.
 *
 * A pool's capacity counts a volume once its storage exists or has grown. Until then the space is
 * reserved here. One operation at a time reads the pool's capacity or changes its reservations, so that
 * no volume is missed between the two. The reservations exist in this process only: the next start rolls
 * back what a kill interrupts.
 */

import { CsiError } from '../../base/errors.js';
import type { Backend, PoolCapacity } from '../backends/backend.js';
import { SerialQueue } from '../serial-queue.js';

interface Reservations {
  bytes: bigint;
  queue: SerialQueue;
}

export class PoolAdmission {
  readonly #pools = new Map<string, Reservations>();

  /**
   * Asks `size` for the space that an operation adds, and runs `work` while that space is reserved. RESOURCE_EXHAUSTED if the
   * pool has too little space left, ABORTED if concurrent operations may take the space that is left. Also throws what `size`
   * throws; before a refusal, `size` is asked again with newer figures. An operation that adds nothing is always admitted.
   */
  async run<T>(
    backend: Backend,
    size: (capacity: PoolCapacity) => bigint,
    work: (sizeBytes: bigint) => Promise<T>,
  ): Promise<T> {
    const reservations = this.#reservations(backend.pool);
    const sizeBytes = await reservations.queue.run(async () => {
      let capacity = await backend.capacity('recent');
      let wanted = size(capacity);
      if (wanted > capacity.availableBytes - reservations.bytes) {
        capacity = await backend.capacity();
        wanted = size(capacity);
      }
      const { availableBytes } = capacity;
      if (wanted === 0n) return wanted;
      if (wanted > availableBytes) throw exhausted(backend.pool, availableBytes, wanted);
      // The capacity may count some of the reserved space already, so this does not prove that the pool is full.
      if (wanted > availableBytes - reservations.bytes) throw contended(backend.pool);
      reservations.bytes += wanted;
      return wanted;
    });
    try {
      return await work(sizeBytes);
    } finally {
      // This step waits behind an operation that is reading the capacity, because that capacity may not count this volume yet.
      await reservations.queue.run(async () => {
        reservations.bytes -= sizeBytes;
      });
    }
  }

  #reservations(pool: string): Reservations {
    const known = this.#pools.get(pool);
    if (known !== undefined) return known;
    const created = { bytes: 0n, queue: new SerialQueue() };
    this.#pools.set(pool, created);
    return created;
  }
}

function exhausted(pool: string, left: bigint, wanted: bigint): CsiError {
  return CsiError.resourceExhausted(
    `pool '${pool}' has ${left} bytes left for volumes and ${wanted} more are requested; delete volumes or ` +
      'snapshots, or use another pool',
  );
}

function contended(pool: string): CsiError {
  return CsiError.aborted(
    `other volumes are being created or expanded in pool '${pool}' and may take the space that is left; try ` +
      'again when they are done',
  );
}
