/**
 * Turns a list into a picture of fixed size: divides the volume into at most 2^18 cells of equal size, and counts the
 * listed bytes of each cell. Knows nothing of the list's origin or of how cells are drawn.
 *
 * The bytes of a cell are numbers, not bigint: a volume of 2^63 bytes has cells of 2^45 bytes.
 */
import type { Entry } from '../client/list.js';

export const MAX_CELLS = 2 ** 18;
/** Block layers report nothing smaller. */
const MIN_CELL_BYTES = 4096n;

export interface Cells {
  readonly capacityBytes: bigint;
  /** A power of two. The last cell may be shorter: it ends with the volume. */
  readonly cellBytes: bigint;
  /** How many bytes of each cell the list contains. */
  readonly bytes: Float64Array;
  /** The number of bytes in the whole list. */
  readonly totalBytes: bigint;
  readonly ranges: number;
}

export class CellCounter implements Cells {
  readonly cellBytes: bigint;
  readonly bytes: Float64Array;
  totalBytes = 0n;
  ranges = 0;

  constructor(
    readonly capacityBytes: bigint,
    maxCells = MAX_CELLS,
  ) {
    this.cellBytes = cellSizeFor(capacityBytes, maxCells);
    this.bytes = new Float64Array(cellCount(capacityBytes, this.cellBytes));
  }

  /** Entries must lie within the volume and must not overlap. */
  add(entries: readonly Entry[]): void {
    for (const { offset, size } of entries) {
      this.ranges += 1;
      this.totalBytes += size;
      this.#spread(offset, offset + size);
    }
  }

  #spread(from: bigint, to: bigint): void {
    const { cellBytes } = this;
    const first = Number(from / cellBytes);
    const last = Number((to - 1n) / cellBytes);
    const full = Number(cellBytes);
    const before = Number(from % cellBytes);
    const after = full - 1 - Number((to - 1n) % cellBytes);
    for (let index = first; index <= last; index += 1) addAt(this.bytes, index, full);
    addAt(this.bytes, first, -before);
    addAt(this.bytes, last, -after);
  }
}

/** Returns the same picture in at most `maxCells` cells. */
export function coarsen(cells: Cells, maxCells: number): Cells {
  const cellBytes = cellSizeFor(cells.capacityBytes, maxCells, cells.cellBytes);
  const group = Number(cellBytes / cells.cellBytes);
  const bytes = new Float64Array(cellCount(cells.capacityBytes, cellBytes));
  cells.bytes.forEach((value, index) => {
    addAt(bytes, Math.floor(index / group), value);
  });
  const { capacityBytes, totalBytes, ranges } = cells;
  return { capacityBytes, cellBytes, bytes, totalBytes, ranges };
}

/** Returns how much of a cell the list contains, from 0 to 1. */
export function shareOfCell(cells: Cells, index: number): number {
  const { capacityBytes, cellBytes, bytes } = cells;
  const rest = capacityBytes - BigInt(index) * cellBytes;
  return (bytes[index] ?? 0) / Number(rest < cellBytes ? rest : cellBytes);
}

function addAt(bytes: Float64Array, index: number, value: number): void {
  bytes[index] = (bytes[index] ?? 0) + value;
}

function cellSizeFor(capacityBytes: bigint, maxCells: number, minimum = MIN_CELL_BYTES): bigint {
  let size = minimum;
  while (cellCount(capacityBytes, size) > maxCells) size *= 2n;
  return size;
}

function cellCount(capacityBytes: bigint, cellBytes: bigint): number {
  return Number((capacityBytes + cellBytes - 1n) / cellBytes);
}
