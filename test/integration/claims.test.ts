/** Foreign objects: a file system frozen by another process, a pool of another catalogue; and the catalogue's file mode. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { after } from 'node:test';
import { mountCapability } from '../support/csi-client.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { PluginProcess } from '../support/plugin-process.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { makePoolFileSystem, mountsBelow, Workspace } from '../support/workspace.js';

const workspaces: Workspace[] = [];
const ends: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const end of ends) await end();
  for (const workspace of workspaces) workspace.dispose();
});

function newWorkspace(label: string): Workspace {
  const workspace = new Workspace(`claims-${label}`);
  workspaces.push(workspace);
  return workspace;
}

test('no snapshot is taken of a file system that another process has frozen, and it stays frozen', async () => {
  const workspace = newWorkspace('frozen');
  const plugin = await Plugin.start(workspace);
  ends.push(() => plugin.kill());
  const orchestrator = new Orchestrator(workspace, () => plugin.client);
  const volume = await orchestrator.create('frozen', {
    capability: mountCapability('ext4'),
    sizeBytes: 16 * MIB,
  });
  await orchestrator.stage(volume);
  await orchestrator.publish(volume);
  execFileSync('fsfreeze', ['-f', volume.targetPath]);
  const request = { source_volume_id: volume.id, name: 'cut-while-frozen' };
  await refused(
    plugin.client.controller.CreateSnapshot(request),
    'FAILED_PRECONDITION',
    /frozen by another program.*thaw it first/,
  );
  // Fails if it is not frozen any more.
  execFileSync('fsfreeze', ['-u', volume.targetPath]);
  const { snapshot } = await plugin.client.controller.CreateSnapshot(request);
  assert.equal(snapshot.ready_to_use, true);
  assert.equal(readdirSync(workspace.path('plugin/pools/default/mount/snapshots')).length, 1);
});

test('a start under another node id is one line that says what to do, and touches no pool', async () => {
  const workspace = newWorkspace('node');
  const first = await Plugin.start(workspace, { env: { BLOCKDELTA_NODE_ID: 'node-a' } });
  ends.push(() => first.kill());
  assert.equal(await first.stop(), 0);
  const mounts = mountsBelow(workspace.directory);
  const second = new PluginProcess(workspace, { env: { BLOCKDELTA_NODE_ID: 'pod-7c9f' } });
  ends.push(() => second.kill());
  assert.equal(await second.exitCode(), 1, second.output);
  const said = second.output.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
  assert.equal(said.length, 1, second.output);
  assert.match(String(said[0]), /^blockdelta: the catalogue in .* belongs to node 'node-a'/);
  assert.match(String(said[0]), /set BLOCKDELTA_NODE_ID=node-a/);
  assert.doesNotMatch(second.output, /"level":"(error|fatal)"|"level":[56]0/);
  assert.deepEqual(mountsBelow(workspace.directory), mounts);
  const again = await Plugin.start(workspace, { env: { BLOCKDELTA_NODE_ID: 'node-a' } });
  assert.equal(await again.stop(), 0);
});

test('a pool that another catalogue serves is refused, and left as it is', async () => {
  const workspace = newWorkspace('owner');
  const pools = `shared=${workspace.path('shared')}`;
  const first = await Plugin.start(workspace, { name: 'first', pools });
  ends.push(() => first.kill());
  const mounts = mountsBelow(workspace.directory);
  const second = new PluginProcess(workspace, { name: 'second', pools });
  ends.push(() => second.kill());
  assert.equal(await second.exitCode(), 1, second.output);
  assert.match(second.output, /pool 'shared'.*belongs to the catalogue.*one state directory/);
  assert.deepEqual(mountsBelow(workspace.directory), mounts);
  await first.client.identity.Probe({});
});

test('only its owner can read the catalogue, even in a world-accessible state directory', async () => {
  const workspace = newWorkspace('private');
  const state = workspace.path('plugin');
  mkdirSync(state);
  chmodSync(state, 0o755);
  const plugin = await Plugin.start(workspace, {
    pools: `main=${makePoolFileSystem(workspace, 'xfs')}`,
  });
  ends.push(() => plugin.kill());
  for (const file of readdirSync(state)) {
    assert.equal(statSync(`${state}/${file}`).mode & 0o077, 0, file);
  }
});
