/** The objects that the rules of volumes work with. */
import type { Logger } from '../../base/logger.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { OperationLocks } from './operation-locks.js';
import type { RetainedBases } from './retained-bases.js';

/** The node's side of a deletion: only the node knows mounts. */
export interface UnusedStagings {
  /**
   * Ends the recorded stagings of a volume that nobody uses, and detaches the volume. FAILED_PRECONDITION if another use of the
   * volume is visible, or if the plugin cannot see what is mounted at a staging path; then nothing is unmounted. The caller
   * holds the volume's lock and has found no publication on record. Returns the staging paths.
   */
  release(volume: VolumeRecord): Promise<string[]>;
}

export interface ManagerDependencies {
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  registry: BackendRegistry;
  retainedBases: RetainedBases;
  stagings: UnusedStagings;
  /** Logs what a failed clean-up leaves behind. */
  logger: Pick<Logger, 'warn'>;
  /** The part of new handles that names this node. */
  nodeKey: string;
  /** ControllerPublishVolume is served, so its records count. */
  controllerPublish: boolean;
  /** Makes the change list of each new snapshot; absent if no lists are made. */
  changeLists?: { schedule(snapshotId: string): void } | undefined;
}
