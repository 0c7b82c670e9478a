/** The life of a thin pool on a real kernel: made, stopped, started; plugin.test.ts has one that is taken over. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { isNightly } from '../support/nightly.js';
import { refused } from '../support/refusal.js';
import { EMBEDDED, poolTest } from './thin-pool-on-disks.js';

for (const [kind, changed] of Object.entries({
  embedded: EMBEDDED,
  ...(isNightly ? { given: {} } : {}),
})) {
  poolTest(
    `a pool (${kind}) is stopped, and restarts unchanged`,
    async (pool) => {
      const { backend } = pool;
      const { uuid } = pool.withLedger((ledger) => ledger.pool());
      const volume = await pool.written(1);
      await pool.stop();
      assert.deepEqual(await pool.deviceNames(), [], 'nothing of it is active');
      const attach = async () => backend.attachments.attach(volume.id, { readOnly: false });
      await refused(attach(), 'FAILED_PRECONDITION');
      await backend.start('existing', async (found) => assert.equal(found, uuid));
      await volume.attach();
      assert.ok(volume.read().equals(volume.image));
    },
    { backend: changed },
  );
}

for (const features of [
  { passDiscards: true, errorWhenFull: true },
  { passDiscards: false, errorWhenFull: false },
]) {
  poolTest(
    `the table of a running pool is not replaced by an equal one (${JSON.stringify(features)})`,
    async (pool) => {
      await pool.written(0);
      await pool.backend.stop();
      let reloads = 0;
      const { run } = pool.native;
      pool.native.run = (method, request) => {
        if (method === 'dmReload') reloads += 1;
        return run(method, request);
      };
      // Each start looks after the pool as the monitor does every few seconds.
      await pool.backend.start('existing');
      assert.equal(reloads, 0, 'the pool was held still for nothing');
    },
    { backend: { ...EMBEDDED, ...features } },
  );
}

poolTest(
  'a volume that a killed snapshot left suspended is resumed at the start',
  async (pool) => {
    const volume = await pool.written(1);
    await pool.backend.stop();
    const name = `blockdelta-${volume.id}`;
    await pool.native.run('dmSuspend', { name, noFlush: false, lockFileSystem: true });
    await pool.backend.start('existing');
    assert.deepEqual(await pool.suspendedDevices(), []);
    volume.writeBlock(0);
  },
  { backend: EMBEDDED },
);

poolTest('no pool is created on devices that are not empty', async (pool) => {
  await pool.stop();
  const metadata = await pool.disks.disk('new-metadata', 32n << 20n);
  const data = await pool.disks.disk('new-data', 64n << 20n);
  const bytes = Buffer.concat([Buffer.alloc(65536), Buffer.from('somebody')]);
  writeFileSync(data.path, bytes, { flag: 'r+' });
  const devices = { metadata: metadata.path, data: data.path };
  const backend = pool.makeBackend({ directory: pool.workspace.path('new'), devices });
  await refused(backend.start(), 'FAILED_PRECONDITION', /is not empty/);
  assert.deepEqual(await pool.deviceNames(), []);
  await refused(backend.start('existing'), 'FAILED_PRECONDITION', /its ledger is new/);
});
