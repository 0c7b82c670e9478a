/**
 * The plugin's services in this process, on a real socket and a real catalogue, with pools in memory:
 * for the rules that hold on every backend. Needs no root and no device. Node calls that attach a volume
 * answer UNIMPLEMENTED.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { nodeUri } from '../../src/base/csi/routed-calls.js';
import { CsiError } from '../../src/base/errors.js';
import { createLogger } from '../../src/base/logger.js';
import { BackendRegistry } from '../../src/driver/backends/registry.js';
import { openCatalogue } from '../../src/driver/catalogue/catalogue-client.js';
import { type Config, parseConfig } from '../../src/driver/config/config.js';
import { createCopiedSnapshot } from '../../src/driver/controller/create-snapshot.js';
import { NativePool } from '../../src/driver/native/pool.js';
import { ScanThreads } from '../../src/driver/native/scan-threads.js';
import { createIdentityService } from '../../src/driver/plugin/identity.js';
import { nodeRpcs } from '../../src/driver/plugin/node-rpcs.js';
import { requestCheck } from '../../src/driver/plugin/request-check.js';
import { createServices } from '../../src/driver/plugin/services.js';
import { CloneSnapshots } from '../../src/driver/replicas/clone-snapshots.js';
import { Copies } from '../../src/driver/replicas/copies.js';
import { describeSnapshot } from '../../src/driver/replicas/described-snapshot.js';
import { digestPart } from '../../src/driver/replicas/digest.js';
import { findCopy } from '../../src/driver/replicas/known-copy.js';
import { OpenTransfers } from '../../src/driver/replicas/open-transfers.js';
import { Pulls } from '../../src/driver/replicas/pulls.js';
import { ReplicaKeeper } from '../../src/driver/replicas/replica-keeper.js';
import { findRoom } from '../../src/driver/replicas/room.js';
import { Successions } from '../../src/driver/replicas/successions.js';
import { claimNodeIdentity } from '../../src/driver/volumes/node-identity.js';
import { OperationLocks } from '../../src/driver/volumes/operation-locks.js';
import { claimPool, type ReconcileReport, reconcile } from '../../src/driver/volumes/reconcile.js';
import { RetainedBases } from '../../src/driver/volumes/retained-bases.js';
import { StagingClearance } from '../../src/driver/volumes/staging-clearance.js';
import { volumeNamed } from '../../src/driver/volumes/volume-named.js';
import { createCsiServer } from '../../src/server/server.js';
import { MemoryBackend, MemoryStorage } from '../backend/memory-backend.js';
import { CsiClient } from './csi-client.js';
import { Orchestrator } from './orchestrator.js';
import { temporaryDirectory } from './temporary.js';

const POOL_BYTES = 2n << 30n;

export interface MemoryPluginOptions {
  /** Names of the pools; 'main' if left out. */
  pools?: readonly string[];
  /** How long a call waits for a busy object. */
  lockWaitMs?: number;
  env?: Record<string, string>;
  /** Whether it serves what only routers ask; false: as a plugin of a version that does not know it. */
  servesRouters?: boolean;
  /** Called once the plugin runs, before the first test. */
  prepare?: (running: MemoryPlugin) => Promise<void> | void;
}

export class MemoryPlugin {
  readonly #directory = temporaryDirectory();
  readonly #options: MemoryPluginOptions;
  readonly #lines: string[] = [];
  #client: CsiClient | undefined;
  readonly #close: Array<() => Promise<unknown>> = [];
  readonly orchestrator = new Orchestrator({ path: (...names) => this.path(...names) }, () => this.client);
  /** What each pool holds, also over a restart. */
  readonly storages = new Map<string, MemoryStorage>();
  readonly #backends = new Map<string, MemoryBackend>();
  /** What the last start has completed, rolled back and found. */
  reconciled: ReconcileReport | undefined;
  /** The locks of the plugin that runs now. */
  locks = new OperationLocks();

  constructor(options: MemoryPluginOptions) {
    this.#options = options;
    for (const pool of options.pools ?? ['main']) {
      const storage = new MemoryStorage();
      storage.identity = `memory-${pool}`;
      this.storages.set(pool, storage);
    }
  }

  get endpoint(): string {
    return `unix://${this.path('csi.sock')}`;
  }

