/** The life of a thin pool on a real kernel: made, stopped, started, taken over. */
import assert from 'node:assert/strict';
import { closeSync, openSync, writeSync } from 'node:fs';
import type { ThinPoolOptions } from '../../src/backends/thin/thin-backend.js';
import { newVolume, SIZE } from '../backend/harness.js';
import { ThinHarness, type ThinKind } from '../backend/thin-harness.js';
import { rejectsWith } from '../support/expect-status.js';
import { guestTest } from './guest.js';

const BLOCK = 65536;

function poolTest(
  title: string,
  kind: ThinKind,
  run: (harness: ThinHarness) => Promise<void>,
  options: Partial<ThinPoolOptions> = {},
): void {
  guestTest(title, async () => {
    const harness = await ThinHarness.make(kind, options);
    try {
      await run(harness);
    } finally {
      await harness.dispose();
    }
  });
}

/** A volume with a block of one byte; attached. */
async function writtenVolume(harness: ThinHarness, value: number): Promise<string> {
  const volumeId = newVolume();
  await harness.backend.createVolume(volumeId, SIZE);
  await harness.write(volumeId, 0, Buffer.alloc(BLOCK, value));
  return volumeId;
}

for (const kind of ['embedded', 'given'] as const) {
  poolTest(`a pool (${kind}) is stopped, and restarts unchanged`, kind, async (harness) => {
    const { backend } = harness;
    await backend.start();
    const identity = await backend.identity();
    const volumeId = await writtenVolume(harness, 5);
    await harness.release(volumeId);
    await backend.detach(volumeId);
    await backend.stop();
    assert.deepEqual(await harness.dmNames(), [], 'nothing of it is active');
    await rejectsWith(backend.attach(volumeId, { readOnly: false }), 'FAILED_PRECONDITION');
    await backend.start('existing');
    assert.equal(await backend.identity(), identity);
    assert.equal((await harness.read(volumeId))[0], 5);
  });
}

poolTest(
  'a running pool is taken over after a restart of the plugin',
  'embedded',
  async (harness) => {
    const { backend } = harness;
    await backend.start();
    const volumeId = await writtenVolume(harness, 6);
    const device = await backend.findAttachment(volumeId);
    await backend.stop();
    const running = await harness.dmNames();
    assert.equal(running.length, 2, 'what is attached keeps the pool');
    await backend.start('existing');
    assert.deepEqual(await harness.dmNames(), running);
    assert.deepEqual(await backend.findAttachment(volumeId), device);
    assert.equal((await harness.read(volumeId))[0], 6);
  },
);

/** Counts what the harness's backend asks of the kernel, by method. */
function countCalls({ native }: ThinHarness): Map<string, number> {
  const counts = new Map<string, number>();
  const run = native.run.bind(native);
  native.run = (method, request) => {
    counts.set(method, (counts.get(method) ?? 0) + 1);
    return run(method, request);
  };
  return counts;
}

for (const features of [
  { passDiscards: true, errorWhenFull: true },
  { passDiscards: false, errorWhenFull: false },
]) {
  poolTest(
    `the table of a running pool is not replaced by an equal one (${JSON.stringify(features)})`,
    'embedded',
    async (harness) => {
      const counts = countCalls(harness);
      const { backend } = harness;
      const volumeId = newVolume();
      await backend.start();
      await backend.createVolume(volumeId, SIZE);
      await backend.attach(volumeId, { readOnly: false });
      await backend.stop();
      // Each start looks after the pool as the monitor does every few seconds.
      await backend.start('existing');
      assert.equal(counts.get('dmReload') ?? 0, 0, 'the pool was held still for nothing');
    },
    features,
  );
}

poolTest(
  'a volume that a killed snapshot left suspended is resumed at the start',
  'embedded',
  async (h) => {
    const { backend } = h;
    await backend.start();
    const volumeId = await writtenVolume(h, 7);
    await backend.stop();
    const name = `blockdelta-${volumeId}`;
    await h.native.run('dmSuspend', { name, noFlush: false, lockFileSystem: true });
    await backend.start('existing');
    assert.equal((await h.native.run('dmFind', { name })).device?.suspended, false);
    await h.write(volumeId, 0, Buffer.alloc(BLOCK, 8));
  },
);

poolTest('no pool is created on devices that are not empty', 'given', async (harness) => {
  const { backend, devices } = harness;
  const fd = openSync(devices?.data ?? '', 'r+');
  writeSync(fd, 'somebody', 65536);
  closeSync(fd);
  await rejectsWith(backend.start(), 'FAILED_PRECONDITION', /is not empty/);
  assert.deepEqual(await harness.dmNames(), []);
  await rejectsWith(backend.start('existing'), 'FAILED_PRECONDITION', /its ledger is new/);
});
