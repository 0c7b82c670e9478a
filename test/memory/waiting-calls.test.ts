/** Calls for an object that is busy: they wait some seconds for each other, as orchestrators expect. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';

const running = runMemoryPlugin('waiting', { pools: ['main'] });
const { orchestrator } = running;

test('concurrent calls for one volume all succeed, one after the other', async () => {
  const { controller } = running.client;
  const created = await Promise.all(
    [0, 1, 2, 3].map(() => controller.CreateVolume(createRequest('same', { sizeBytes: 8 * MIB }))),
  );
  assert.equal(new Set(created.map(({ volume }) => volume.volume_id)).size, 1);
  const volume = orchestrator.hold('same', created[0]?.['volume']);
  const names = ['a', 'b', 'c', 'd'];
  const snapshots = await Promise.all([
    ...names.map((name) => orchestrator.snapshot(volume, name)),
    ...names.map((name) => orchestrator.snapshot(volume, name)),
  ]);
  assert.equal(new Set(snapshots).size, names.length);
  await Promise.all([
    orchestrator.expand(volume, 16 * MIB),
    orchestrator.expand(volume, 16 * MIB),
    orchestrator.snapshot(volume, 'between'),
  ]);
  const ids = await orchestrator.snapshotIds();
  await Promise.all(ids.flatMap((id) => [0, 1].map(() => orchestrator.deleteSnapshot(id))));
  await Promise.all([0, 1, 2].map(() => orchestrator.delete(volume)));
  assert.deepEqual(await orchestrator.volumeIds(), []);
});