  get client(): CsiClient {
    if (this.#client === undefined) throw new Error('no plugin runs now');
    return this.#client;
  }

  /** All log lines so far. */
  get log(): string {
    return this.#lines.join('');
  }

  backend(pool = 'main'): MemoryBackend {
    const backend = this.#backends.get(pool);
    if (backend === undefined) throw new Error(`there is no pool '${pool}'`);
    return backend;
  }

  path(...names: string[]): string {
    return join(this.#directory, ...names);
  }

  async start(): Promise<void> {
    const config = this.#config();
    mkdirSync(config.stateDirectory, { recursive: true });
    const logger = createLogger(config.logLevel, { write: (line) => this.#lines.push(line) });
    const catalogue = await openCatalogue(join(config.stateDirectory, 'catalogue.sqlite'), () => undefined);
    this.#close.push(() => catalogue.close());
    const native = new NativePool(1);
    this.#close.push(() => native.close());
    const pools = [...this.storages].map(
      ([pool, storage]) => new MemoryBackend(storage, { pool, totalBytes: POOL_BYTES }),
    );
    for (const backend of pools) {
      this.#backends.set(backend.pool, backend);
      await backend.start('any', (uuid) => claimPool(catalogue, backend.pool, uuid));
    }
    const registry = new BackendRegistry(pools);
    const { lockWaitMs } = this.#options;
    const locks = new OperationLocks(lockWaitMs === undefined ? {} : { waitMs: lockWaitMs });
    this.locks = locks;
    const limits = {
      perVolume: config.retainedBasesPerVolume,
      ageMs: config.retainedBasesAgeMs,
      poolBytes: config.retainedBasesPoolBytes,
    };
    const retainedBases = new RetainedBases({ catalogue, locks, limits, logger });
    this.reconciled = await reconcile({ catalogue, registry, retainedBases, lacksRows: false });
    for (const backend of pools) await retainedBases.review(backend);
    const scanThreads = new ScanThreads(native, 1);
    const identity = await claimNodeIdentity({ catalogue, stateDirectory: config.stateDirectory }, config.nodeId);
    const clearance = new StagingClearance(config.stateDirectory, 'boot');
    const parts = { clearance, catalogue, native, scanThreads, registry, locks, retainedBases, identity };
    const { csiLevel, controllerPublish, driverName } = config;
    const probed = createIdentityService({
      csiLevel,
      controllerPublish,
      driverName,
      vendorVersion: '0.0.0',
      health: async () => 'ready',
    });
    const { listen } = config;
    const uri = nodeUri(driverName, config.nodeId);
    const directory = join(this.#directory, 'transfers');
    mkdirSync(directory, { recursive: true });
    const backendOf = (pool: string) => registry.owning(pool);
    const shared = { catalogue, registry, locks, logger, directory };
    const built = createServices(config, { ...parts, changeLists: null, logger });
    const transfers = new OpenTransfers({ ...shared, scanThreads, backendOf, settings: config.transfers });
    const pulls = new Pulls(shared);
    const lost = { found: false, refusal: () => CsiError.internal('no row is lost') };
    const check = requestCheck(identity, lost);
    const copies = new Copies({ catalogue, lacksRows: () => false });
    const served = nodeRpcs(() => ({
      copies,
      clearance,
      successions: new Successions({ ...shared, placeInUse: async () => null }),
      findCopy: (snapshotId) => findCopy({ ...shared, lacksRows: () => false }, snapshotId),
      findRoom: (volumeId, pool) => findRoom({ ...shared, pulls, settings: config.transfers }, volumeId, pool),
      digest: (part, signal) => digestPart(shared, part, signal),
      createCopiedSnapshot: async (request, nodeId, context) => {
        check('CreateSnapshot', request);
        return createCopiedSnapshot(
          { ...shared, config, snapshots: built.snapshots, copyFailure: () => null },
          request,
          nodeId,
          context,
        );
      },
      clones: new CloneSnapshots({ catalogue, snapshots: built.snapshots, transfers, logger }),
      findVolume: (name, signal) => volumeNamed({ catalogue, locks }, name, signal),
      describeSnapshot: (snapshotId) => describeSnapshot(catalogue, registry, snapshotId),
      transfers,
      pulls,
      replicas: new ReplicaKeeper({ ...shared, pulls, transfers, lacksRows: () => false }),
    }));
    const rpcs = this.#options.servesRouters === false ? [] : served;
    const server = createCsiServer({
      services: [probed],
      config,
      logger,
      routed: listen === null ? null : { settings: listen, nodeUri: uri, rpcs, pollMs: 100 },
    });
    await server.start();
    server.open(built.services, check);
    this.#client = new CsiClient(config.endpoint);
    this.#close.push(
      () => server.stop(),
      async () => this.#client?.close(),
    );
  }

  #config(): Config {
    return parseConfig({
      CSI_ENDPOINT: this.endpoint,
      BLOCKDELTA_STATE_DIR: this.path('state'),
      BLOCKDELTA_NODE_ID: 'test-node',
      BLOCKDELTA_POOLS: [...this.storages.keys()].map((pool) => `${pool}=/pools/${pool}`).join(','),
      ...this.#options.env,
    });
  }

  async stop(): Promise<void> {
    for (const step of this.#close.splice(0).reverse()) await step();
    this.#client = undefined;
  }

  /** Ends the plugin and starts it again on the same catalogue and pools. */
  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }
}

/** Registers the hooks for the tests of the calling file. */
export function runMemoryPlugin(options: MemoryPluginOptions = {}): MemoryPlugin {
  const running = new MemoryPlugin(options);
  before(async () => {
    try {
      await running.start();
      await options.prepare?.(running);
    } catch (thrown) {
      await running.stop();
      throw thrown;
    }
  });
  after(() => running.stop());
  return running;
}
