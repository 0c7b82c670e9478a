/** What the rules of volumes work with. */
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { OperationLocks } from './operation-locks.js';
import type { RetainedBases } from './retained-bases.js';

export interface ManagerDependencies {
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  registry: BackendRegistry;
  retainedBases: RetainedBases;
  /** The part of new handles that names this node. */
  nodeKey: string;
  /** ControllerPublishVolume is served, so its records count. */
  controllerPublish: boolean;
  /** Asked to make the change list of each new snapshot; absent: none are made. */
  changeLists?: { schedule(snapshotId: string): void } | undefined;
}
