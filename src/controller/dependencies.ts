/** What the parts of the Controller service are given. */
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { Config } from '../config/config.js';
import type { OperationLocks } from '../volumes/operation-locks.js';
import type { SnapshotManager } from '../volumes/snapshot-manager.js';
import type { VolumeManager } from '../volumes/volume-manager.js';

export type ControllerConfig = Pick<
  Config,
  'nodeId' | 'topologyKey' | 'csiLevel' | 'controllerPublish' | 'maxVolumesPerNode'
>;

/** As the VolumeCondition message has it. */
export interface VolumeCondition {
  abnormal: boolean;
  message: string;
}

export interface ControllerDependencies {
  config: ControllerConfig;
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  registry: BackendRegistry;
  volumes: VolumeManager;
  snapshots: SnapshotManager;
  /**
   * Gives all settings of the volume to its device, and its limits to the pods that use it; none
   * where it is not attached.
   */
  applySettings(volume: VolumeRecord): Promise<void>;
  /** Absent where VolumeCondition is not part of the answers. */
  conditionOf?: (volume: VolumeRecord) => Promise<VolumeCondition>;
}
