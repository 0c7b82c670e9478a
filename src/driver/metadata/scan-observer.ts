/**
 * How streams of changed ranges report to an observer that counts them. The methods run on the event loop and must
 * return at once; the observer reads the sums when it needs them.
 */
import type { ListKind } from '../volumes/change-list-maker.js';

/** What one list has contained so far. The numbers only grow. */
export interface ScanSums {
  readonly entries: number;
  /** Sum of the sizes of the entries. */
  readonly entryBytes: bigint;
  readonly chunks: number;
  readonly extents: number;
  readonly rescans: number;
  readonly unprovedBytes: bigint;
  /** Stored change lists that answered in place of the maps of snapshots. */
  readonly storedLists: number;
}

/** The kind of a list: the ranges that a snapshot holds, or the delta of two snapshots. */
export type ScanKind = ListKind;

export interface ScanObserver {
  /**
   * @param sums a live object, which may be read until scanEnded is called with the same object
   * @param isResumed the caller gave a starting_offset
   */
  scanStarted(kind: ScanKind, sums: ScanSums, isResumed: boolean): void;
  scanEnded(kind: ScanKind, sums: ScanSums): void;
}
