/**
 * Frees the blocks of hidden snapshots when a reflink pool runs low on space, oldest first, before a writer of a volume meets
 * ENOSPC. While the pool has hidden snapshots, looks at its free space, the more often the less is free.
 *
 * Knows nothing of volumes and of records in the catalogue: the next change of retained bases finds out which are gone.
 */
import { Periodic } from '../../../base/periodic.js';
import type { OnEvent } from '../backend.js';
import { lowWater } from '../pool-levels.js';
import type { ListRules } from '../retained/list-rules.js';
import type { ListFiles } from './list-files.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';

/** The fastest that volumes are expected to write. */
const BYTES_PER_MS = 2_000_000n;
/** In this time a volume writes a fifth of the smallest low water mark. */
const SHORTEST_INTERVAL_MS = 100;
const LONGEST_INTERVAL_MS = 10_000;
/** Delay after a failed probe, because the pool cannot be reached. */
const RETRY_INTERVAL_MS = 5000;

/** Start it after the pool has started, and again after each snapshot that is hidden. */
export class LowSpaceGuard extends Periodic {
  constructor(
    private readonly pool: string,
    private readonly directory: PoolDirectory,
    private readonly rules: ListRules,
    private readonly files: Pick<ListFiles, 'giveUp'>,
    private readonly onEvent: OnEvent | undefined,
  ) {
    super(0, () => this.#probe().catch(() => RETRY_INTERVAL_MS));
  }

  /** Milliseconds until the next probe; null if none is needed before another snapshot is hidden. */
  async #probe(): Promise<number | null> {
    const { held } = this.rules;
    if (held.size === 0) return null;
    return this.directory.use(async (opened) => {
      let room = await this.#room(opened);
      const oldestFirst = [...(room < 0n ? held : [])].sort(([, a], [, b]) => (a.takenAt < b.takenAt ? -1 : 1));
      for (const [snapshotId] of oldestFirst) {
        if (this.isStopped || room >= 0n) break;
        await this.#free(opened, snapshotId);
        room = await this.#room(opened);
      }
      const interval = Math.max(SHORTEST_INTERVAL_MS, Number(room / BYTES_PER_MS) / 2);
      return Math.min(interval, LONGEST_INTERVAL_MS);
    });
  }

  /** Bytes that can be written until the pool is low; negative if it is low already. */
  async #room(opened: OpenDirectories): Promise<bigint> {
    const { totalBytes, freeBytes } = await this.directory.space(opened);
    return freeBytes - lowWater(totalBytes);
  }

  async #free(opened: OpenDirectories, snapshotId: string): Promise<void> {
    const before = await this.directory.space(opened);
    await this.rules.giveUp(snapshotId, () => this.files.giveUp(snapshotId));
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
