/**
 * What streams of changed ranges report to whoever counts them. The methods run on the event loop and must
 * return at once; the sums are read when they are needed.
 */
import type { ListKind } from '../volumes/change-list-maker.js';

/** What one list has contained so far. The numbers only grow. */
export interface ScanSums {
  readonly entries: number;
  /** Sizes of the entries together. */
  readonly entryBytes: bigint;
  readonly chunks: number;
  readonly extents: number;
  readonly rescans: number;
  readonly unprovedBytes: bigint;
  /** Stored change lists that answered in place of the maps of snapshots. */
  readonly storedLists: number;
}

/** Which list: what a snapshot holds, or the delta of two snapshots. */
export type ScanKind = ListKind;

export interface ScanObserver {
  /**
   * @param sums to be read until scanEnded, which gets the same object
   * @param isResumed the caller gave a starting_offset
   */
  scanStarted(kind: ScanKind, sums: ScanSums, isResumed: boolean): void;
  scanEnded(kind: ScanKind, sums: ScanSums): void;
}
