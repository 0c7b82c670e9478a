/**
 * Builds everything behind the socket from the settings: the one place that knows all parts.
 *
 * It runs while the socket is already served, so it may take its time. It throws if the plugin cannot
 * work with these settings on this machine, and then closes what it has opened.
 */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { hasVolumeCondition } from '../../base/csi/capabilities.js';
import {
  type AnyService,
  type AnyUnaryHandler,
  type RpcName,
  withRpcs,
} from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { assertPrograms } from '../../base/process/exec.js';
import type { Backend } from '../backends/backend.js';
import { BackendRegistry } from '../backends/registry.js';
import { CatalogueBackups } from '../catalogue/backups.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { openCatalogue } from '../catalogue/catalogue-client.js';
import type { PublicationRecord } from '../catalogue/records.js';
import type { Config } from '../config/config.js';
import { createControllerService } from '../controller/controller.js';
import { createGroupControllerService } from '../controller/group-controller.js';
import { controllerHealthRpcs, storageConditionOf } from '../health/controller-health.js';
import { nodeConditionOf, nodeHealthRpcs } from '../health/node-health.js';
import { assertCanOpenDirectories } from '../host/process-capabilities.js';
import type { ScanObserver } from '../metadata/scan-observer.js';
import { createSnapshotMetadataService } from '../metadata/snapshot-metadata.js';
import type { PluginMetrics } from '../metrics/plugin-metrics.js';
import type { NativeRunner } from '../native/pool.js';
import type { ScanThreads } from '../native/scan-threads.js';
import type { NodeDependencies } from '../node/dependencies.js';
import { createNodeService } from '../node/node.js';
import { unusedStagings } from '../node/unused-stagings.js';
import { settingsApplier } from '../node/volume-settings.js';
import { ChangeListMaker } from '../volumes/change-list-maker.js';
import { GroupManager } from '../volumes/group-manager.js';
import { type NodeIdentity, settleNodeIdentity } from '../volumes/node-identity.js';
import { OperationLocks } from '../volumes/operation-locks.js';
import { PoolUsageLog } from '../volumes/pool-usage.js';
import { type ReconcileReport, reconcile } from '../volumes/reconcile.js';
import { RetainedBases } from '../volumes/retained-bases.js';
import { RetentionTimer } from '../volumes/retention-timer.js';
import { SnapshotManager } from '../volumes/snapshot-manager.js';
import { LostRows } from '../volumes/unknown-objects.js';
import { VolumeManager } from '../volumes/volume-manager.js';
import { volumeNamed } from '../volumes/volume-named.js';
import { refusingForeignHandles } from './foreign-handles.js';
import { PoolRecovery } from './pool-recovery.js';
import { startBackends } from './pools-start.js';
import { Recent } from './recent.js';
import { RunMarker } from './run-marker.js';
import { type StartFacts, startFacts } from './start-facts.js';
import { assertRoot, prepareStateDirectory } from './state-directory.js';
import { Teardown } from './teardown.js';
import { startThreads, type Threads } from './threads.js';

export interface Composition {
  /** All services but Identity. */
  readonly services: readonly AnyService[];
  /**
   * Resolves if the plugin works; throws a CsiError FAILED_PRECONDITION that says what is broken.
   * Called for every Probe.
   */
  health(): Promise<void>;
  findVolume(name: string, signal: AbortSignal): Promise<string | null>;
  /** On record for the volume. */
  publicationsOf(volumeId: string): Promise<readonly PublicationRecord[]>;
  /** For the start line of the log. */
  readonly facts: StartFacts;
  /** Closes everything, after the last call has ended. Waits for work that cannot be stopped. */
  close(): Promise<void>;
}

const LOOP_CONTROL = '/dev/loop-control';
/** A Probe reports the node as it was at most that long ago; kubelet probes every few seconds. */
const PROBE_AGE_MS = 1000;

