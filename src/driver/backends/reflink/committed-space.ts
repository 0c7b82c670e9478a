/**
 * The space that the volumes of a pool may still claim: their parts that were never written. A look at every volume takes a
 * millisecond for a few hundred of them, so this class keeps the figures of the last second and adds the sizes of creations
 * and expansions since.
 *
 * A kept figure stays good while volumes are written to: their claims and the free space fall together. The figure is too
 * high once a volume is deleted. It is too low only by blocks that a workload discarded in that second and a snapshot still
 * holds, and the workload may as well discard them a second later. So a kept figure may admit a volume, but never refuses
 * one.
 */
import type { NativeRunner } from '../../native/pool.js';
import type { PoolLayout } from './pool-layout.js';
import { type VolumeBytes, volumeBytes } from './pool-space.js';

const MAX_AGE_MS = 1000;

export class CommittedSpace {
  /** Bytes of all creations and expansions so far, including those under way. */
  #startedBytes = 0n;
  #endedBytes = 0n;
  #last: { unwritten: bigint; endedBefore: bigint; lookedAt: number } | null = null;

  constructor(private readonly native: NativeRunner) {}

  /** Bytes that creations and expansions under way add; the files may have them already. */
  get pendingBytes(): bigint {
    return this.#startedBytes - this.#endedBytes;
  }

  /** Call before a volume's file is created or grown by `bytes`. Each start needs its end, also after a failure. */
  addingStarts(bytes: bigint): void {
    this.#startedBytes += bytes;
  }

  addingEnds(bytes: bigint): void {
    this.#endedBytes += bytes;
  }

  /** Looks at every volume. Does not count pending bytes that have no file yet. */
  async now(layout: PoolLayout): Promise<VolumeBytes> {
    const looked = this.looking();
    const found = await volumeBytes(this.native, layout);
    looked(found);
    return found;
  }

  /** Call before a look at every volume for another purpose, and the returned function with what was found. */
  looking(): (found: VolumeBytes) => void {
    const lookedAt = performance.now();
    const endedBefore = this.#endedBytes;
    return ({ unwritten }) => {
      this.#last = { unwritten, endedBefore, lookedAt };
    };
  }

  /** An upper bound of the committed and pending bytes: from the last look, or from a new one if that is too old. */
  async atMost(layout: PoolLayout): Promise<bigint> {
    if (this.#last === null || performance.now() - this.#last.lookedAt > MAX_AGE_MS) {
      await this.now(layout);
    }
    const { unwritten = 0n, endedBefore = 0n } = this.#last ?? {};
    return unwritten + this.#startedBytes - endedBefore;
  }
}
