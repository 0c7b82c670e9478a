/**
 * The replicas and the open snapshots of a thin pool, killed between any two steps: a real ledger, a simulated kernel. What
 * devices contain is tested in the guest (thin-replicas.test.ts).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure } from '../../../support/fake-thin-kernel.js';
import { refused } from '../../../support/refusal.js';
import { SIMULATED_SIZE, SimulatedPool, type SimulatedProcess } from '../../../support/simulated-thin-pool.js';

type Work = (process: SimulatedProcess) => Promise<unknown>;

/** The steps of a pull, each of which succeeds again. */
const pull =
  (id: string, base: string | null): Work =>
  async ({ replicas }) => {
    if ((await replicas.list()).some(({ snapshotId, isComplete }) => snapshotId === id && isComplete)) return;
    await replicas.begin(id, SIMULATED_SIZE, base);
    await (await replicas.open(id)).close();
    await replicas.complete(id);
    await replicas.complete(id);
  };
const PULL = async (process: SimulatedProcess): Promise<void> => {
  await pull('r1', null)(process);
  await pull('r2', 'r1')(process);
};

const PULLED = 'r1.replica,r1.seal,r2.replica,r2.seal';
const BEFORE = 's0,v1,v2';

async function restarted(pool: SimulatedPool): Promise<SimulatedProcess> {
  const next = pool.start();
  await next.metadata.releaseOurs();
  await next.transactions.settle();
  await next.replicas.sweep();
  await next.snapshots.sweep();
  const active = [...pool.kernel.active.keys()].filter((name) => !name.startsWith('blockdelta-pool-'));
  assert.deepEqual(active, [], 'no device is left active');
  return next;
}

/** Kills the work at each step, and calls `then` after the restart. */
async function killEverywhere(
  prepare: Work,
  work: Work,
  then: (pool: SimulatedPool, next: SimulatedProcess) => Promise<void>,
) {
  let kills = 0;
  for (const when of ['before', 'after'] as const) {
    for (let step = 0, killed = true; killed; step += 1) {
      await SimulatedPool.use(async (pool, first) => {
        await prepare(first);
        const process = pool.start();
        process.steps.killAt(step, when);
        killed = await work(process).then(
          () => false,
          (thrown) => {
            assert.ok(process.steps.isDead, String(thrown));
            return true;
          },
        );
        kills += Number(killed);
        await then(pool, await restarted(pool));
      });
    }
  }
  assert.ok(kills > 20, `${kills} kills`);
}

const nothing: Work = async () => undefined;

test('a pull that is killed anywhere goes on, and what it has completed stays complete', () =>
  killEverywhere(pull('r1', null), pull('r2', 'r1'), async (pool, next) => {
    const complete = (await next.replicas.list()).filter(({ isComplete }) => isComplete);
    for (const { snapshotId } of complete) await next.replicas.check(snapshotId, SIMULATED_SIZE);
    await PULL(next);
    assert.equal(pool.assertAgreement(next).join(), `${PULLED},${BEFORE}`);
    for (const { snapshotId, sizeBytes, isComplete } of await next.replicas.list()) {
      assert.ok(isComplete);
      await next.replicas.check(snapshotId, sizeBytes);
    }
  }));

test('a deletion that is killed anywhere leaves a replica that is whole or refused, and is repeated', () =>
  killEverywhere(
    PULL,
    ({ replicas }) => replicas.delete('r1'),
    async (pool, next) => {
      await next.replicas.check('r2', SIMULATED_SIZE);
      const [found] = (await next.replicas.list()).filter(({ snapshotId }) => snapshotId === 'r1');
      if (found?.isComplete) await next.replicas.check('r1', SIMULATED_SIZE);
      await next.replicas.delete('r1');
      await next.replicas.delete('r1');
      assert.equal(pool.assertAgreement(next).join(), `r2.replica,r2.seal,${BEFORE}`);
    },
  ));

test('a snapshot that is read when the process is killed leaves nothing but itself', () =>
  killEverywhere(
    nothing,
    async ({ snapshots }) => {
      const first = await snapshots.open('s0');
      const second = await snapshots.open('s0');
      await first.close();
      await second.close();
    },
    async (pool, next) => {
      assert.equal(pool.assertAgreement(next).join(), BEFORE);
      await next.snapshots.check('s0', SIMULATED_SIZE);
    },
  ));

