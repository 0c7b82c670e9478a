/** A seeded generator (mulberry32), so that a run can be repeated byte for byte. */
export class Random {
  #state: number;

  constructor(
    readonly seed: number,
    label = '',
  ) {
    this.#state = seed >>> 0;
    for (const character of label) {
      this.#state = Math.imul(this.#state ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
    }
  }

  /** Uniform in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.unit() * bound);
  }

  /** Uniform in [0, 1). */
  unit(): number {
    return this.#next() / 2 ** 32;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }

  /** Returns a copy in random order. */
  shuffled<T>(items: readonly T[]): T[] {
    const copy = [...items];
    for (let last = copy.length - 1; last > 0; last -= 1) {
      const other = this.below(last + 1);
      [copy[last], copy[other]] = [copy[other] as T, copy[last] as T];
    }
    return copy;
  }

  /** Incompressible bytes. */
  bytes(length: number): Buffer {
    const buffer = Buffer.alloc(length);
    let offset = 0;
    for (; offset + 4 <= length; offset += 4) buffer.writeUInt32LE(this.#next(), offset);
    for (; offset < length; offset += 1) buffer[offset] = this.below(256);
    return buffer;
  }

  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }
}
