/** Builds the services of CSI from their dependencies. Opens and starts nothing. */
import { hasVolumeCondition } from '../../base/csi/capabilities.js';
import { type AnyService, withRpcs } from '../../base/csi/service.js';
import type { Logger } from '../../base/logger.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { Config } from '../config/config.js';
import { createControllerService } from '../controller/controller.js';
import { createGroupControllerService } from '../controller/group-controller.js';
import { controllerHealthRpcs, storageConditionOf } from '../health/controller-health.js';
import { nodeConditionOf, nodeHealthRpcs } from '../health/node-health.js';
import type { HealthDependencies } from '../health/storage-observations.js';
import type { ScanObserver } from '../metadata/scan-observer.js';
import { createSnapshotMetadataService } from '../metadata/snapshot-metadata.js';
import type { NativeRunner } from '../native/pool.js';
import type { ScanThreads } from '../native/scan-threads.js';
import type { NodeDependencies } from '../node/node-dependencies.js';
import { createNodeService } from '../node/node-service.js';
import { unusedStagings } from '../node/unused-stagings.js';
import { settingsApplier } from '../node/volume-settings.js';
import type { ChangeListMaker } from '../volumes/change-list-maker.js';
import { GroupManager } from '../volumes/group-manager.js';
import type { NodeIdentity } from '../volumes/node-identity.js';
import type { OperationLocks } from '../volumes/operation-locks.js';
import type { RetainedBases } from '../volumes/retained-bases.js';
import { SnapshotManager } from '../volumes/snapshot-manager.js';
import { VolumeManager } from '../volumes/volume-manager.js';
import type { Threads } from './threads.js';

export interface Parts {
  catalogue: AsyncCatalogue;
  native: NativeRunner;
  pendingCall?: Threads['pendingCall'];
  copyFailure?: HealthDependencies['copyFailure'];
  scanThreads: ScanThreads;
  registry: BackendRegistry;
  locks: OperationLocks;
  retainedBases: RetainedBases;
  scanObserver?: ScanObserver | undefined;
  /** Null if no change lists are made. */
  changeLists: ChangeListMaker | null;
  identity: NodeIdentity;
  clearance: NodeDependencies['clearance'];
  logger: Pick<Logger, 'warn'>;
}

export function createServices(config: Config, parts: Parts): { services: AnyService[]; snapshots: SnapshotManager } {
  const { catalogue, native, scanThreads, registry, locks, retainedBases, identity, logger } = parts;
  const backendOf = (pool: string) => registry.owning(pool);
  const { controllerPublish } = config;
  const nodeKey = identity.key;
  const changeLists = parts.changeLists ?? undefined;
  const { pendingCall, copyFailure } = parts;
  const observed = { catalogue, native, backendOf, pendingCall, copyFailure };
  const node: NodeDependencies = {
    config,
    catalogue,
    locks,
    native,
    backendOf,
    clearance: parts.clearance,
    logger,
    conditionOf: nodeConditionOf(observed),
  };
  const managers = {
    catalogue,
    locks,
    registry,
    retainedBases,
    stagings: unusedStagings(node),
    nodeKey,
    controllerPublish,
    changeLists,
    logger,
  };
  const volumes = new VolumeManager(managers);
  const snapshots = new SnapshotManager(managers);
  const controller = createControllerService({
    config,
    catalogue,
    locks,
    registry,
    volumes,
    snapshots,
    settings: settingsApplier(node),
    logger,
    ...(hasVolumeCondition(config) ? { conditionOf: storageConditionOf(observed) } : {}),
  });
  const pools = config.pools.map(({ name }) => name);
  const services = [
    withRpcs(controller, controllerHealthRpcs(observed)),
    createGroupControllerService({ config, groups: new GroupManager(managers) }),
    withRpcs(createNodeService(node), nodeHealthRpcs({ ...observed, pools })),
    createSnapshotMetadataService({
      catalogue,
      locks,
      scanThreads,
      backendOf,
      changeLists,
      observer: parts.scanObserver,
    }),
  ];
  return { services, snapshots };
}