test('a snapshot is deleted while it is read, and its device stays', () =>
  SimulatedPool.use(async (pool, { snapshots }) => {
    const opened = await snapshots.open('s0');
    await snapshots.delete('s0');
    const isActive = () => [...pool.kernel.active.values()].some(({ path }) => path === opened.path);
    assert.ok(isActive());
    await refused(snapshots.open('s0'), 'FAILED_PRECONDITION', /is lost/);
    await opened.close();
    assert.ok(!isActive());
    assert.equal(pool.assertAgreement(pool.start()).join(), 'v1,v2');
  }));

test('a snapshot whose device cannot be made leaves no copy', () =>
  SimulatedPool.use(async (pool, process) => {
    pool.kernel.before = (method) => {
      if (method === 'dmCreate') throw failure('ENOMEM', method, 'a device');
    };
    await assert.rejects(process.snapshots.open('s0'), { code: 'ENOMEM' });
    assert.equal(pool.assertAgreement(process).join(), BEFORE);
  }));

for (const [what, change] of [
  ['whose device was written to', { id: 'r1.replica', root: 4711n }],
  ['whose seal was written to', { id: 'r1.seal', root: 4711n }],
  ['whose seal is that of another transaction', { id: 'r1.seal', transactionId: 4711n }],
] as const) {
  test(`a replica ${what} is refused by everybody`, () =>
    SimulatedPool.use(async (pool, process) => {
      await PULL(process);
      const { deviceId = 0 } = process.ledger.device(change.id) ?? {};
      const device = pool.kernel.thin.get(deviceId);
      assert.ok(device !== undefined);
      pool.kernel.thin.set(deviceId, { ...device, ...change });
      const { replicas, volumes } = process;
      for (const refusal of [
        replicas.check('r1', SIMULATED_SIZE),
        replicas.begin('r3', SIMULATED_SIZE, 'r1'),
        volumes.create('v3', SIMULATED_SIZE, { replicaId: 'r1' }),
      ]) {
        await refused(refusal, 'FAILED_PRECONDITION', /is gone or was changed/);
      }
      await replicas.check('r2', SIMULATED_SIZE);
      await volumes.create('v3', SIMULATED_SIZE, { replicaId: 'r2' });
    }));
}

test('a replica that the pool has lost is not listed, and its rows go with it', () =>
  SimulatedPool.use(async (pool, process) => {
    await PULL(process);
    for (const id of ['r1.replica', 'r1.seal', 'r2.seal']) {
      pool.kernel.thin.delete(process.ledger.device(id)?.deviceId ?? 0);
    }
    const { replicas } = process;
    const listed = (await replicas.list()).map(({ snapshotId, isComplete }) => [snapshotId, isComplete]);
    assert.deepEqual(listed, [['r2', false]]);
    for (const id of ['r1', 'r2']) await replicas.delete(id);
    assert.equal(pool.assertAgreement(process).join(), BEFORE);
  }));

test('a complete replica is not opened, and none is begun that is smaller than its base', () =>
  SimulatedPool.use(async (_pool, process) => {
    await PULL(process);
    const { replicas } = process;
    await refused(replicas.open('r1'), 'FAILED_PRECONDITION', /no unfinished replica/);
    await refused(replicas.complete('nothing'), 'FAILED_PRECONDITION', /no unfinished replica/);
    await refused(replicas.begin('r3', SIMULATED_SIZE / 2n, 'r1'), 'INTERNAL');
  }));

test('ranges that a read-only pool may have ignored are not taken for freed', () =>
  SimulatedPool.use(async ({ kernel }, { replicas, pool }) => {
    await replicas.begin('r1', SIMULATED_SIZE, null);
    const device = await replicas.open('r1');
    const ranges = [{ offset: 0n, size: SIMULATED_SIZE }];
    await device.punch(ranges);
    for (const happen of [
      () => (kernel.mode = 'ro'),
      // It has become writable again, because its metadata has grown.
      () => {
        kernel.metadataBlocks += 1n;
        void pool.replace({ sizeSectors: 2048n, table: '8:0 8:16 128 0 0', metadata: '8:0', data: '8:16' });
      },
    ]) {
      kernel.after = (method) => {
        if (method === 'punchDevice') happen();
      };
      await refused(device.punch(ranges), 'ABORTED', /try again/);
      kernel.mode = 'rw';
    }
  }));
