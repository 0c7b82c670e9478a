/** Managers with two in-memory pools and a real catalogue. */
import { join } from 'node:path';
import { BackendRegistry } from '../../../src/backends/registry.js';
import { type OpenCatalogue, openCatalogue } from '../../../src/catalogue/catalogue-client.js';
import type { VolumeRecord } from '../../../src/catalogue/records.js';
import { GroupManager } from '../../../src/volumes/group-manager.js';
import { OperationLocks } from '../../../src/volumes/operation-locks.js';
import type { RetainedBaseLimits } from '../../../src/volumes/retention.js';
import { SnapshotManager } from '../../../src/volumes/snapshot-manager.js';
import { type ManagerDependencies, VolumeManager } from '../../../src/volumes/volume-manager.js';
import { MemoryBackend, MemoryStorage } from '../../backend/memory-backend.js';
import { TEST_NODE_KEY, volumeRecord } from '../../support/records.js';
import { type LogLine, testRetainedBases } from '../../support/retained-bases.js';
import { temporaryDirectory } from '../../support/temporary.js';

export interface Managers {
  deps: ManagerDependencies & { catalogue: OpenCatalogue };
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
  close(): Promise<void>;
}

export async function openManagers(limits: Partial<RetainedBaseLimits> = {}): Promise<Managers> {
  const catalogue = await openCatalogue(join(temporaryDirectory(), 'catalogue.db'));
  const backend = new MemoryBackend();
  const storage = new MemoryStorage();
  storage.identity = 'memory-pool-2';
  const second = new MemoryBackend(storage, { pool: 'second' });
  const registry = new BackendRegistry([backend, second]);
  for (const each of registry.all) await catalogue.registerPool(each.pool, await each.identity());
  const locks = new OperationLocks();
  const { retainedBases, log } = testRetainedBases(catalogue, { locks, ...limits });
  const deps = {
    catalogue,
    registry,
    locks,
    retainedBases,
    nodeKey: TEST_NODE_KEY,
    controllerPublish: false,
  };
  return {
    deps,
    groups: new GroupManager(deps),
    snapshots: new SnapshotManager(deps),
    volumes: new VolumeManager(deps),
    log,
    backend,
    second,
    volume: async (fields = {}) => {
      const record = volumeRecord(fields);
      await catalogue.insertVolume(record);
      await registry.owning(record.pool).createVolume(record.volumeId, record.sizeBytes);
      return record;
    },
    close: () => catalogue.close(),
  };
}

type Method = 'cloneVolume' | 'createSnapshots';

/** Suspends calls of a backend method until `go`. `reached` resolves when one is suspended. */
export function holdUp(
  backend: MemoryBackend,
  method: Method,
): { reached: Promise<void>; go(): void } {
  const original = backend[method].bind(backend) as (...args: unknown[]) => Promise<never>;
  let go = (): void => undefined;
  let reach = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  backend[method] = async (...args: unknown[]) => {
    reach();
    await gate;
    return original(...args);
  };
  return { reached, go };
}
