/**
 * Builds everything behind the socket from the settings: the only place that knows the order of a start.
 *
 * The start runs while the socket is already served, so it may take long. It throws if the plugin cannot
 * work with these settings on this machine, and then closes what it has opened.
 */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { AnyService } from '../../base/csi/service.js';
import { CsiError, insteadOf } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { assertPrograms } from '../../base/process/exec.js';
import type { RequestCheck } from '../../server/server.js';
import type { Backend } from '../backends/backend.js';
import { BackendRegistry } from '../backends/registry.js';
import { CatalogueBackups } from '../catalogue/backups.js';
import { type AsyncCatalogue, openCatalogue } from '../catalogue/catalogue-client.js';
import type { PublicationRecord, StagingRecord, VolumeRecord } from '../catalogue/records.js';
import type { Config } from '../config/config.js';
import { createCopiedSnapshot } from '../controller/create-snapshot.js';
import type { DatabaseEvent } from '../database/thread-task.js';
import { assertCanOpenDirectories } from '../host/process-capabilities.js';
import type { PluginMetrics } from '../metrics/plugin-metrics.js';
import { CloneSnapshots } from '../replicas/clone-snapshots.js';
import { Copies } from '../replicas/copies.js';
import { describeSnapshot } from '../replicas/described-snapshot.js';
import { digestPart } from '../replicas/digest.js';
import { findCopy } from '../replicas/known-copy.js';
import { OpenTransfers } from '../replicas/open-transfers.js';
import { Pulls } from '../replicas/pulls.js';
import { ReplicaKeeper } from '../replicas/replica-keeper.js';
import { findRoom } from '../replicas/room.js';
import { Successions } from '../replicas/successions.js';
import { placeInUse } from '../usage/volume-view.js';
import { ChangeListMaker } from '../volumes/change-list-maker.js';
import { InPlaceRestores } from '../volumes/in-place-restores.js';
import { claimNodeIdentity } from '../volumes/node-identity.js';
import { OperationLocks } from '../volumes/operation-locks.js';
import { PoolUsageLog } from '../volumes/pool-usage.js';
import { type ReconcileReport, reconcile, type SweptNames } from '../volumes/reconcile.js';
import { RetainedBases } from '../volumes/retained-bases.js';
import type { RetainedBaseLimits } from '../volumes/retention.js';
import { RetentionTimer } from '../volumes/retention-timer.js';
import { StagingClearance } from '../volumes/staging-clearance.js';
import { StartReview } from '../volumes/start-review.js';
import { LostRows } from '../volumes/unknown-objects.js';
import { volumeNamed } from '../volumes/volume-named.js';
import type { NodeSide } from './node-rpcs.js';
import { PoolRecovery } from './pool-recovery.js';
import { startBackends } from './pools-start.js';
import { Recent } from './recent.js';
import { requestCheck } from './request-check.js';
import { type LastStop, RunMarker } from './run-marker.js';
import { createServices } from './services.js';
import { type StartFacts, startFacts } from './start-facts.js';
import { assertRoot, emptyDirectory, prepareStateDirectory } from './state-directory.js';
import { Teardown } from './teardown.js';
import { startThreads } from './threads.js';

export interface Composition {
  /** All services but Identity. */
  readonly services: readonly AnyService[];
  /** Runs before every handler of the services. */
  readonly check: RequestCheck;
  /**
   * Resolves if the plugin works; throws a CsiError FAILED_PRECONDITION that says what is broken.
   * Called for every Probe.
   */
  health(): Promise<void>;
  /** For routers. */
  readonly nodeSide: NodeSide;
  /** For commands on the plugin's socket. */
  readonly inPlaceRestores: InPlaceRestores;
  /** The recorded publications of the volume. */
  publicationsOf(volumeId: string): Promise<readonly PublicationRecord[]>;
  /** For the start line of the log. */
  readonly facts: StartFacts;
  /** Closes everything, after the last call has ended. Waits for work that cannot be stopped. */
  close(): Promise<void>;
}

const LOOP_CONTROL = '/dev/loop-control';
/** How old the state that a Probe reports may be; kubelet probes every few seconds. */
const PROBE_AGE_MS = 1000;

/**
 * @param metrics gets the observations; null if nothing is counted
 * @param listening until this resolves, threads load their code and nothing else is done; a rejection is passed on
 */
