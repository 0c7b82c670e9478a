/** Managers with two in-memory pools and a real catalogue. */
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import { createLogger } from '../../../src/base/logger.js';
import { BackendRegistry } from '../../../src/driver/backends/registry.js';
import {
  type AsyncCatalogue,
  type OpenCatalogue,
  openCatalogue,
} from '../../../src/driver/catalogue/catalogue-client.js';
import type { SnapshotRecord, VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { GroupManager } from '../../../src/driver/volumes/group-manager.js';
import type { ManagerDependencies } from '../../../src/driver/volumes/manager-dependencies.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import { type ReconcileReport, reconcile } from '../../../src/driver/volumes/reconcile.js';
import { RetainedBases } from '../../../src/driver/volumes/retained-bases.js';
import type { RetainedBaseLimits } from '../../../src/driver/volumes/retention.js';
import { SnapshotManager } from '../../../src/driver/volumes/snapshot-manager.js';
import { StartReview } from '../../../src/driver/volumes/start-review.js';
import { VolumeManager } from '../../../src/driver/volumes/volume-manager.js';
import { MemoryBackend, MemoryStorage } from '../../backend/memory-backend.js';
import { eventually } from '../../support/eventually.js';
import { TEST_NODE_KEY, volumeRecord } from '../../support/records.js';
import { temporaryDirectory } from '../../support/temporary.js';

type LogLine = Record<string, unknown>;

export interface Managers {
  deps: ManagerDependencies & { catalogue: OpenCatalogue };
  catalogue: OpenCatalogue;
  groups: GroupManager;
  snapshots: SnapshotManager;
  volumes: VolumeManager;
  /** The log lines about retained bases. */
  log: LogLine[];
  /** The pool 'default'. */
  backend: MemoryBackend;
  /** The pool 'second'. */
  second: MemoryBackend;
  /** A ready volume, in the catalogue and in its pool. */
  volume(fields?: Partial<VolumeRecord>): Promise<VolumeRecord>;
  /** A volume whose creation was killed before the pool held it: its row, in state `creating`. */
  interrupted(fields?: Partial<VolumeRecord>): Promise<VolumeRecord>;
  /** A snapshot that the manager takes, under a new name. */
  snapshot(of: VolumeRecord): Promise<SnapshotRecord>;
  close(): Promise<void>;
}

export async function openManagers(limits: Partial<RetainedBaseLimits> = {}): Promise<Managers> {
  const catalogue = await openCatalogue(join(temporaryDirectory(), 'catalogue.db'));
  const backend = new MemoryBackend();
  const storage = new MemoryStorage();
  storage.identity = 'memory-pool-2';
  const second = new MemoryBackend(storage, { pool: 'second' });
  const registry = new BackendRegistry([backend, second]);
  for (const {
    pool,
    storage: { identity },
  } of [backend, second])
    await catalogue.registerPool(pool, identity);
  const locks = new OperationLocks();
  const log: LogLine[] = [];
  const retainedBases = retainedBasesOf(catalogue, limits, locks, log);
  const stagings = { release: async () => [] };
  const logger = { warn: (line: LogLine) => void log.push(line) };
  const parts = { catalogue, registry, locks, retainedBases, stagings, logger };
  const deps = { ...parts, nodeKey: TEST_NODE_KEY, controllerPublish: false };
  const snapshots = new SnapshotManager(deps);
  return {
    deps,
    catalogue,
    log,
    backend,
    second,
    snapshots,
    groups: new GroupManager(deps),
    volumes: new VolumeManager(deps),
    volume: async (fields = {}) => {
      const record = volumeRecord(fields);
      await catalogue.insertVolume(record);
      await registry.owning(record.pool).volumes.create(record.volumeId, record.sizeBytes);
      return record;
    },
    interrupted: async (fields = {}) => {
      const record = volumeRecord({ ...fields, state: 'creating' });
      await catalogue.insertVolume(record);
      return record;
    },
    snapshot: ({ volumeId: sourceVolumeId }) =>
      snapshots.create({ name: randomUUID(), sourceVolumeId, parameters: {} }),
    close: () => catalogue.close(),
  };
}

/** Registers the hooks for the tests of the calling file: each has managers of its own. */
export function managersOfEachTest(): Managers {
  const managers = {} as Managers;
  beforeEach(async () => {
    Object.assign(managers, await openManagers());
  });
  afterEach(() => managers.close());
  return managers;
}

/** As a start: reconciles the pools, and reviews them. Returns the log of the review too. */
export async function started(
  { deps, catalogue, backend, second }: Pick<Managers, 'deps' | 'catalogue' | 'backend' | 'second'>,
  lacksRows = false,
): Promise<{ report: ReconcileReport; reviewed: LogLine[] }> {
  const report = await reconcile({ ...deps, lacksRows });
  const reviewed: LogLine[] = [];
  const logger = createLogger('info', { write: (line: string) => void reviewed.push(JSON.parse(line) as LogLine) });
  const pools = [backend, second];
  const options = { catalogue, retainedBases: deps.retainedBases, pools: () => pools, lacksRows: () => lacksRows };
  const review = new StartReview({ ...options, logger });
  review.start();
  await eventually('both pools are reviewed', () => reviewed.length === pools.length);
  await review.stop();
  return { report, reviewed };
}

/** With limits that tests do not reach by accident, unless they are given. */
export function retainedBasesOf(
  catalogue: AsyncCatalogue,
  limits: Partial<RetainedBaseLimits>,
  locks = new OperationLocks(),
  log: LogLine[] = [],
): RetainedBases {
  const stream = { write: (line: string) => void log.push(JSON.parse(line) as LogLine) };
  return new RetainedBases({
    catalogue,
    locks,
    logger: createLogger('info', stream),
    limits: { perVolume: 16, ageMs: 3_600_000, poolBytes: 1n << 30n, ...limits },
  });
}

/** Suspends the creation of volumes or snapshots in a pool until `go`. `reached` resolves when one is suspended. */
export function holdUp(facet: { create(...args: never[]): Promise<unknown> }) {
  const original = facet.create.bind(facet) as (...args: unknown[]) => Promise<never>;
  const signs = new EventEmitter();
  const go = once(signs, 'go');
  facet.create = async (...args: unknown[]) => {
    signs.emit('reached');
    await go;
    return original(...args);
  };
  return { reached: once(signs, 'reached'), go: () => signs.emit('go') };
}
