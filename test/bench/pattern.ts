/** The synthetic stream of the benchmarks: a snapshot of which every other block holds data. */

import { nodeKey } from '../../src/domain/identifiers.js';

export const EXTENT_BYTES = 4096;
export const STRIDE_BYTES = 8192;
/** What the real stream puts into one message. */
export const ENTRIES_PER_MESSAGE = 8192;

/**
 * A snapshot id that says how many entries its list has, so that the servers need no catalogue. It has the
 * form of a handle of this node, so that a router can pass it on.
 */
export function patternSnapshotId(entries: number, nodeId = 'bench'): string {
  return `snap-${nodeKey(nodeId)}-00000000-0000-4000-8000-${entries.toString(16).padStart(12, '0')}`;
}

export function patternEntries(snapshotId: string): number {
  const digits = /^snap-[0-9a-f]{12}-00000000-0000-4000-8000-([0-9a-f]{12})$/.exec(snapshotId)?.[1];
  const entries = Number(`0x${digits}`);
  if (!Number.isSafeInteger(entries)) throw new Error(`'${snapshotId}' is no synthetic snapshot`);
  return entries;
}

export function patternBytes(entries: number): number {
  return entries * STRIDE_BYTES;
}
