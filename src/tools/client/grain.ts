/**
 * Rounds the ranges of a list outwards to multiples of a caller's chunk size, and merges ranges that then touch. Many
 * backup tools work in chunks. `cost` shows what their chunk size costs.
 */
import type { Entry } from './list.js';

export interface GrainCost {
  /** Ranges and bytes of the list as the driver sent it, and after rounding. */
  ranges: number;
  bytes: bigint;
  mergedRanges: number;
  mergedBytes: bigint;
}

export class GrainMerger {
  readonly cost: GrainCost = { ranges: 0, bytes: 0n, mergedRanges: 0, mergedBytes: 0n };
  #held: Entry | null = null;

  /** @param grain bytes, at least 1 */
  constructor(private readonly grain: bigint) {}

  /** Returns the ranges that are final. `capacityBytes` is the end of the volume, where the last range is cut off. */
  add(entries: readonly Entry[], capacityBytes: bigint): Entry[] {
    const final: Entry[] = [];
    for (const entry of entries) {
      this.cost.ranges += 1;
      this.cost.bytes += entry.size;
      const offset = entry.offset - (entry.offset % this.grain);
      const end = smaller(roundUp(entry.offset + entry.size, this.grain), capacityBytes);
      const held = this.#held;
      if (held !== null && offset <= held.offset + held.size) {
        const heldEnd = held.offset + held.size;
        this.#held = { offset: held.offset, size: (end > heldEnd ? end : heldEnd) - held.offset };
      } else {
        if (held !== null) final.push(this.#count(held));
        this.#held = { offset, size: end - offset };
      }
    }
    return final;
  }

  /** Returns the last range. */
  finish(): Entry[] {
    const held = this.#held;
    this.#held = null;
    return held === null ? [] : [this.#count(held)];
  }

  #count(entry: Entry): Entry {
    this.cost.mergedRanges += 1;
    this.cost.mergedBytes += entry.size;
    return entry;
  }
}

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);

function roundUp(value: bigint, grain: bigint): bigint {
  const rest = value % grain;
  return rest === 0n ? value : value - rest + grain;
}

const UNITS: Readonly<Record<string, bigint>> = {
  '': 1n,
  k: 1n << 10n,
  m: 1n << 20n,
  g: 1n << 30n,
};

/** Parses a chunk size such as 65536, 64Ki or 1Mi. Returns null unless it is a multiple of 512 from 512 to 1Gi. */
export function parseGrain(text: string): bigint | null {
  const match = /^(\d{1,10})(?:([KMG])i?B?)?$/i.exec(text);
  if (match === null) return null;
  const [, digits = '', unit = ''] = match;
  const bytes = BigInt(digits) * (UNITS[unit.toLowerCase()] ?? 0n);
  return bytes >= 512n && bytes <= 1n << 30n && bytes % 512n === 0n ? bytes : null;
}
