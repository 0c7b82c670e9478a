/** Sets of bytes as ascending ranges that do not touch. Knows nothing of their origin. */

/** Bytes [offset, offset + size). */
export interface Entry {
  readonly offset: bigint;
  readonly size: bigint;
}

/** Returns the bytes of a list, whose entries may be in any order, overlap or be empty. */
export function coverage(entries: readonly Entry[]): Entry[] {
  const sorted = entries
    .filter(({ size }) => size > 0n)
    .sort((a, b) => (a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0));
  const merged: { offset: bigint; size: bigint }[] = [];
  for (const { offset, size } of sorted) {
    const last = merged.at(-1);
    const end = offset + size;
    if (last === undefined || offset > last.offset + last.size) merged.push({ offset, size });
    else if (end > last.offset + last.size) last.size = end - last.offset;
  }
  return merged;
}

export function tailFrom(ranges: readonly Entry[], start: bigint): Entry[] {
  return ranges.flatMap(({ offset, size }) => {
    const end = offset + size;
    if (end <= start) return [];
    const from = offset > start ? offset : start;
    return [{ offset: from, size: end - from }];
  });
}

/** Returns the bytes of `a` that are not in `b`. Both must come from coverage(). */
export function difference(a: readonly Entry[], b: readonly Entry[]): Entry[] {
  const left: Entry[] = [];
  let at = 0;
  for (const { offset, size } of a) {
    let position = offset;
    const end = offset + size;
    while (at > 0 && endOf(b[at - 1]) > position) at -= 1;
    while (at < b.length && endOf(b[at]) <= position) at += 1;
    for (let index = at; index < b.length && position < end; index += 1) {
      const hole = b[index] as Entry;
      if (hole.offset >= end) break;
      if (hole.offset > position) left.push({ offset: position, size: hole.offset - position });
      if (endOf(hole) > position) position = endOf(hole);
    }
    if (position < end) left.push({ offset: position, size: end - position });
  }
  return left;
}

const endOf = (entry: Entry | undefined): bigint => (entry === undefined ? 0n : entry.offset + entry.size);

export function totalBytes(ranges: readonly Entry[]): bigint {
  return ranges.reduce((sum, { size }) => sum + size, 0n);
}

/** Describes the first few ranges: "4096 bytes at 8192". */
export function describeRanges(ranges: readonly Entry[], limit = 3): string {
  const shown = ranges.slice(0, limit).map(({ offset, size }) => `${size} bytes at ${offset}`);
  const more = ranges.length > limit ? ` and ${ranges.length - limit} more` : '';
  return `${shown.join(', ')}${more}`;
}

/** Tests whether bytes are in a set; fast when queried in ascending order. */
export class Cover {
  readonly #ranges: readonly { start: number; end: number }[];
  #at = 0;

  constructor(entries: readonly Entry[]) {
    this.#ranges = coverage(entries).map(({ offset, size }) => ({
      start: Number(offset),
      end: Number(offset + size),
    }));
  }

  holds(start: number, end: number): boolean {
    while (this.#at > 0 && (this.#ranges[this.#at - 1]?.end ?? 0) > start) this.#at -= 1;
    while ((this.#ranges[this.#at]?.end ?? Number.POSITIVE_INFINITY) <= start) this.#at += 1;
    const range = this.#ranges[this.#at];
    return range !== undefined && range.start <= start && end <= range.end;
  }
}
