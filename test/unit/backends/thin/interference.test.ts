/**
 * Changes of a thin pool when somebody or something else gets between: other tools, a full pool, a pool
 * that goes read-only, stands still or does not answer. A real ledger, a simulated kernel.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { ThinBackend } from '../../../../src/driver/backends/thin/thin-backend.js';
import type { NativeRunner } from '../../../../src/driver/native/pool.js';
import type { FakeThinKernel } from '../../../support/fake-thin-kernel.js';
import { refused } from '../../../support/refusal.js';
import {
  membersOf,
  SIMULATED_SIZE,
  SimulatedPool,
  type SimulatedProcess,
} from '../../../support/simulated-thin-pool.js';

test('a device that somebody else made under the next id is left alone', () =>
  SimulatedPool.use(async (pool, process) => {
    const next = 1 + Math.max(...pool.kernel.thin.keys());
    await process.pool.send([`create_thin ${next}`, 'set_transaction_id 3 4']);
    await process.pool.send(['set_transaction_id 4 3']);
    const foreign = pool.kernel.thin.get(next);
    // As young as what the transaction that meets it makes: nothing but the refusal tells them apart.
    assert.equal(foreign?.transactionId, 3n);
    const change = membersOf('1');
    pool.kernel.before = (method) => {
      if (method === 'takeThinSnapshots') throw new Error('nothing of it was done');
    };
    await assert.rejects(process.snapshots.create(change));
    pool.kernel.before = () => undefined;
    assert.ok(pool.kernel.thin.has(next), 'taking the change back did not take it along');
    await process.volumes.create('new', SIMULATED_SIZE);
    pool.kernel.thin.delete(next);
    assert.ok(pool.assertAgreement(process).includes('new'));
  }));

test('a volume that is active under a name of somebody else is not deleted, and nothing stays open', () =>
  SimulatedPool.use(async (pool, process) => {
    const record = process.ledger.device('v2');
    pool.kernel.addActive('other', 'OTHER', 'thin', `253:0 ${record?.deviceId}`);
    await refused(process.volumes.delete('v2'), 'FAILED_PRECONDITION', /in use/);
    assert.ok(pool.assertAgreement(process).includes('v2'));
    pool.kernel.active.delete('other');
    await process.volumes.delete('v2');
    assert.ok(!pool.assertAgreement(process).includes('v2'));
  }));

test('no snapshot is taken in a pool without data space, and the error says that space is missing', () =>
  SimulatedPool.use(async (pool, process) => {
    pool.kernel.mode = 'out_of_data_space';
    for (const refusal of [
      () => process.snapshots.create(membersOf('1', '2')),
      () => process.volumes.create('new', SIMULATED_SIZE, { volumeId: 'v1' }),
    ]) {
      await refused(refusal(), 'RESOURCE_EXHAUSTED', /no data space left.* add space/);
      assert.deepEqual(pool.assertAgreement(process), ['s0', 'v1', 'v2']);
    }
  }));

test('a pool that goes read-only during a snapshot says what to do about it', () =>
  SimulatedPool.use(async (pool, process) => {
    pool.kernel.before = (method) => {
      if (method === 'takeThinSnapshots') pool.kernel.mode = 'ro';
    };
    const refusal = process.snapshots.create(membersOf('1'));
    await refused(refusal, 'FAILED_PRECONDITION', /read-only.* Enlarge the metadata device/);
  }));

test('a device that the pool no longer holds is reported as lost', () =>
  SimulatedPool.use(async (pool, process) => {
    const forget = (id: string) => pool.kernel.thin.delete(process.ledger.device(id)?.deviceId as number);
    forget('s0');
    const restored = process.volumes.create('new', SIMULATED_SIZE, { snapshotId: 's0' });
    await refused(restored, 'FAILED_PRECONDITION', /snapshot s0 is lost/);
    forget('v2');
    const refusal = process.snapshots.create(membersOf('1', '2'));
    await refused(refusal, 'FAILED_PRECONDITION', /volume v2 is lost/);
    assert.equal(process.ledger.openTransaction(), null);
  }));

test('a device that another tool made under the id of a lost snapshot is not taken for it', () =>
  SimulatedPool.use(async (pool, process) => {
    const deviceId = process.ledger.device('s0')?.deviceId as number;
    const device = pool.kernel.thin.get(deviceId);
    assert.ok(device !== undefined);
    pool.kernel.thin.set(deviceId, { ...device, transactionId: device.transactionId + 1n });
    const lost = /snapshot s0 is lost/;
    await refused(process.changes.scan('s0', null), 'FAILED_PRECONDITION', lost);
    const checked = process.snapshots.check('s0', SIMULATED_SIZE);
    await refused(checked, 'FAILED_PRECONDITION', lost);
  }));

test('an id that another tool takes at the last moment is passed, and stays with it', () =>
  SimulatedPool.use(async (pool, process) => {
    const { kernel } = pool;
    const next = 1 + Math.max(...kernel.thin.keys());
    kernel.before = (method) => {
      if (method !== 'thinMessages' || kernel.thin.has(next)) return;
      kernel.thin.set(next, { ...[...kernel.thin.values()][0], deviceId: next } as never);
    };
    await refused(process.volumes.create('new', SIMULATED_SIZE), 'ABORTED', /another tool/);
    assert.ok(kernel.thin.has(next));
    await process.volumes.create('new', SIMULATED_SIZE);
    kernel.thin.delete(next);
    assert.deepEqual(pool.assertAgreement(process), ['new', 's0', 'v1', 'v2']);
  }));

test('a transaction id that another tool raises meanwhile is reported as that', () =>
  SimulatedPool.use(async (pool, process) => {
    pool.kernel.after = (method) => {
      if (method !== 'thinMessages') return;
      pool.kernel.after = () => undefined;
      pool.kernel.transactionId += 5n;
    };
    const refusal = process.volumes.create('new', SIMULATED_SIZE);
    await refused(refusal, 'FAILED_PRECONDITION', /transaction id 8 and its ledger expects 3/);
  }));

test("another tool's metadata snapshot is waited for, and never released", () =>
  SimulatedPool.use(async (pool) => {
    pool.kernel.heldRoot = 5n;
    const impatient = pool.start(0);
    await refused(
      impatient.snapshots.check('s0', SIMULATED_SIZE),
      'FAILED_PRECONDITION',
      /another program holds the metadata snapshot/,
    );
    assert.equal(pool.kernel.heldRoot, 5n);
    const patient = pool.start(5000);
    const checked = patient.snapshots.check('s0', SIMULATED_SIZE);
    setTimeout(() => {
      pool.kernel.heldRoot = null;
    }, 300);
    await checked;
  }));

test("a list begins without the pool's queue and beside another tool's metadata snapshot", () =>
  SimulatedPool.use(async (pool) => {
    const process = pool.start(0);
    pool.kernel.heldRoot = 5n;
    const before = pool.kernel.messages.length;
    const { source } = await process.changes.scan('s0', null);
    assert.ok(source.kind === 'thin' && source.target.root !== null);
    assert.deepEqual(pool.kernel.messages.slice(before), []);
  }));

test('a list takes a metadata snapshot if the pool commits during each look-up', () =>
  SimulatedPool.use(async (pool, process) => {
    const { source: quiet } = await process.changes.scan('s0', null);
    const before = pool.kernel.messages.length;
    pool.kernel.after = (method) => {
      if (method === 'thinDevices') pool.kernel.checksum += 1;
    };
    assert.deepEqual((await process.changes.scan('s0', null)).source, quiet);
    assert.deepEqual(pool.kernel.messages.slice(before), ['reserve_metadata_snap', 'release_metadata_snap']);
  }));

test('a list is looked up again if the pool commits during the first look-up', () =>
  SimulatedPool.use(async (pool, process) => {
    const before = pool.kernel.messages.length;
    let lookups = 0;
    pool.kernel.after = (method) => {
      if (method === 'thinDevices' && ++lookups === 1) pool.kernel.checksum += 1;
    };
    await process.changes.scan('s0', null);
    assert.equal(lookups, 2);
    assert.deepEqual(pool.kernel.messages.slice(before), []);
  }));

/** With the volume v1 attached for writing. */
const attached = (
  run: (process: SimulatedProcess, kernel: FakeThinKernel, name: string) => Promise<void>,
): Promise<void> =>
  SimulatedPool.use(async (pool, process) => {
    await process.devices.attach('v1', { readOnly: false });
    await run(process, pool.kernel, process.pool.names.volume('v1'));
  });

