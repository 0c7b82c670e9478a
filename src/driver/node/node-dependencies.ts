/** The objects that every file of the Node service gets. */
import type { Logger } from '../../base/logger.js';
import type { Backend } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { Config } from '../config/config.js';
import type { VolumeCondition } from '../health/volume-health.js';
import type { NativeRunner } from '../native/pool.js';
import type { VolumeView } from '../usage/volume-view.js';
import type { OperationLocks } from '../volumes/operation-locks.js';
import type { StagingClearance } from '../volumes/staging-clearance.js';

export interface NodeDependencies {
  config: NodeConfig;
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  native: NativeRunner;
  backendOf(pool: string): Backend;
  /** Of volumes with copies on other nodes. */
  clearance: Pick<StagingClearance, 'assertGiven'>;
  /** Logs what a failed clean-up leaves behind. */
  logger: Pick<Logger, 'warn'>;
  /** Returns the VolumeCondition of the volume in the view; absent if the level of CSI has no such condition. */
  conditionOf?: (view: VolumeView) => Promise<VolumeCondition>;
}

export type NodeConfig = Pick<
  Config,
  | 'nodeId'
  | 'topologyKey'
  | 'csiLevel'
  | 'controllerPublish'
  | 'maxVolumesPerNode'
  | 'cgroupRoot'
  | 'mountPropagation'
  | 'stateDirectory'
  | 'legacyStagingDirectory'
  | 'pools'
  | 'socketPath'
>;
