/**
 * Changes of a thin pool are killed between any two steps, and converge: a real ledger, a simulated kernel.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure } from '../../../support/fake-thin-kernel.js';
import { refused } from '../../../support/refusal.js';
import {
  Killed,
  membersOf,
  SIMULATED_SIZE,
  SimulatedPool,
  type SimulatedProcess,
} from '../../../support/simulated-thin-pool.js';

type Change = readonly [
  title: string,
  run: (process: SimulatedProcess) => Promise<unknown>,
  /** What the pool has then. */
  afterwards: string,
];

/** What the pool has before each change. */
const BEFORE = 's0,v1,v2';

const CREATION: Change = ['creating a volume', ({ volumes }) => volumes.create('new', SIMULATED_SIZE), 'new,s0,v1,v2'];
/** Changes that make devices, and so look at the ids that are given next. */
const CREATIONS: readonly Change[] = [
  CREATION,
  [
    'restoring a snapshot',
    ({ volumes }) => volumes.create('new', SIMULATED_SIZE, { snapshotId: 's0' }),
    'new,s0,v1,v2',
  ],
  ['cloning a volume', ({ volumes }) => volumes.create('new', SIMULATED_SIZE, { volumeId: 'v2' }), 'new,s0,v1,v2'],
  [
    'taking snapshots of two volumes',
    async ({ volumes, snapshots, ledger }) => {
      // As the layer above does: what an earlier try has left is taken back first.
      if (ledger.device('s1') !== null) {
        for (const { volumeId } of membersOf('1', '2')) await volumes.thaw(volumeId);
        for (const { snapshotId } of membersOf('1', '2')) await snapshots.delete(snapshotId);
      }
      await snapshots.create(membersOf('1', '2'));
    },
    's0,s1,s2,v1,v2',
  ],
];
const CHANGES: readonly Change[] = [
  ...CREATIONS,
  ['deleting a volume', ({ volumes }) => volumes.delete('v2'), 's0,v1'],
  ['deleting a snapshot', ({ snapshots }) => snapshots.delete('s0'), 'v1,v2'],
];

/** Whether the process was killed, as opposed to having come to the end of the change. */
async function killAt(pool: SimulatedPool, [, run]: Change, step: number, when: 'before' | 'after'): Promise<boolean> {
  const process = pool.start();
  process.steps.killAt(step, when);
  const ended = await run(process).then(
    () => true,
    (thrown) => {
      assert.ok(process.steps.isDead || thrown instanceof Killed, String(thrown));
      return false;
    },
  );
  return !ended;
}

for (const change of CHANGES) {
  const [title, run, afterwards] = change;
  test(`${title} converges after a kill at every step`, async (t) => {
    let kills = 0;
    for (const when of ['before', 'after'] as const) {
      for (let step = 0, killed = true; killed; step += 1) {
        await SimulatedPool.use(async (pool) => {
          killed = await killAt(pool, change, step, when);
          kills += Number(killed);
          const next = pool.start();
          await next.transactions.settle();
          const found = pool.assertAgreement(next).join();
          assert.ok([BEFORE, afterwards].includes(found), `step ${step}: ${found}`);
          await run(next);
          assert.equal(pool.assertAgreement(next).join(), afterwards);
        });
      }
    }
    t.diagnostic(`${kills} kills`);
    assert.ok(kills > 8);
  });
}