test('a detached volume counts as safe when the pool, standing still no more, has committed', () =>
  attached(async ({ queue, devices, ledger }, kernel) => {
    let goOn: () => void = () => undefined;
    const standsStill = queue.run(() => new Promise<void>((resolve) => (goOn = resolve)));
    const detaching = devices.detach('v1');
    const asked: string[] = [];
    const before = kernel.before;
    kernel.before = (method) => {
      asked.push(method);
      before(method);
    };
    for (let turns = 0; turns < 50; turns += 1) await turn();
    assert.ok(!asked.includes('thinPoolStatus'), 'the commit was asked of a pool that stood still');
    assert.equal(ledger.device('v1')?.open, true);
    goOn();
    await standsStill;
    await detaching;
    assert.ok(asked.includes('thinPoolStatus'));
    assert.equal(ledger.device('v1')?.open, false);
  }));

test('a device does not grow while writers of its pool wait for space, and has its size later', () =>
  attached(async ({ volumes, devices }, kernel, name) => {
    kernel.mode = 'out_of_data_space';
    kernel.whenFull = 'queue_if_no_space';
    await refused(volumes.expand('v1', 2n * SIMULATED_SIZE), 'FAILED_PRECONDITION', /waiting for it/);
    assert.equal(kernel.active.get(name)?.sizeBytes, SIMULATED_SIZE);
    kernel.mode = 'rw';
    await devices.attach('v1', { readOnly: false });
    assert.equal(kernel.active.get(name)?.sizeBytes, 2n * SIMULATED_SIZE);
  }));

test('a device that has its size and was left standing still goes on when it is asked to grow', () =>
  attached(async ({ volumes }, kernel, name) => {
    const device = kernel.active.get(name);
    assert.ok(device !== undefined);
    kernel.active.set(name, { ...device, suspended: true });
    await volumes.expand('v1', SIMULATED_SIZE);
    assert.equal(kernel.active.get(name)?.suspended, false);
  }));

test('the check of the node ends although no thread answers, and asks once', async () => {
  const asked: string[] = [];
  const run = (task: string) => {
    asked.push(task);
    return new Promise(() => undefined);
  };
  const options = { pool: 'p', directory: '/nowhere', devices: null, embeddedPoolBytes: null };
  const backend = new ThinBackend({ run } as unknown as NativeRunner, options as never);
  const refusal = () => refused(backend.check(), 'FAILED_PRECONDITION', /pool 'p' does not answer/);
  await Promise.all([refusal(), refusal()]);
  assert.deepEqual(asked, ['dmVersion']);
});
