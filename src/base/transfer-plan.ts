/**
 * Chooses how nbdcopy moves a list of ranges: the size of its requests, and how the image is written. nbdcopy rounds
 * every range outwards to its request size, so large requests also copy and store bytes that did not change, while
 * every small request costs time. Knows ranges as numbers and starts nothing.
 */

export interface TransferPlan {
  /** In bytes, a power of two. */
  readonly requestSize: number;
  /** Bytes that are copied and stored: the ranges, rounded outwards to requests. */
  readonly bytes: bigint;
  readonly requests: bigint;
  /** The cache mode of an image that is written. */
  readonly cache: 'writeback' | 'none';
}

/** A subcluster of an image: a smaller request would read the rest of the subcluster from the image below. */
const SMALLEST = 4096n;
const LARGEST = 1n << 20n;

/**
 * Measured on two processors (nbdkit 1.32, nbdcopy 1.14, qemu 7.2): a request takes about 30 µs more than its
 * bytes, which move at 0.5 to 1 GB/s. A byte costs twice, because it is also stored.
 */
const REQUEST_COST_NS = 30_000n;
const BYTE_COST_NS = 2n;

/**
 * From this request size on, writing past the page cache takes about as long and leaves the cache to others. Below this
 * size, each direct write waits for the disk, while the page cache would join the write to its neighbours. Direct
 * writing then takes up to twice the time for scattered ranges of 64 KiB (docs/engineering/performance.md, "What a backup costs").
 */
const DIRECT_FROM = 256n << 10n;

interface Candidate {
  readonly size: bigint;
  requests: bigint;
  /** The first request that no range has touched yet. */
  next: bigint;
}

/** Add every range in ascending order, then ask for the plan. */
export class TransferPlanner {
  readonly #candidates: Candidate[] = [];

  /** @param grainBytes all ranges are multiples of it, unless the device ends before: a smaller request would gain nothing */
  constructor(grainBytes = SMALLEST) {
    const divisor = grainBytes & -grainBytes;
    const smallest = divisor < SMALLEST ? SMALLEST : divisor > LARGEST ? LARGEST : divisor;
    for (let size = smallest; size <= LARGEST; size *= 2n) {
      this.#candidates.push({ size, requests: 0n, next: 0n });
    }
  }

  add(offset: bigint, size: bigint): void {
    for (const candidate of this.#candidates) {
      const first = offset / candidate.size;
      const end = (offset + size + candidate.size - 1n) / candidate.size;
      const start = first > candidate.next ? first : candidate.next;
      if (end > start) candidate.requests += end - start;
      if (end > candidate.next) candidate.next = end;
    }
  }

  /** The bytes of all blocks of this size, a power of two, that the ranges touch; of the next larger one that is counted. */
  bytesIn(size: bigint): bigint {
    const counted = this.#candidates.find((candidate) => candidate.size >= size) ?? this.#candidates.at(-1);
    return counted === undefined ? 0n : counted.requests * counted.size;
  }

  /** @param mostBytes no plan copies more, if a smaller request size can avoid it */
  plan(mostBytes?: bigint): TransferPlan {
    const costOf = ({ size, requests }: Candidate): bigint => requests * (REQUEST_COST_NS + size * BYTE_COST_NS);
    const isAllowed = ({ size, requests }: Candidate): boolean =>
      size === this.#candidates[0]?.size || mostBytes === undefined || requests * size <= mostBytes;
    const { size, requests } = this.#candidates
      .filter(isAllowed)
      .reduce((best, candidate) => (costOf(candidate) < costOf(best) ? candidate : best));
    return {
      requestSize: Number(size),
      bytes: requests * size,
      requests,
      cache: size >= DIRECT_FROM ? 'none' : 'writeback',
    };
  }
}
