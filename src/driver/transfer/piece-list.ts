/**
 * The list of one piece of a transfer, as nbdkit reads it: which ranges are copied, and which read as zeros at the source.
 *
 * A piece is bounded, so that a transfer that ends early goes on at the last piece that is durable at the target, and so that
 * nbdkit, which keeps the whole list in memory, stays small. Knows ranges, not where they come from.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { TransferPlanner } from '../../base/transfer-plan.js';

export interface Range {
  readonly offset: bigint;
  readonly size: bigint;
}

/** Batches of ranges, ascending and without overlaps. */
export type Ranges = AsyncIterable<readonly Range[]>;

export interface PieceLimits {
  readonly maxRanges: number;
  /** Of the ranges that are copied: zeros cost nothing. */
  readonly maxBytes: bigint;
}

/** nbdkit takes 24 bytes for a range, and a second for a few million. */
export const PIECE_LIMITS: PieceLimits = { maxRanges: 1_000_000, maxBytes: 16n << 30n };

export interface Piece {
  readonly ranges: number;
  /** The size of the ranges that are copied. */
  readonly dataBytes: bigint;
  /** Where the next piece begins; null if this is the last one. */
  readonly nextOffset: bigint | null;
  /** As `dataBytes`, of this piece and all later ones. */
  readonly remainingBytes: bigint;
  /** The best size of a request for this piece, in bytes. */
  readonly requestSize: number;
  /** What the target writes: the data of this piece, rounded outwards to requests. */
  readonly writtenBytes: bigint;
}

/** Requests are rounded outwards, and what they copy beyond the ranges takes space at the target: at most this, of the ranges. */
const MOST_COPIED_PERCENT = 105n;

const FLUSH_CHARACTERS = 1 << 18;

/**
 * Writes a new file that all may read; the caller chooses a directory that only it can enter. Reads both scans to their ends.
 *
 * @param changed what the target lacks, from the beginning of the piece on
 * @param held what the source holds, from the same place on. What changed and is not held reads as zeros
 */
export async function writePiece(
  path: string,
  changed: Ranges,
  held: Ranges,
  { maxRanges, maxBytes }: PieceLimits = PIECE_LIMITS,
): Promise<Piece> {
  const file = await open(path, 'wx', 0o644);
  const source = new HeldRanges(held);
  const lines = new Lines(file);
  const planner = new TransferPlanner();
  const piece = { ranges: 0, dataBytes: 0n, nextOffset: null as bigint | null, remainingBytes: 0n };
  try {
    // Whatever the umask took away.
    await file.chmod(0o644);
    for await (const batch of changed) {
      for (const { offset, size } of batch) {
        const end = offset + size;
        for (let at = offset; at < end; ) {
          if (piece.ranges === maxRanges || piece.dataBytes === maxBytes) piece.nextOffset ??= at;
          const isLater = piece.nextOffset !== null;
          const { isHeld, until } = source.stateAt(at) ?? (await source.readTo(at));
          const limit = isHeld && !isLater ? at + maxBytes - piece.dataBytes : end;
          const next = [end, until ?? end, limit].reduce((least, each) => (each < least ? each : least));
          const bytes = next - at;
          if (isHeld) piece.remainingBytes += bytes;
          if (!isLater) {
            lines.add(isHeld ? `${at} ${bytes}\n` : `${at} ${bytes} zero\n`);
            piece.ranges += 1;
            if (isHeld) {
              piece.dataBytes += bytes;
              planner.add(at, bytes);
            }
          }
          at = next;
        }
      }
      await lines.flush(FLUSH_CHARACTERS);
    }
    await lines.flush(0);
    const { requestSize, bytes: writtenBytes } = planner.plan((piece.dataBytes * MOST_COPIED_PERCENT) / 100n);
    return { ...piece, requestSize, writtenBytes };
  } finally {
    await file.close();
    await source.close();
  }
}

/** Text on its way to a file. */
class Lines {
  #text = '';

  constructor(private readonly file: FileHandle) {}

  add(line: string): void {
    this.#text += line;
  }

  /** Writes if there are more than so many characters. */
  async flush(characters: number): Promise<void> {
    if (this.#text.length <= characters) return;
    await this.file.appendFile(this.#text);
    this.#text = '';
  }
}

interface HeldState {
  readonly isHeld: boolean;
  /** Where that changes; null: nowhere. */
  readonly until: bigint | null;
}

/** Says of ascending offsets whether they are held. */
class HeldRanges {
  readonly #batches: AsyncIterator<readonly Range[]>;
  #batch: readonly Range[] = [];
  #next = 0;
  #isOver = false;

  constructor(ranges: Ranges) {
    this.#batches = ranges[Symbol.asyncIterator]();
  }

  /** Undefined if it takes another batch to say so. */
  stateAt(offset: bigint): HeldState | undefined {
    for (; this.#next < this.#batch.length; this.#next += 1) {
      const range = this.#batch[this.#next];
      if (range === undefined) break;
      if (offset < range.offset) return { isHeld: false, until: range.offset };
      const end = range.offset + range.size;
      if (offset < end) return { isHeld: true, until: end };
    }
    return this.#isOver ? { isHeld: false, until: null } : undefined;
  }

  async readTo(offset: bigint): Promise<HeldState> {
    for (;;) {
      const { value, done } = await this.#batches.next();
      this.#isOver = done === true;
      this.#batch = done === true ? [] : value;
      this.#next = 0;
      const state = this.stateAt(offset);
      if (state !== undefined) return state;
    }
  }

  async close(): Promise<void> {
    if (!this.#isOver) await this.#batches.return?.();
  }
}
