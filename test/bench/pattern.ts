/** The synthetic stream of the benchmarks: a snapshot of which every other block holds data. */

export const EXTENT_BYTES = 4096;
export const STRIDE_BYTES = 8192;
/** What the real stream puts into one message. */
export const ENTRIES_PER_MESSAGE = 8192;

/** A snapshot id that says how many entries its list has, so that the servers need no catalogue. */
export function patternSnapshotId(entries: number): string {
  return `snap-bench-${entries}`;
}

export function patternEntries(snapshotId: string): number {
  const entries = Number(/^snap-bench-(\d+)$/.exec(snapshotId)?.[1]);
  if (!Number.isSafeInteger(entries)) throw new Error(`'${snapshotId}' is no synthetic snapshot`);
  return entries;
}

export function patternBytes(entries: number): number {
  return entries * STRIDE_BYTES;
}
