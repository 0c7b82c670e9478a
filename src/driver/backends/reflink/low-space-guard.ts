/**
 * Frees the blocks of hidden snapshots when a reflink pool runs low, oldest first, before a writer of a volume
 * meets ENOSPC. Looks at the pool's free space ten times a second while it holds any, and otherwise not at all.
 *
 * Knows nothing of volumes and records: the next change of retained bases finds what is gone.
 */
import type { OnEvent } from '../backend.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { lowWater, type RetainedLists } from './retained-lists.js';

/** At 2 GB/s a volume writes a fifth of the smallest low water mark in this time. */
const PROBE_INTERVAL_MS = 100;
/** After a probe that has failed: the pool cannot be reached. */
const RETRY_INTERVAL_MS = 5000;

export class LowSpaceGuard {
  #timer: NodeJS.Timeout | undefined;
  #probing: Promise<void> | null = null;
  #isStopped = true;

  constructor(
    private readonly pool: string,
    private readonly directory: PoolDirectory,
    private readonly retained: RetainedLists,
    private readonly onEvent: OnEvent | undefined,
  ) {}

  /** Call after the pool has started, and after a snapshot was hidden. */
  start(): void {
    this.#isStopped = false;
    if (this.#timer === undefined && this.#probing === null) this.#probeIn(0);
  }

  /** Resolves when no probe is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#probing;
  }

  #probeIn(delayMs: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#probing = this.#probe()
        .catch(() => RETRY_INTERVAL_MS)
        .then((nextMs) => {
          this.#probing = null;
          if (nextMs !== null && !this.#isStopped) this.#probeIn(nextMs);
        });
    }, delayMs);
    this.#timer.unref();
  }

  /** When to probe again; null: not before another snapshot is hidden. */
  async #probe(): Promise<number | null> {
    return this.directory.use(async (opened) => {
      if (!(await this.#isLow(opened))) {
        return (await this.retained.hidden(opened)).size > 0 ? PROBE_INTERVAL_MS : null;
      }
      const hidden = await this.retained.hiddenOldestFirst(opened);
      for (const snapshotId of hidden) {
        if (this.#isStopped || !(await this.#isLow(opened))) break;
        await this.#free(opened, snapshotId);
      }
      return hidden.length > 0 ? PROBE_INTERVAL_MS : null;
    });
  }

  async #isLow(opened: OpenDirectories): Promise<boolean> {
    const { totalBytes, freeBytes } = await this.directory.space(opened);
    return freeBytes < lowWater(totalBytes);
  }

  async #free(opened: OpenDirectories, snapshotId: string): Promise<void> {
    const before = await this.directory.space(opened);
    await this.retained.dropFile(opened, snapshotId);
    this.onEvent?.({
      level: 'warn',
      message:
        `pool '${this.pool}' had ${before.freeBytes} of ${before.totalBytes} bytes free, less than the ` +
        `${lowWater(before.totalBytes)} that it keeps for writers: the blocks of the deleted snapshot ${snapshotId}, a ` +
        'retained base, were freed; unless its change list is stored, the next backup based on it, or on an older ' +
        'deleted snapshot of its volume, has to be a full one',
    });
  }
}
