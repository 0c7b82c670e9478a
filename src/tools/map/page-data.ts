/** What a page hands to the program in it. */
export interface PageData {
  readonly capacityBytes: number;
  readonly cellBytes: number;
  /** What the bytes of a cell are: `changed` or `data`. */
  readonly word: string;
  /** Cells in their order: alternately the bytes of a cell, and how many cells in a row have them. */
  readonly runs: readonly number[];
}