for (const [title, run, afterwards] of CREATIONS) {
  test(`${title} succeeds when the metadata changes under the first look at it`, () =>
    SimulatedPool.use(async (pool, process) => {
      let looks = 0;
      pool.kernel.before = (method) => {
        if (method !== 'thinDevices') return;
        looks += 1;
        if (looks === 1) throw failure('THIN_METADATA_INVALID', method, '/dev/metadata');
      };
      await run(process);
      assert.ok(looks > 1);
      assert.equal(pool.assertAgreement(process).join(), afterwards);
    }));

  test(`${title} fails on damaged metadata, and what follows is not held up`, () =>
    SimulatedPool.use(async (pool, process) => {
      pool.kernel.before = (method) => {
        if (method === 'thinDevices') throw failure('THIN_METADATA_INVALID', method, '/dev/metadata');
      };
      await assert.rejects(run(process), { code: 'THIN_METADATA_INVALID' });
      await process.volumes.delete('v2');
      assert.deepEqual(pool.assertAgreement(process), ['s0', 'v1']);
    }));
}

test('a start that is killed while it settles a change converges', () =>
  SimulatedPool.use(async (pool) => {
    for (let step = 0; step < 12; step += 1) {
      await killAt(pool, CREATION, 6, 'after');
      const settling = pool.start();
      settling.steps.killAt(step, 'after');
      await settling.transactions.settle().catch(() => undefined);
    }
    const next = pool.start();
    await next.transactions.settle();
    await next.metadata.releaseOurs();
    pool.assertAgreement(next);
  }));

test('a pool that goes read-only in a change refuses the next ones, and settles when it is mended', () =>
  SimulatedPool.use(async (pool, process) => {
    const { kernel } = pool;
    kernel.after = (method) => {
      if (method === 'thinMessages') kernel.needsCheck = true;
    };
    await assert.rejects(process.volumes.create('new', SIMULATED_SIZE));
    kernel.after = () => undefined;
    await refused(process.volumes.create('other', SIMULATED_SIZE), 'FAILED_PRECONDITION', /needs a check/);
    await refused(process.snapshots.delete('s0'), 'FAILED_PRECONDITION', /needs a check/);
    assert.equal((await process.volumes.condition('v1')).storedBytes, SIMULATED_SIZE);
    kernel.needsCheck = false;
    const next = pool.start();
    await next.transactions.settle();
    assert.deepEqual(pool.assertAgreement(next), ['s0', 'v1', 'v2']);
  }));

test('a pool with another transaction id than the ledger expects is not changed', () =>
  SimulatedPool.use(async (pool) => {
    await killAt(pool, CREATION, 7, 'before');
    pool.kernel.transactionId = 1n;
    const next = pool.start();
    await refused(
      next.volumes.create('other', SIMULATED_SIZE),
      'FAILED_PRECONDITION',
      /transaction id 1 and its ledger expects 3/,
    );
  }));

test('no snapshot is made when the pool cannot count it', () =>
  SimulatedPool.use(async (pool, process) => {
    pool.kernel.time = (1 << 24) - 2;
    await refused(process.snapshots.create(membersOf('1', '2')), 'FAILED_PRECONDITION', /16777215/);
    await process.snapshots.create(membersOf('1'));
    await refused(
      process.volumes.create('new', SIMULATED_SIZE, { volumeId: 'v1' }),
      'FAILED_PRECONDITION',
      /no more can be created/,
    );
    await process.volumes.create('plain', SIMULATED_SIZE);
  }));

test('devices that are asked for at the same time are looked up in one metadata snapshot', () =>
  SimulatedPool.use(async (pool, process) => {
    const before = pool.kernel.messages.length;
    await Promise.all([1, 2, 3].map(() => process.snapshots.check('s0', SIMULATED_SIZE)));
    assert.deepEqual(pool.kernel.messages.slice(before), ['reserve_metadata_snap', 'release_metadata_snap']);
  }));

test('a metadata snapshot that a killed process of ours has left is released', () =>
  SimulatedPool.use(async (pool) => {
    for (let step = 0, killed = true; killed; step += 1) {
      const process = pool.start();
      process.steps.killAt(step, 'after');
      killed = await process.snapshots.check('s0', SIMULATED_SIZE).then(
        () => false,
        () => true,
      );
      const next = pool.start();
      await next.metadata.releaseOurs();
      pool.assertAgreement(next);
    }
  }));
