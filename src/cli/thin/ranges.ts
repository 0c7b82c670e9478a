/** The ranges of bytes that changed, from the runs of blocks of a delta. */
import { ThinDeltaKind } from '../../native/thin-addon.js';
import type { Entry } from '../metadata/list.js';
import type { Run } from './runs.js';

/** Whatever is not the same on both sides changed; neighbours are joined whatever their kinds. */
export class ChangedRanges {
  #held: Entry | null = null;

  constructor(private readonly blockBytes: bigint) {}

  /** The ranges that are final now. */
  accept(runs: readonly Run[]): Entry[] {
    const entries: Entry[] = [];
    for (const { kind, begin, length } of runs) {
      if (kind === ThinDeltaKind.SAME) continue;
      const held = this.#held;
      const offset = begin * this.blockBytes;
      const size = length * this.blockBytes;
      if (held !== null && held.offset + held.size === offset) {
        this.#held = { offset: held.offset, size: held.size + size };
      } else {
        if (held !== null) entries.push(held);
        this.#held = { offset, size };
      }
    }
    return entries;
  }

  /** What was held back. */
  finish(): Entry[] {
    const entries = this.#held === null ? [] : [this.#held];
    this.#held = null;
    return entries;
  }
}
