/**
 * A small seeded generator, so that a random test can be run again. Its seed is BLOCKDELTA_TEST_SEED; without
 * it, one that the test's label decides, or, in long runs (BLOCKDELTA_TEST_LONG), a new one.
 */
import { createHash, randomInt } from 'node:crypto';

export class Random {
  #state: number;

  constructor(readonly seed: number) {
    this.#state = seed >>> 0;
  }

  /** Uniform in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.unit() * bound);
  }

  /** Uniform in [0, 1): mulberry32. */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }

  bytes(length: number): Buffer {
    const buffer = Buffer.alloc(length);
    for (let offset = 0; offset < length; offset += 1) buffer[offset] = this.below(256);
    return buffer;
  }
}

/** Prints the seed, so that a failure can be repeated with BLOCKDELTA_TEST_SEED. */
export function seededRandom(label: string): Random {
  const seed = givenSeed() ?? (isLong() ? randomInt(2 ** 31) : seedOf(label));
  console.log(`# ${label}: BLOCKDELTA_TEST_SEED=${seed}`);
  return new Random(seed);
}

/** The same bytes each time for one label, others for another: content that only has to be told apart. */
export function seededBytes(label: string, length: number): Buffer {
  return new Random(seedOf(label)).bytes(length);
}

function givenSeed(): number | undefined {
  const given = process.env['BLOCKDELTA_TEST_SEED'];
  if (given === undefined) return undefined;
  if (!/^\d{1,10}$/.test(given))
    throw new Error(`BLOCKDELTA_TEST_SEED is no whole number: ${given}`);
  return Number(given);
}

function isLong(): boolean {
  return process.env['BLOCKDELTA_TEST_LONG'] === '1';
}

function seedOf(label: string): number {
  return createHash('sha256').update(label).digest().readUInt32LE(0);
}
