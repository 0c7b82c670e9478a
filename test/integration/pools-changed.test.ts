/** A pool that was changed while the plugin was stopped. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { confirmObjects, foundObjects } from '../../src/volumes/unknown-objects.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('changed', { pools: { main: 'xfs' } });
const { orchestrator } = running;

test('changes made while the plugin was stopped are reported and not touched', async () => {
  const poolPath = (...names: string[]): string => running.poolPath('main', ...names);
  const volumes: HeldVolume[] = [];
  for (const name of ['lost', 'cut', 'whole']) volumes.push(await orchestrator.create(name));
  const [lost, cut, whole] = volumes as [HeldVolume, HeldVolume, HeldVolume];
  const snapshotId = await orchestrator.snapshot(whole, 'lost');
  assert.equal(await running.plugin.stop(), 0);

  rmSync(poolPath('volumes', lost.id));
  execFileSync('truncate', ['-s', '4M', poolPath('volumes', cut.id)]);
  execFileSync('chattr', ['-i', poolPath('snapshots', snapshotId)]);
  rmSync(poolPath('snapshots', snapshotId));
  const strange = 'vol-0123456789ab-00000000-0000-0000-0000-000000000000';
  for (const name of [strange, 'notes.txt', `${strange}.tmp`]) {
    writeFileSync(poolPath('volumes', name), 'x');
  }

  await running.start();
  const { differences, undone } = startReport(running.plugin.log);
  assert.deepEqual(
    [...differences].sort(),
    [
      `pool 'main' has lost ${lost.id}`,
      `pool 'main' has lost ${snapshotId}`,
      `pool 'main' holds ${poolPath('volumes', 'notes.txt')}, which blockdelta did not create`,
      `pool 'main' holds ${strange}, which the catalogue does not know`,
      `pool 'main': ${cut.id} has ${4 * MIB} bytes and should have ${8 * MIB}`,
    ].sort(),
  );
  assert.deepEqual(undone, [`temporary file ${strange}.tmp in pool 'main'`]);
  assert.match(running.plugin.log, /"level":"warn"/);
  for (const name of [strange, 'notes.txt', whole.id]) {
    assert.ok(existsSync(poolPath('volumes', name)), `${name} was removed`);
  }
  const code = 'FAILED_PRECONDITION';
  await refused(orchestrator.stage(lost), code, /has lost its file/);
  await refused(running.client.allocated(snapshotId), code, /has lost its file/);
  await refused(orchestrator.create('more'), code, new RegExp(`has lost rows.*${strange}`));

  const state = running.workspace.path('plugin');
  await confirmObjects(state, await foundObjects(state));
  await running.restart();
  await refused(orchestrator.snapshot(lost, 'of lost'), code, /has lost its file/);
  await refused(orchestrator.create('from lost', { snapshotId }), code, /lost/);
  assert.deepEqual((await orchestrator.volumeIds()).sort(), volumes.map(({ id }) => id).sort());
  for (const volume of volumes) await orchestrator.delete(volume);
  await orchestrator.deleteSnapshot(snapshotId);
});
