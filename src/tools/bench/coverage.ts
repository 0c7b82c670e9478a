/** Compares a list of ranges with the written blocks: counts the listed entries and bytes, and finds missing blocks. */

import { readRanges } from '../../base/csi/range-reader.js';
import { BLOCK_BYTES } from './block-writer.js';

export class Coverage {
  entries = 0;
  bytes = 0;
  #next = 0;

  /** @param written block numbers, ascending */
  constructor(private readonly written: readonly number[]) {}

  /** Takes the bytes of one message; throws at the first block that the list has passed over. */
  readonly onMessage = (message: Buffer): void => {
    readRanges(message, (offset, size) => {
      this.entries += 1;
      this.bytes += size;
      const block = this.written[this.#next];
      if (block !== undefined && block * BLOCK_BYTES < offset) throw this.#missed(block);
      while ((this.written[this.#next] ?? Number.POSITIVE_INFINITY) * BLOCK_BYTES < offset + size) {
        this.#next += 1;
      }
    });
  };

  /** Call this after the last message. Throws if the list lacks a block. */
  end(): void {
    const block = this.written[this.#next];
    if (block !== undefined) throw this.#missed(block);
  }

  #missed(block: number): Error {
    return new Error(
      `the driver's list lacks the block at byte ${block * BLOCK_BYTES}, which was written between the snapshots`,
    );
  }
}
