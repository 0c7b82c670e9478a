/**
 * Builds everything behind the socket from the settings: the one place that knows all parts.
 *
 * It runs while the socket is already served, so it may take its time; it throws if the plugin
 * cannot work with these settings on this machine. What was started is let go of again then.
 */
import { constants } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { BackendRegistry } from '../backends/registry.js';
import { CsiError } from '../base/errors.js';
import type { Logger } from '../base/logger.js';
import { CatalogueBackups } from '../catalogue/backups.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { openCatalogue } from '../catalogue/catalogue-client.js';
import type { Config, Mode } from '../config/config.js';
import { createControllerService } from '../controller/controller.js';
import { createGroupControllerService } from '../controller/group-controller.js';
import { hasVolumeCondition } from '../csi/capabilities.js';
import { type AnyService, type ServiceName, withRpcs } from '../csi/service.js';
import { nodeKey } from '../domain/identifiers.js';
import { controllerHealthRpcs, storageConditionOf } from '../health/controller-health.js';
import { nodeConditionOf, nodeHealthRpcs } from '../health/node-health.js';
import { assertPrograms } from '../host/exec.js';
import { assertCanOpenDirectories } from '../host/process-capabilities.js';
import { createSnapshotMetadataService } from '../metadata/snapshot-metadata.js';
import { NativePool } from '../native/pool.js';
import { ScanThreads } from '../native/scan-threads.js';
import type { NodeDependencies } from '../node/dependencies.js';
import { createNodeService } from '../node/node.js';
import { applyVolumeSettings } from '../node/volume-settings.js';
import { GroupManager } from '../volumes/group-manager.js';
import { OperationLocks } from '../volumes/operation-locks.js';
import { type ReconcileReport, reconcile } from '../volumes/reconcile.js';
import { RetainedBases } from '../volumes/retained-bases.js';
import { SnapshotManager } from '../volumes/snapshot-manager.js';
import { findUnknownObjects, refuseChange } from '../volumes/unknown-objects.js';
import { VolumeManager } from '../volumes/volume-manager.js';
import { guarded } from './guarded-services.js';
import { startBackends } from './pools-start.js';

export interface Composition {
  /** All services but Identity. Those that the mode leaves out are absent. */
  readonly services: readonly AnyService[];
  /**
   * Resolves if the plugin works; throws a CsiError FAILED_PRECONDITION that says what is broken.
   * Called for every Probe.
   */
  health(): Promise<void>;
  /** Lets go of everything, after the last call has ended. Waits for work that cannot be stopped. */
  close(): Promise<void>;
}

const LOOP_CONTROL = '/dev/loop-control';

const LEFT_OUT: Readonly<Record<Mode, readonly ServiceName[]>> = {
  all: [],
  controller: ['Node'],
  node: ['Controller', 'GroupController'],
};

/** Undone in the opposite order. */
type Undo = Array<() => Promise<void>>;

export async function composeServices(config: Config, logger: Logger): Promise<Composition> {
  const undo: Undo = [];
  try {
    return { ...(await compose(config, logger, undo)), close: () => letGo(undo) };
  } catch (thrown) {
    await letGo(undo).catch((error) => logger.warn({ err: error }, 'not everything was let go of'));
    throw thrown;
  }
}

/** Every step, also after one that failed; the first failure is thrown in the end. */
async function letGo(undo: Undo): Promise<void> {
  const failures: unknown[] = [];
  for (const step of undo.splice(0).reverse()) {
    await step().catch((thrown: unknown) => failures.push(thrown));
  }
  if (failures.length > 0) throw failures[0];
}

