/** Promises of a replica, as messages of routers that are late make and end them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import type { Replica } from '../../../src/driver/backends/backend.js';
import type { BackendRegistry } from '../../../src/driver/backends/registry.js';
import { ReplicaKeeper } from '../../../src/driver/replicas/replica-keeper.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import { replicaRecord, volumeRecord } from '../../support/records.js';

const [FIRST, LATER] = ['1'.repeat(32), '2'.repeat(32)] as const;
const SNAPSHOT = 'snap';

/** With a complete replica that is promised to nobody. */
function keeperOf() {
  const held = new Map<string, Replica>();
  held.set(SNAPSHOT, { snapshotId: SNAPSHOT, sizeBytes: 1n, isComplete: true, promiseId: null });
  const promiseOf = (): string | null | undefined => held.get(SNAPSHOT)?.promiseId;
  const replicas = {
    list: async () => [...held.values()],
    promise: async (id: string, promiseId: string) => {
      held.set(id, { snapshotId: id, sizeBytes: 1n, isComplete: true, promiseId });
    },
    delete: async (id: string) => void held.delete(id),
  };
  const backend = { pool: 'p', replicas };
  const row = (promiseId: string | null) =>
    replicaRecord(volumeRecord(), { snapshotId: SNAPSHOT, promiseId, nextOffset: null });
  const keeper = new ReplicaKeeper({
    catalogue: {
      listReplicas: async () => [],
      replicaById: async () => (held.has(SNAPSHOT) ? row(promiseOf() ?? null) : null),
      replicaPromised: async () => undefined,
      removeReplica: async () => undefined,
    },
    registry: { all: [backend], owning: () => backend } as unknown as BackendRegistry,
    locks: new OperationLocks(),
    pulls: { isRunning: () => false },
    transfers: { count: 0, endDeleted: async () => undefined },
    lacksRows: () => false,
    logger: { info: () => undefined, warn: () => undefined },
  });
  return { keeper, promiseOf };
}

test('a promise that has ended is not made any more', async () => {
  const { keeper, promiseOf } = keeperOf();
  await keeper.endPromise(SNAPSHOT, FIRST);
  await assert.rejects(keeper.promise(SNAPSHOT, FIRST), { code: StatusCode.NOT_FOUND });
  assert.equal(promiseOf(), undefined);
});

test('a replica is promised for the latest choice, whatever comes late', async () => {
  const { keeper, promiseOf } = keeperOf();
  await keeper.promise(SNAPSHOT, FIRST);
  await keeper.promise(SNAPSHOT, LATER);
  await keeper.promise(SNAPSHOT, LATER);
  await assert.rejects(keeper.promise(SNAPSHOT, FIRST), { code: StatusCode.ABORTED });
  await keeper.endPromise(SNAPSHOT, FIRST);
  assert.equal(promiseOf(), LATER);
  await keeper.endPromise(SNAPSHOT, LATER);
  assert.equal(promiseOf(), undefined);
});