/** @param metrics gets what it observes; null: nothing is counted */
export async function composeServices(
  config: Config,
  logger: Logger,
  metrics: PluginMetrics | null = null,
): Promise<Composition> {
  const teardown = new Teardown();
  try {
    return { ...(await compose(config, logger, teardown, metrics)), close: () => teardown.run() };
  } catch (thrown) {
    await teardown.run().catch((error) => {
      logger.warn({ err: error }, 'cannot close everything that the failed start has opened');
    });
    throw thrown;
  }
}

async function compose(
  config: Config,
  logger: Logger,
  teardown: Teardown,
  metrics: PluginMetrics | null,
): Promise<Omit<Composition, 'close'>> {
  await assertRoot();
  await assertCanOpenDirectories();
  await prepareStateDirectory(config.stateDirectory, logger);
  const catalogueFile = join(config.stateDirectory, 'catalogue.sqlite');
  const isFirstStart = await access(catalogueFile).then(
    () => false,
    () => true,
  );
  const catalogue = await openCatalogue(
    catalogueFile,
    ({ level, message }) => logger[level](message),
    metrics?.catalogue,
  );
  teardown.add(() => catalogue.close());
  const marker = new RunMarker(config.stateDirectory);
  const lastStop = await marker.begin(isFirstStart);
  teardown.add(() => marker.end());
  const { stateDirectory } = config;
  const identity = await settleNodeIdentity({ catalogue, stateDirectory }, config.nodeId);
  const poolOf = async (id: string) => (await catalogue.volumeById(id))?.pool ?? null;
  const threads = await startThreads(config, poolOf, teardown, metrics);
  const { native, scanThreads } = threads;
  const { registry, startAgain } = await startBackends(
    config,
    { catalogue, ...threads, logger, metrics },
    teardown,
  );
  const locks = new OperationLocks();
  const limits = {
    perVolume: config.retainedBasesPerVolume,
    ageMs: config.retainedBasesAgeMs,
    poolBytes: config.retainedBasesPoolBytes,
  };
  const retainedBases = new RetainedBases({ catalogue, locks, limits, logger });
  const lost = new LostRows(config.stateDirectory, catalogue, retainedBases);
  await lost.search(registry.all);
  const reconciling = { catalogue, retainedBases };
  report(logger, await reconcile({ ...reconciling, registry, lacksRows: lost.found }));
  const directory = join(config.stateDirectory, 'backups');
  const backups = new CatalogueBackups({ catalogue, logger, file: catalogueFile, directory });
  teardown.add(() => backups.stop());
  if (!lost.found) await backups.start();
  else reportLost(logger, lost);
  const prepare = async (backend: Backend): Promise<void> => {
    const before = lost.found;
    await lost.search([backend]);
    if (lost.found && !before) {
      // The backups of a catalogue that lacks rows would replace those of the whole one.
      await backups.stop();
      reportLost(logger, lost);
    }
    const { pool } = backend;
    const only = { registry: new BackendRegistry([backend]), pool, lacksRows: lost.found };
    report(logger, await reconcile({ ...reconciling, ...only }));
  };
  const recovery = new PoolRecovery({ registry, startAgain, prepare, logger });
  teardown.add(() => recovery.stop());
  recovery.start();
  const changeLists = new ChangeListMaker({
    catalogue,
    registry,
    locks,
    retainedBases,
    logger,
    observe: metrics?.scans.listProblem.bind(metrics.scans),
  });
  teardown.add(() => changeLists.stop());
  const retention = new RetentionTimer({ pools: () => registry.all, retainedBases, logger });
  teardown.add(() => retention.stop());
  retention.start();
  const usage = new PoolUsageLog({ pools: () => registry.all, logger });
  teardown.add(() => usage.stop());
  await usage.start();
  await marker.started();
  metrics?.observeStorage({ registry, catalogue });
  const parts = {
    catalogue,
    scanThreads,
    registry,
    locks,
    retainedBases,
    identity,
    changeLists: config.changeLists ? changeLists : null,
    native: metrics?.observedRunner(native, null) ?? native,
    logger,
    pendingCall: threads.pendingCall,
    scanObserver: metrics?.scans,
  };
  const health = new Recent(PROBE_AGE_MS, async () => {
    await checkNode();
    await recovery.check();
    assertSomeWork(registry);
  });
  return {
    facts: await startFacts(registry, lastStop),
    services: createServices(config, parts).map((service) => refusingChanges(service, lost)),
    health: () => health.get(),
    findVolume: (name, signal) => volumeNamed({ catalogue, locks }, name, signal),
    publicationsOf: (volumeId) => catalogue.publications(volumeId),
  };
}

