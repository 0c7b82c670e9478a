/**
 * A metadata device that fails under a live pool: nothing is confirmed that did not happen, the pool reports
 * what to do, and after the repair everything that was confirmed exists.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { newVolume } from '../backend/harness.js';
import { refused } from '../support/refusal.js';
import { poolTest, type ThinPoolOnDisks, type ThinSnapshot, type ThinVolume } from './thin-pool-on-disks.js';

const SIZE = 1n << 20n;

interface Scene {
  pool: ThinPoolOnDisks;
  volume: ThinVolume;
  snapshot: ThinSnapshot;
  /** Deleted, and kept as a base. */
  retained: ThinSnapshot;
}

function test(title: string, run: (scene: Scene) => Promise<void>): void {
  poolTest(title, async (pool) => {
    const volume = await pool.written(1);
    const retained = await pool.takeOne(volume);
    volume.writeBlock(1);
    const snapshot = await pool.takeOne(volume);
    await pool.retainAndDelete(retained);
    await pool.soundDelta(retained, snapshot);
    await run({ pool, volume, snapshot, retained });
  });
}

/** The manual repair that the message asks for: release everything, repair the disk, check the pool. */
async function repair({ pool, volume }: Scene): Promise<void> {
  await volume.detach();
  // Of a device that cannot be read, nothing can be noted for the next start.
  await pool.backend.stop().catch(() => undefined);
  await pool.metadata.work();
  execFileSync('thin_check', ['--clear-needs-check-flag', pool.metadata.path], { stdio: 'pipe' });
  await pool.next();
}

async function assertAsAnswered({ pool, volume, snapshot, retained }: Scene): Promise<void> {
  const { backend } = pool;
  await backend.check();
  const { volumes, snapshots, unknown } = await backend.list();
  const ids = [...volumes, ...snapshots].map(({ id }) => id).sort();
  assert.deepEqual({ ids, unknown }, { ids: [volume.id, snapshot.id].sort(), unknown: [] });
  assert.equal(await pool.deviceCount(), 2);
  await volume.attach();
  assert.ok(volume.read().equals(volume.image), 'the volume after the repair');
  const { usable, invalidated } = backend.bases.all();
  assert.deepEqual(usable, [], 'kept bases survive no failure of the metadata');
  assert.deepEqual(
    invalidated.map(({ snapshotId }) => snapshotId),
    [retained.id],
  );
  await refused(backend.changes.scan(snapshot.id, retained.id), 'NOT_FOUND');
  volume.writeBlock(5);
  volume.sync();
  assert.ok(volume.read().equals(volume.image), 'the volume, written again');
  await backend.changes.scan(snapshot.id, null);
}

test('a change that cannot be written to the metadata device is not confirmed', async (scene) => {
  const { pool, volume, snapshot } = scene;
  const { backend } = pool;
  await pool.metadata.failWrites();
  await assert.rejects(backend.volumes.create(newVolume(), SIZE));
  await refused(backend.check(), 'FAILED_PRECONDITION', /thin_check/);
  for (const refused of [
    () => backend.volumes.create(newVolume(), SIZE),
    () => pool.takeOne(volume),
    () => pool.clone(volume),
    () => pool.restore(snapshot),
    () => backend.snapshots.delete(snapshot.id),
  ]) {
    await assert.rejects(refused);
  }
  assert.deepEqual(await pool.suspendedDevices(), []);
  await pool.told(/^error: pool 'default'/m);
  await repair(scene);
  await assertAsAnswered(scene);
});

test('a snapshot is not confirmed when the metadata device fails meanwhile', async (scene) => {
  const { pool, volume } = scene;
  await pool.metadata.failWrites();
  await assert.rejects(pool.takeOne(volume));
  assert.deepEqual(await pool.suspendedDevices(), []);
  await repair(scene);
  await assertAsAnswered(scene);
});

test('a deletion that a failed metadata device stopped is finished after the repair, and not before', async (scene) => {
  const { pool } = scene;
  const doomed = newVolume();
  await pool.backend.volumes.create(doomed, SIZE);
  await pool.metadata.failWrites();
  await assert.rejects(pool.backend.volumes.delete(doomed));
  await repair(scene);
  await pool.backend.volumes.delete(doomed);
  await assertAsAnswered(scene);
});

test('a missing metadata device is reported, and nothing is confirmed until it returns', async (scene) => {
  const { pool } = scene;
  const { backend } = pool;
  await pool.metadata.fail();
  await refused(backend.check(), 'FAILED_PRECONDITION', /cannot be read/);
  await pool.told(/^error: pool 'default'/m);
  await assert.rejects(backend.volumes.create(newVolume(), SIZE));
  await refused(backend.check(), 'FAILED_PRECONDITION');
  await repair(scene);
  await assertAsAnswered(scene);
});
