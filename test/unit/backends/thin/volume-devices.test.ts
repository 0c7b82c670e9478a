/** Devices of thin volumes beside whatever else happens to their pool: a real ledger, a simulated kernel. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { rejectsWith } from '../../../support/expect-status.js';
import { FakeThinKernel } from '../../../support/fake-thin-kernel.js';
import { SimulatedProcess } from '../../../support/simulated-thin-pool.js';
import { Workspace } from '../../../support/workspace.js';

const SIZE = 1n << 20n;
const workspace = new Workspace('thin-volume-devices');
after(() => workspace.dispose());

/** A pool with the volume v, attached for writing. */
async function attached(
  label: string,
  run: (process: SimulatedProcess, kernel: FakeThinKernel, name: string) => Promise<void>,
): Promise<void> {
  const directory = workspace.path(label);
  mkdirSync(directory);
  const kernel = new FakeThinKernel();
  const process = SimulatedProcess.start(kernel, directory);
  try {
    await process.volumes.create('v', SIZE);
    await process.devices.attach(await process.volumes.record('v'), false);
    await run(process, kernel, process.pool.names.volume('v'));
  } finally {
    process.ledger.close();
  }
}

test('a detached volume counts as safe when the pool, standing still no more, has committed', () =>
  attached('detach', async ({ queue, devices, ledger }, kernel) => {
    let goOn: () => void = () => undefined;
    const standsStill = queue.run(() => new Promise<void>((resolve) => (goOn = resolve)));
    const detaching = devices.detach('v');
    const asked: string[] = [];
    const before = kernel.before;
    kernel.before = (method) => {
      asked.push(method);
      before(method);
    };
    for (let turns = 0; turns < 50; turns += 1) await turn();
    assert.ok(!asked.includes('thinPoolStatus'), 'the commit was asked of a pool that stood still');
    assert.equal(ledger.device('v')?.open, true);
    goOn();
    await standsStill;
    await detaching;
    assert.ok(asked.includes('thinPoolStatus'));
    assert.equal(ledger.device('v')?.open, false);
  }));

test('a device does not grow while writers of its pool wait for space, and has its size later', () =>
  attached('waiting', async ({ volumes, devices }, kernel, name) => {
    kernel.mode = 'out_of_data_space';
    kernel.whenFull = 'queue_if_no_space';
    await rejectsWith(volumes.expand('v', 2n * SIZE), 'FAILED_PRECONDITION', /waiting for it/);
    assert.equal(kernel.active.get(name)?.sizeBytes, SIZE);
    kernel.mode = 'rw';
    await devices.attach(await volumes.record('v'), false);
    assert.equal(kernel.active.get(name)?.sizeBytes, 2n * SIZE);
  }));

test('a device that has its size and was left standing still goes on when it is asked to grow', () =>
  attached('suspended', async ({ volumes }, kernel, name) => {
    const device = kernel.active.get(name);
    assert.ok(device !== undefined);
    kernel.active.set(name, { ...device, suspended: true });
    await volumes.expand('v', SIZE);
    assert.equal(kernel.active.get(name)?.suspended, false);
  }));
