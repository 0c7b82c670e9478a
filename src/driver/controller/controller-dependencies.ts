/** What the handlers of the Controller service depend on. */
import type { HandlerWith, RpcName } from '../../base/csi/service.js';
import type { Logger } from '../../base/logger.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { Config } from '../config/config.js';
import type { VolumeCondition } from '../health/volume-health.js';
import type { SettingsApplier } from '../volumes/device-settings.js';
import type { OperationLocks } from '../volumes/operation-locks.js';
import type { SnapshotManager } from '../volumes/snapshot-manager.js';
import type { VolumeManager } from '../volumes/volume-manager.js';

export type ControllerConfig = Pick<
  Config,
  'nodeId' | 'topologyKey' | 'csiLevel' | 'controllerPublish' | 'maxVolumesPerNode' | 'transfers'
>;

export interface ControllerDependencies {
  config: ControllerConfig;
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  registry: BackendRegistry;
  volumes: VolumeManager;
  snapshots: SnapshotManager;
  settings: SettingsApplier;
  /** Logs what a failed clean-up leaves. */
  logger: Pick<Logger, 'warn'>;
  /** Absent if the CSI level has no VolumeCondition. */
  conditionOf?: (volume: VolumeRecord) => Promise<VolumeCondition>;
}

export type Handler<R extends RpcName> = HandlerWith<ControllerDependencies, R>;