export async function composeServices(
  config: Config,
  logger: Logger,
  metrics: PluginMetrics | null = null,
  listening: Promise<unknown> = Promise.resolve(),
): Promise<Composition> {
  const teardown = new Teardown();
  try {
    return { ...(await compose(config, logger, teardown, metrics, listening)), close: () => teardown.run() };
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
  listening: Promise<unknown>,
): Promise<Omit<Composition, 'close'>> {
  const opening = openState(config, logger, teardown, metrics, listening);
  const poolOf = async (id: string) => (await (await opening).catalogue.volumeById(id))?.pool ?? null;
  const ofThreads = new Teardown();
  // The threads start while the catalogue is being checked.
  const starting = startThreads(config, poolOf, ofThreads, metrics);
  await Promise.allSettled([opening, starting]);
  teardown.add(() => ofThreads.run());
  const state = await opening;
  const { catalogue, marker } = state;
  const { stateDirectory } = config;
  const identity = await claimNodeIdentity({ catalogue, stateDirectory }, config.nodeId);
  const threads = await starting;
  const storage = { catalogue, ...threads, logger, metrics };
  const { registry, startAgain, swept } = await startBackends(config, storage, teardown);
  const locks = new OperationLocks();
  const retainedBases = new RetainedBases({ catalogue, locks, limits: limitsOf(config), logger });
  const shared = { catalogue, registry, locks, retainedBases, logger };
  const backups = new CatalogueBackups({ ...state, logger });
  const { lost, settle } = await reconcilePools(stateDirectory, { ...shared, swept, backups });
  const directory = await emptyDirectory(join(stateDirectory, 'transfers'));
  const backendOf = (pool: string) => registry.owning(pool);
  const { scanThreads } = threads;
  const transfers = new OpenTransfers({ ...shared, scanThreads, backendOf, settings: config.transfers, directory });
  const pulls = new Pulls({ ...shared, directory, observe: metrics?.storage.piece.bind(metrics.storage) });
  const keeper = new ReplicaKeeper({ ...shared, pulls, transfers, lacksRows: () => lost.found });
  for (const backend of registry.all) await keeper.settle(backend);
  const pools = () => registry.all;
  const review = new StartReview({ ...shared, pools, lacksRows: () => lost.found });
  const prepare = async (backend: Backend): Promise<void> => {
    await settle(new BackendRegistry([backend]), backend.pool);
    await keeper.settle(backend);
    review.start();
  };
  const recovery = new PoolRecovery({ registry, startAgain, prepare, logger });
  const observe = metrics?.scans.listProblem.bind(metrics.scans);
  const changeLists = new ChangeListMaker({ ...shared, observe });
  const background: readonly Background[] = [
    transfers,
    pulls,
    keeper,
    new PoolUsageLog({ pools, logger }),
    recovery,
    changeLists,
    new RetentionTimer({ pools: () => (lost.found ? [] : registry.all), retainedBases, logger }),
    review,
    backups,
  ];
  await marker.started();
  metrics?.observeStorage({ registry, catalogue });
  const observeCopy = metrics?.storage.copyFailed.bind(metrics.storage);
  const copies = new Copies({ catalogue, lacksRows: () => lost.found, observe: observeCopy });
  const clearance = new StagingClearance(stateDirectory, marker.bootId);
  const parts = {
    ...shared,
    clearance,
    copyFailure: (volumeId: string) => copies.failureOf('volumeId', volumeId),
    ...threads,
    identity,
    changeLists: config.changeLists ? changeLists : null,
    native: metrics?.observedRunner(threads.native, null) ?? threads.native,
    scanObserver: metrics?.scans,
  };
  const health = new Recent(PROBE_AGE_MS, async () => {
    await checkNode();
    await recovery.check();
    assertSomeWork(registry);
  });
  const facts = await startFacts(registry, state.lastStop);
  const { services, snapshots } = createServices(config, parts);
  const check = requestCheck(identity, lost);
  const clones = new CloneSnapshots({ catalogue, snapshots, transfers, logger });
  for (const work of [...background, clones]) {
    teardown.add(() => work.stop());
    await work.start?.();
  }
  const marking = {
    ...shared,
    placeInUse: (volume: VolumeRecord, stagings: readonly StagingRecord[]) =>
      placeInUse({ backendOf }, volume, stagings),
  };
  return {
    facts,
    services,
    check,
    inPlaceRestores: new InPlaceRestores(marking),
    health: () => health.get(),
    nodeSide: {
      findVolume: (name, signal) => volumeNamed({ catalogue, locks }, name, signal),
      describeSnapshot: (snapshotId) => describeSnapshot(catalogue, registry, snapshotId),
      clones,
      transfers,
      pulls,
      replicas: keeper,
      copies,
      clearance,
      successions: new Successions(marking),
      findCopy: (snapshotId) => findCopy({ ...shared, lacksRows: () => lost.found }, snapshotId),
      findRoom: (volumeId, pool) => findRoom({ ...shared, pulls, settings: config.transfers }, volumeId, pool),
      digest: (part, signal) => digestPart(shared, part, signal),
      createCopiedSnapshot: async (request, nodeId, context) => {
        check('CreateSnapshot', request);
        const copyFailure = (snapshotId: string) => copies.failureOf('snapshotId', snapshotId);
        return createCopiedSnapshot({ catalogue, config, snapshots, copyFailure }, request, nodeId, context);
      },
    },
    publicationsOf: (volumeId) => catalogue.publications(volumeId),
  };
}

/** Work that runs beside the calls, from a start to a stop. */
interface Background {
  start?(): void | Promise<void>;
  /** Resolves when no part of the work runs any more. */
  stop(): Promise<void>;
}

interface State {
  catalogue: AsyncCatalogue;
  /** The database, and the directory of its backups. */
  file: string;
  directory: string;
  marker: RunMarker;
  lastStop: LastStop;
}

/** Opens the catalogue, whose lock keeps a second plugin away, and learns how the last run ended. */
async function openState(
  { stateDirectory }: Config,
  logger: Logger,
  teardown: Teardown,
  metrics: PluginMetrics | null,
  listening: Promise<unknown>,
): Promise<State> {
  const file = join(stateDirectory, 'catalogue.sqlite');
  const prepare = async (): Promise<boolean> => {
    await listening;
    await assertRoot();
    await assertCanOpenDirectories();
    await prepareStateDirectory(stateDirectory, logger);
    return access(file)
      .then(() => false)
      .catch(insteadOf(['ENOENT'], true));
  };
  const isFirstStart = prepare();
  const report = ({ level, message }: DatabaseEvent): void => logger[level](message);
  const catalogue = await openCatalogue(file, report, metrics?.catalogue, isFirstStart);
  teardown.add(() => catalogue.close());
  const marker = new RunMarker(stateDirectory);
  const lastStop = await marker.begin(await isFirstStart);
  teardown.add(() => marker.end());
  return { catalogue, file, directory: join(stateDirectory, 'backups'), marker, lastStop };
}

const limitsOf = (config: Config): RetainedBaseLimits => ({
  perVolume: config.retainedBasesPerVolume,
  ageMs: config.retainedBasesAgeMs,
  poolBytes: config.retainedBasesPoolBytes,
});

interface Reconciling {
  catalogue: AsyncCatalogue;
  registry: BackendRegistry;
  swept: SweptNames;
  retainedBases: RetainedBases;
  logger: Logger;
  backups: CatalogueBackups;
}

/**
 * Compares the pools that have started with the catalogue, and completes or undoes what a kill has left.
 *
 * @returns `settle`, which does the same for a pool that starts later
 */
async function reconcilePools(
  stateDirectory: string,
  { catalogue, registry, swept, retainedBases, logger, backups }: Reconciling,
): Promise<{ lost: LostRows; settle: (pools: BackendRegistry, pool?: string) => Promise<void> }> {
  const lost = new LostRows(stateDirectory, catalogue, retainedBases);
  const settle = async (pools: BackendRegistry, pool?: string): Promise<void> => {
    const before = lost.found;
    const seen = await lost.search(pools.all);
    if (lost.found && !before) {
      // Backups of a catalogue that lacks rows would replace the backups of the complete one.
      await backups.stop();
      logger.error({ unknown: lost.objects }, lost.refusal('every change').message);
    }
    const scope = { registry: pools, ...(pool !== undefined && { pool }) };
    report(logger, await reconcile({ catalogue, retainedBases, swept, seen, ...scope, lacksRows: lost.found }));
  };
  await settle(registry);
  return { lost, settle };
}

/**
 * Throws only if no pool works. Health, metrics and the log report a single pool that is unavailable. A failing Probe
 * restarts the plugin and its clients, which helps no pool and makes the others unavailable for a while.
 */
function assertSomeWork(registry: BackendRegistry): void {
  const failures = registry.states.map(({ failure }) => failure);
  const [first] = failures;
  if (first !== null && first !== undefined && !failures.includes(null)) throw first;
}

/** Checks what the plugin needs of the machine, whatever its pools are. Each backend checks what its pool needs. */
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

/** Logs one line for a start of one pool or of all. Differences are a warning, because an operator has to examine them. */
function report(logger: Logger, found: ReconcileReport): void {
  const level = found.differences.length > 0 ? 'warn' : 'info';
  logger[level]({ ...found }, 'reconciled');
}
