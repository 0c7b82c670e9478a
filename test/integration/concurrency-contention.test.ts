/** Many concurrent clients make random calls on few objects, checked against a model of the allowed outcomes. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { isNightly } from '../support/nightly.js';
import { startReport } from '../support/plugin-log.js';
import { seededRandom } from '../support/random.js';
import { Contention } from '../support/random-clients.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { snapshotFiles } from '../support/snapshot-files.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const CLIENTS = 16;
const DURATION_MS = isNightly ? 120_000 : 5000;

const running = runPlugin('contention', { pools: { main: 'xfs' }, poolSizeMiB: 4096 });

test('sixteen clients with random calls get conforming answers and leave nothing behind', async () => {
  const { workspace, orchestrator, plugin } = running;
  const { directory } = workspace;
  const own = { mounts: mountsBelow(directory), loops: loopsBelow(directory) };
  const contention = new Contention(workspace, plugin.endpoint, seededRandom('contention').seed);
  await contention.run(CLIENTS, DURATION_MS);
  console.log(`# ${[...contention.statuses].map(([key, count]) => `${key}: ${count}`).join(', ')}`);

  const volumeIds = await orchestrator.volumeIds();
  const snapshotIds = await orchestrator.snapshotIds();
  contention.judge(volumeIds, snapshotIds);
  assert.deepEqual(readdirSync(running.poolPath('main', 'volumes')).sort(), volumeIds.sort());
  assert.deepEqual(snapshotFiles(running.poolPath('main', 'snapshots')).sort(), snapshotIds.sort());
  await running.restart();
  const { finished, undone, differences } = startReport(running.plugin.log);
  assert.deepEqual(
    { finished, undone, differences },
    { finished: [], undone: [], differences: [] },
  );

  const { controller, node } = running.client;
  for (const volume_id of volumeIds) {
    const staging_target_path = contention.stagingPath(volume_id);
    await node.NodeUnpublishVolume({ volume_id, target_path: contention.targetPath(volume_id) });
    await node.NodeUnstageVolume({ volume_id, staging_target_path });
    await controller.DeleteVolume({ volume_id });
  }
  for (const snapshotId of snapshotIds) await orchestrator.deleteSnapshot(snapshotId);
  assert.deepEqual(mountsBelow(directory), own.mounts);
  assert.deepEqual(loopsBelow(directory), own.loops);
  assert.deepEqual(readdirSync(running.poolPath('main', 'volumes')), []);
  assert.deepEqual(snapshotFiles(running.poolPath('main', 'snapshots')), []);
});