async function compose(
  config: Config,
  logger: Logger,
  undo: Undo,
): Promise<Omit<Composition, 'close'>> {
  await assertCanOpenDirectories();
  await mkdir(config.stateDirectory, { recursive: true, mode: 0o700 });
  const catalogueFile = join(config.stateDirectory, 'catalogue.sqlite');
  const catalogue = await openCatalogue(catalogueFile, ({ level, message }) => {
    logger[level](message);
  });
  undo.push(() => catalogue.close());
  const native = await startPool(config.deviceThreads, undo);
  const scanThreads = new ScanThreads(
    await startPool(config.scanThreads, undo),
    config.scanThreads,
  );
  const startThreads = (count: number) => startPool(count, undo);
  const registry = await startBackends(config, { catalogue, native, startThreads, logger }, undo);
  const locks = new OperationLocks();
  const limits = {
    perVolume: config.retainedBasesPerVolume,
    ageMs: config.retainedBasesAgeMs,
    poolBytes: config.retainedBasesPoolBytes,
  };
  const retainedBases = new RetainedBases({ catalogue, locks, limits, logger });
  const unknown = await findUnknownObjects(config.stateDirectory, { catalogue, registry });
  const lacksRows = unknown.length > 0;
  report(logger, await reconcile({ catalogue, registry, retainedBases, lacksRows }));
  if (!lacksRows) {
    const backups = new CatalogueBackups({
      ...{ catalogue, logger, file: catalogueFile },
      directory: join(config.stateDirectory, 'backups'),
    });
    undo.push(() => backups.stop());
    await backups.start();
  } else {
    logger.error({ unknown }, refuseChange('every change', unknown).message);
  }
  const parts = { catalogue, native, scanThreads, registry, locks, retainedBases };
  return {
    services: createServices(config, parts)
      .filter(({ name }) => !LEFT_OUT[config.mode].includes(name))
      .map((service) => guarded(service, unknown)),
    health: async () => {
      await checkNode();
      for (const backend of registry.all) await backend.checkNode();
      for (const { failure } of registry.unavailable) throw failure;
      for (const backend of registry.all) await backend.check();
    },
  };
}

/** What every call that touches a device needs of the machine. */
async function checkNode(): Promise<void> {
  await assertPrograms();
  try {
    await access(LOOP_CONTROL, constants.R_OK | constants.W_OK);
  } catch (thrown) {
    throw CsiError.failedPrecondition(
      `${LOOP_CONTROL} cannot be used: the node needs the loop driver, and the plugin access to /dev`,
      { cause: thrown },
    );
  }
}

async function startPool(threads: number, undo: Undo): Promise<NativePool> {
  const pool = new NativePool(threads);
  undo.push(() => pool.close());
  await pool.warm();
  return pool;
}

interface Parts {
  catalogue: AsyncCatalogue;
  native: NativePool;
  scanThreads: ScanThreads;
  registry: BackendRegistry;
  locks: OperationLocks;
  retainedBases: RetainedBases;
}

function createServices(config: Config, parts: Parts): AnyService[] {
  const { catalogue, native, scanThreads, registry, locks, retainedBases } = parts;
  const backendOf = (pool: string) => registry.owning(pool);
  const { controllerPublish } = config;
  const key = nodeKey(config.nodeId);
  const managers = { catalogue, locks, registry, retainedBases, nodeKey: key, controllerPublish };
  const volumes = new VolumeManager(managers);
  const snapshots = new SnapshotManager(managers);
  const seen = { catalogue, backendOf };
  const node: NodeDependencies = {
    ...{ config, catalogue, locks, native, backendOf },
    volumeContext: () => ({}),
    conditionOf: nodeConditionOf(seen),
  };
  const controller = createControllerService({
    ...{ config, catalogue, locks, registry, volumes, snapshots },
    applySettings: (volume) => applyVolumeSettings(node, volume),
    ...(hasVolumeCondition(config) ? { conditionOf: storageConditionOf(seen) } : {}),
  });
  const pools = config.pools.map(({ name }) => name);
  return [
    withRpcs(controller, controllerHealthRpcs(seen)),
    createGroupControllerService({ config, groups: new GroupManager(managers) }),
    withRpcs(createNodeService(node), nodeHealthRpcs({ ...seen, pools })),
    createSnapshotMetadataService({ catalogue, locks, scanThreads, backendOf }),
  ];
}

/** One line a start; a difference is a warning, because a person has to look at it. */
function report(logger: Logger, found: ReconcileReport): void {
  const level = found.differences.length > 0 ? 'warn' : 'info';
  logger[level]({ ...found }, 'reconciled');
}
