/** The data that a page hands to its script. */
export interface PageData {
  readonly capacityBytes: number;
  readonly cellBytes: number;
  /** What the bytes of a cell are: `changed` or `data`. */
  readonly word: string;
  /** The cells in order: alternately the bytes of a cell, and the number of consecutive cells with this number of bytes. */
  readonly runs: readonly number[];
}
