/**
 * What the volumes of a pool may still claim: the parts of them that were never written. Looking at every
 * volume takes a millisecond for some hundred of them, so the figures of the last second are kept, and what
 * creations and expansions have added since is counted by size.
 *
 * A kept figure stays good while volumes are written to: what they claim and what is free fall together. It is
 * too high once a volume is deleted, and too low only by what a workload has discarded in that second while a
 * snapshot still holds it, which it may as well discard a second later. So it may admit; it never refuses.
 */
import type { NativeRunner } from '../../native/pool.js';
import type { PoolLayout } from './pool-layout.js';
import { type VolumeBytes, volumeBytes } from './pool-space.js';

const MAX_AGE_MS = 1000;

export class CommittedSpace {
  /** Of all creations and expansions so far, with those under way. */
  #startedBytes = 0n;
  #endedBytes = 0n;
  #last: { unwritten: bigint; endedBefore: bigint; lookedAt: number } | null = null;

  constructor(private readonly native: NativeRunner) {}

  /** What creations and expansions under way add; the files may have it already. */
  get pendingBytes(): bigint {
    return this.#startedBytes - this.#endedBytes;
  }

  /** Before a volume's file is created or grown by `bytes`. Each start needs its end, also after a failure. */
  addingStarts(bytes: bigint): void {
    this.#startedBytes += bytes;
  }

  addingEnds(bytes: bigint): void {
    this.#endedBytes += bytes;
  }

  /** Looks at every volume. Does not count what is pending and has no file yet. */
  async now(layout: PoolLayout): Promise<VolumeBytes> {
    const lookedAt = performance.now();
    const endedBefore = this.#endedBytes;
    const found = await volumeBytes(this.native, layout);
    this.#last = { unwritten: found.unwritten, endedBefore, lookedAt };
    return found;
  }

  /** At least what is committed, with what is pending: of the last look, or of a new one if that is too old. */
  async atMost(layout: PoolLayout): Promise<bigint> {
    if (this.#last === null || performance.now() - this.#last.lookedAt > MAX_AGE_MS) {
      await this.now(layout);
    }
    const { unwritten = 0n, endedBefore = 0n } = this.#last ?? {};
    return unwritten + this.#startedBytes - endedBefore;
  }
}
