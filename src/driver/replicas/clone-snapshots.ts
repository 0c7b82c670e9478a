/**
 * Snapshots that are taken for a clone of a volume on another node, one for each name of a clone. They are in no list, and belong
 * to nobody but the pull that reads them, so they go some time after the last transfer, whoever has forgotten them.
 */
import { CsiError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { Periodic } from '../../base/periodic.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { SnapshotRecord } from '../catalogue/records.js';
import type { SnapshotManager } from '../volumes/snapshot-manager.js';
import type { OpenTransfers } from './open-transfers.js';

export interface CloneSnapshotsOptions {
  catalogue: Pick<AsyncCatalogue, 'snapshotsForClones'>;
  snapshots: Pick<SnapshotManager, 'create' | 'delete'>;
  transfers: Pick<OpenTransfers, 'lastUse'>;
  logger: Pick<Logger, 'warn'>;
  now?: () => number;
}

const INTERVAL_MS = 60_000;
const UNUSED_MS = 3_600_000;

export class CloneSnapshots extends Periodic {
  readonly #startedMs: number;

  constructor(private readonly options: CloneSnapshotsOptions) {
    super(INTERVAL_MS, () => this.round());
    this.#startedMs = this.#now();
  }

  /** Takes the snapshot, or returns the one that was taken for this name. NOT_FOUND if there is no such volume. */
  take(volumeId: string, cloneName: string, deadline: number, signal: AbortSignal): Promise<SnapshotRecord> {
    const name = `clone of ${volumeId} as ${cloneName}`;
    const request = { name, sourceVolumeId: volumeId, parameters: { cloneName }, deadline };
    return this.options.snapshots.create(request, signal);
  }

  /** Never rejects. */
  async round(): Promise<void> {
    const { catalogue, snapshots, transfers, logger } = this.options;
    for (const { snapshotId, creationTimeNs } of await catalogue.snapshotsForClones().catch(() => [])) {
      const createdMs = Number(creationTimeNs / 1_000_000n);
      const usedMs = Math.max(this.#startedMs, createdMs, transfers.lastUse(snapshotId));
      if (this.#now() - usedMs < UNUSED_MS) continue;
      await snapshots.delete(snapshotId).catch((thrown) => {
        logger.warn({ snapshot: snapshotId, err: CsiError.from(thrown) }, 'could not delete the snapshot of a clone');
      });
    }
  }

  #now(): number {
    return (this.options.now ?? Date.now)();
  }
}
