/** What belongs to others: a file system frozen by another process, a pool of another catalogue, the state directory. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { mountCapability } from '../support/csi-client.js';
import { MIB } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { mountsBelow } from '../support/workspace.js';

const running = runPlugin('claims', { pools: { main: 'xfs' } });

test('no snapshot is taken of a file system that another process has frozen, and it stays frozen', async () => {
  const { orchestrator } = running;
  const spec = { capability: mountCapability('ext4'), sizeBytes: 16 * MIB };
  const volume = await orchestrator.create('frozen', spec);
  const target = await orchestrator.bringUp(volume);
  execFileSync('fsfreeze', ['-f', target]);
  const cut = () => orchestrator.snapshot(volume, 'cut-while-frozen');
  await refused(cut(), 'FAILED_PRECONDITION', /frozen by another program.*thaw it first/);
  // Fails if it is not frozen any more.
  execFileSync('fsfreeze', ['-u', target]);
  await cut();
  assert.equal(readdirSync(running.poolPath('main', 'snapshots')).length, 1);
});

test('a pool that another catalogue serves is refused, and left as it is', async (t) => {
  const { workspace, client } = running;
  const mounts = mountsBelow(workspace.directory);
  const pools = `main=${running.poolPath('main')}`;
  const second = Plugin.launch(workspace, { name: 'second', pools });
  t.after(() => second.kill());
  assert.equal(await second.exitCode(), 1, second.log);
  assert.match(second.log, /pool 'main'.*belongs to the catalogue.*one state directory/);
  assert.deepEqual(mountsBelow(workspace.directory), mounts);
  assert.equal((await client.identity.Probe({}))['ready'].value, true);
});

test('only its owner can read the catalogue, whatever the mode of the state directory', () => {
  const state = running.workspace.path('plugin');
  const files = readdirSync(state, { withFileTypes: true }).filter((entry) => entry.isFile());
  assert.ok(files.some(({ name }) => name.startsWith('catalogue.sqlite')));
  for (const { name } of files) assert.equal(statSync(`${state}/${name}`).mode & 0o077, 0, name);
});
