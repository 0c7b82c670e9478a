/** Names of volumes and snapshots are never paths: no file in a pool has such a name. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CONFORMING_NAMES } from '../support/conforming-names.js';
import { MIB } from '../support/orchestrator.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('names', { pools: { main: 'xfs' } });
const { orchestrator } = running;

test('names do not appear in the pool, whose files are named by handles', async () => {
  for (const name of Object.values(CONFORMING_NAMES)) {
    const volume = await orchestrator.create(name, { sizeBytes: MIB });
    const snapshotId = await orchestrator.snapshot(volume, name);
    assert.deepEqual(readdirSync(running.poolPath('main', 'volumes')), [volume.id]);
    assert.deepEqual(readdirSync(running.poolPath('main', 'snapshots')), [snapshotId]);
    await orchestrator.deleteSnapshot(snapshotId);
    await orchestrator.delete(volume);
  }
  const root = running.poolPath('main');
  const names = ['bases', 'pool-id', 'pool-owner', 'snapshots', 'used', 'volumes'];
  assert.deepEqual(readdirSync(root).sort(), names);
  for (const name of ['bases', 'volumes', 'used', 'snapshots']) {
    assert.deepEqual(readdirSync(join(root, name)), []);
  }
});
