/**
 * A metadata device that fails under a live pool: nothing is confirmed that did not happen, the pool reports
 * what to do, and after the repair everything that was confirmed exists.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rejectsWith } from '../support/expect-status.js';
import { TaggedBlocks } from '../support/tagged-blocks.js';
import { BLOCKS, newSnapshot, newVolume, VOLUME_BYTES } from './thin-changes.js';
import { rigTest, type ThinRig, told } from './thin-rig.js';

interface Scene {
  rig: ThinRig;
  volumeId: string;
  snapshotId: string;
  retainedId: string;
  content: TaggedBlocks;
}

/** A pool with a volume, a snapshot, and a deleted snapshot that is kept as a base. */
function faultTest(title: string, run: (scene: Scene) => Promise<void>): void {
  rigTest(title, {}, async (rig) => {
    const { backend } = rig;
    const [volumeId, retainedId, snapshotId] = [newVolume(), newSnapshot(), newSnapshot()];
    await backend.createVolume(volumeId, VOLUME_BYTES);
    const { devicePath } = await backend.attach(volumeId, { readOnly: false });
    const content = TaggedBlocks.zeros(BLOCKS);
    await content.write(devicePath, 0, 1);
    await backend.createSnapshots([{ volumeId, snapshotId: retainedId }]);
    await content.write(devicePath, 1, 2);
    await backend.createSnapshots([{ volumeId, snapshotId }]);
    assert.notEqual(await backend.retainBase(retainedId), null);
    await backend.deleteSnapshot(retainedId);
    await backend.scanSource(snapshotId, retainedId);
    await run({ rig, volumeId, snapshotId, retainedId, content });
  });
}

/** The manual repair that the message asks for: release everything, repair the disk, check the pool. */
async function repair({ rig, volumeId }: Scene): Promise<void> {
  await rig.backend.detach(volumeId);
  // Of a device that cannot be read, nothing can be noted for the next start.
  await rig.backend.stop().catch(() => undefined);
  await rig.metadata.work();
  execFileSync('thin_check', ['--clear-needs-check-flag', rig.metadata.path], { stdio: 'pipe' });
  await rig.next();
}

async function assertAsAnswered({
  rig,
  volumeId,
  snapshotId,
  retainedId,
  content,
}: Scene): Promise<void> {
  const { backend } = rig;
  await backend.check();
  const { volumes, snapshots, unknown } = await backend.list();
  const ids = [...volumes, ...snapshots].map(({ id }) => id).sort();
  assert.deepEqual({ ids, unknown }, { ids: [volumeId, snapshotId].sort(), unknown: [] });
  assert.equal(await rig.deviceCount(), 2);
  const { devicePath } = await backend.attach(volumeId, { readOnly: false });
  await content.verify(devicePath, 'the volume after the repair');
  const { usable, invalidated } = await backend.retainedBases();
  assert.deepEqual(usable, [], 'kept bases survive no failure of the metadata');
  assert.deepEqual(
    invalidated.map(({ snapshotId: id }) => id),
    [retainedId],
  );
  await rejectsWith(backend.scanSource(snapshotId, retainedId), 'NOT_FOUND');
  await content.write(devicePath, 5, 6);
  await content.verify(devicePath, 'the volume, written again');
  await backend.scanSource(snapshotId, null);
}

faultTest(
  'a change that cannot be written to the metadata device is not confirmed',
  async (scene) => {
    const { rig, volumeId, snapshotId } = scene;
    const { backend } = rig;
    await rig.metadata.failWrites();
    const made = newVolume();
    await assert.rejects(backend.createVolume(made, VOLUME_BYTES));
    await rejectsWith(backend.check(), 'FAILED_PRECONDITION', /thin_check/);
    for (const refused of [
      () => backend.createVolume(newVolume(), VOLUME_BYTES),
      () => backend.createSnapshots([{ volumeId, snapshotId: newSnapshot() }]),
      () => backend.cloneVolume(newVolume(), volumeId, VOLUME_BYTES),
      () => backend.restoreVolume(newVolume(), snapshotId, VOLUME_BYTES),
      () => backend.deleteSnapshot(snapshotId),
    ]) {
      await assert.rejects(refused);
    }
    assert.deepEqual(await rig.suspendedDevices(), []);
    await told(rig, /^error: pool 'default'/m);
    await repair(scene);
    await assertAsAnswered(scene);
  },
);

faultTest('a snapshot is not confirmed when the metadata device fails under it', async (scene) => {
  const { rig, volumeId } = scene;
  await rig.metadata.failWrites();
  const cut = rig.backend.createSnapshots([{ volumeId, snapshotId: newSnapshot() }]);
  await assert.rejects(cut);
  assert.deepEqual(await rig.suspendedDevices(), []);
  await repair(scene);
  await assertAsAnswered(scene);
});

faultTest('a deletion is finished after the repair, and not before', async (scene) => {
  const { rig, volumeId } = scene;
  const { backend } = rig;
  const doomed = newVolume();
  await backend.createVolume(doomed, VOLUME_BYTES);
  await rig.metadata.failWrites();
  await assert.rejects(backend.deleteVolume(doomed));
  await repair(scene);
  await rig.backend.deleteVolume(doomed);
  await assertAsAnswered({ ...scene, volumeId });
});

faultTest(
  'a missing metadata device is reported, and nothing is confirmed until it returns',
  async (scene) => {
    const { rig } = scene;
    const { backend } = rig;
    await rig.metadata.fail();
    await rejectsWith(backend.check(), 'FAILED_PRECONDITION', /cannot be read/);
    await told(rig, /^error: pool 'default'/m);
    await assert.rejects(backend.createVolume(newVolume(), VOLUME_BYTES));
    await rejectsWith(backend.check(), 'FAILED_PRECONDITION');
    await repair(scene);
    await assertAsAnswered(scene);
  },
);
