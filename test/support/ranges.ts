/** Arithmetic on lists of ranges, for tests that know the expected list. */
import type { Range } from './csi-client.js';

/** The part of the list from an offset on, exactly. */
export function from(ranges: readonly Range[], offset: bigint): Range[] {
  return ranges.flatMap((range) => {
    const end = range.offset + range.size;
    if (end <= offset) return [];
    const start = range.offset > offset ? range.offset : offset;
    return [{ offset: start, size: end - start }];
  });
}

/** The list with touching ranges made one. */
export function merged(ranges: readonly Range[]): Range[] {
  const result: Range[] = [];
  for (const range of ranges) {
    const last = result.at(-1);
    if (last !== undefined && last.offset + last.size === range.offset) last.size += range.size;
    else result.push({ ...range });
  }
  return result;
}

export const endOf = ({ offset, size }: Range): bigint => offset + size;

/** A range of `size` bytes at every multiple of `stride` below `limit`. */
export function pattern(limit: number, stride: number, size: number): Range[] {
  return Array.from({ length: Math.ceil(limit / stride) }, (_, index) => ({
    offset: BigInt(index * stride),
    size: BigInt(size),
  }));
}