function reportLost(logger: Logger, lost: LostRows): void {
  logger.error({ unknown: lost.objects }, lost.refusal('every change').message);
}

/**
 * Health, metrics and the log report a single pool that is away. A failing Probe has the plugin restarted,
 * and its clients with it, which helps no pool and takes the others away for a while.
 */
function assertSomeWork(registry: BackendRegistry): void {
  const failures = registry.states.map(({ failure }) => failure);
  const [first] = failures;
  if (first !== null && first !== undefined && !failures.includes(null)) throw first;
}

/** What the plugin needs of the machine whatever its pools are; what a pool needs, its backend checks. */
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

export interface Parts {
  catalogue: AsyncCatalogue;
  native: NativeRunner;
  pendingCall?: Threads['pendingCall'];
  scanThreads: ScanThreads;
  registry: BackendRegistry;
  locks: OperationLocks;
  retainedBases: RetainedBases;
  scanObserver?: ScanObserver | undefined;
  /** Null: no change lists are made. */
  changeLists: ChangeListMaker | null;
  identity: NodeIdentity;
  logger: Pick<Logger, 'warn'>;
}

export function createServices(config: Config, parts: Parts): AnyService[] {
  const { catalogue, native, scanThreads, registry, locks, retainedBases, identity, logger } =
    parts;
  const backendOf = (pool: string) => registry.owning(pool);
  const { controllerPublish } = config;
  const nodeKey = identity.key;
  const changeLists = parts.changeLists ?? undefined;
  const observed = { catalogue, backendOf, pendingCall: parts.pendingCall };
  const node: NodeDependencies = {
    config,
    catalogue,
    locks,
    native,
    backendOf,
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
  const services: AnyService[] = [
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
  return services.map((service) => refusingForeignHandles(service, identity));
}

/**
 * The RPCs that create, delete or change an object of the catalogue. All others are served by a catalogue
 * that has lost rows too: pods keep running and can be torn down, backups can be made.
 */
const CHANGES: readonly RpcName[] = [
  'CreateVolume',
  'DeleteVolume',
  'ControllerExpandVolume',
  'ControllerModifyVolume',
  'CreateSnapshot',
  'DeleteSnapshot',
  'CreateVolumeGroupSnapshot',
  'DeleteVolumeGroupSnapshot',
];

/** The service, which refuses changes while rows are found to be lost, also of a pool that comes later. */
function refusingChanges(service: AnyService, lost: LostRows): AnyService {
  const guarded: Record<string, AnyUnaryHandler> = {};
  const unary: Readonly<Record<string, AnyUnaryHandler | undefined>> = service.unary;
  for (const rpc of CHANGES) {
    const handler = unary[rpc];
    if (handler === undefined) continue;
    guarded[rpc] = async (request, context) => {
      if (lost.found) throw lost.refusal(rpc);
      return handler(request, context);
    };
  }
  return { ...service, unary: { ...service.unary, ...guarded } } as AnyService;
}

/** One line for each start of a pool or of all; differences are a warning, because an operator has to examine them. */
function report(logger: Logger, found: ReconcileReport): void {
  const level = found.differences.length > 0 ? 'warn' : 'info';
  logger[level]({ ...found }, 'reconciled');
}
