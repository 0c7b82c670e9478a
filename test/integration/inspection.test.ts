/** `blockdelta volumes`, `snapshots` and `pools`, beside a running plugin and after its stop. */
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import type { TestContext } from 'node:test';
import {
  inspectNode,
  nodeSettings,
  type PoolView,
  withoutRemoved,
} from '../../src/cli/inspection/node.js';
import { withoutRows } from '../../src/cli/inspection/orphans.js';
import { newVolumeId, nodeKey } from '../../src/domain/identifiers.js';
import { runCommand } from '../support/command.js';
import { mountCapability } from '../support/csi-client.js';
import { MIB } from '../support/orchestrator.js';
import { runPlugin, test } from '../support/running-plugin.js';

type Row = Record<string, unknown>;

const running = runPlugin('inspection', { pools: { main: 'xfs' } });

function environment(): Record<string, string> {
  return {
    BLOCKDELTA_STATE_DIR: running.workspace.path('plugin'),
    BLOCKDELTA_POOLS: `main=${running.poolPath('main')}`,
  };
}

async function rows(t: TestContext, command: string): Promise<Row[]> {
  const ended = await runCommand(t, [command, '--json'], environment());
  assert.equal(ended.code, 0, ended.stderr);
  return JSON.parse(ended.stdout) as Row[];
}

async function table(t: TestContext, command: string): Promise<string> {
  const ended = await runCommand(t, [command], environment());
  assert.equal(ended.code, 0, ended.stderr);
  return ended.stdout;
}

test('the lists show names, pools, states, devices and mounts, also without the plugin', async (t) => {
  const { orchestrator, client } = running;
  const used = await orchestrator.create('used', {
    capability: mountCapability('ext4'),
    sizeBytes: 32 * MIB,
  });
  const idle = await orchestrator.create('idle', { sizeBytes: 16 * MIB });
  const target = await orchestrator.bringUp(used);
  const { snapshot } = await client.controller.CreateSnapshot({
    name: 'first',
    source_volume_id: used.id,
  });
  const snapshotId = String((snapshot as Row)['snapshot_id']);

  const listed = await rows(t, 'volumes');
  const row = listed.find(({ id }) => id === used.id);
  assert.equal(row?.['name'], 'used');
  assert.equal(row?.['pool'], 'main');
  assert.equal(row?.['state'], 'ready');
  assert.equal(row?.['snapshots'], 1);
  assert.match(String(row?.['device']), /^\/dev\/loop\d+$/);
  assert.deepEqual(row?.['mountedAt'], [used.stagingPath, target]);
  assert.deepEqual(row?.['publishedAt'], [target]);
  const other = listed.find(({ id }) => id === idle.id);
  assert.deepEqual([other?.['device'], other?.['sizeBytes']], [null, String(16 * MIB)]);

  const [taken] = await rows(t, 'snapshots');
  assert.deepEqual(
    [taken?.['id'], taken?.['name'], taken?.['volumeId'], taken?.['state']],
    [snapshotId, 'first', used.id, 'ready'],
  );
  const [pool] = await rows(t, 'pools');
  assert.deepEqual(
    [pool?.['name'], pool?.['kind'], pool?.['volumes'], pool?.['snapshots'], pool?.['problem']],
    ['main', 'reflink', 2, 1, null],
  );
  assert.match(await table(t, 'volumes'), new RegExp(`${idle.id} +main +16 MiB .* ready +- +idle`));
  assert.match(await table(t, 'snapshots'), new RegExp(`${snapshotId} +${used.id} +main .* first`));
  assert.match(await table(t, 'pools'), /^main +reflink +.*GiB .* 2 +1 /m);

  await orchestrator.takeDown(used);
  await running.plugin.stop();
  assert.equal((await rows(t, 'volumes')).length, 2);
  await running.start();
});

test('a volume whose file is gone is lost, and one whose pool is away is not', async (t) => {
  const volume = await running.orchestrator.create('lost');
  const stateOf = async () =>
    (await rows(t, 'volumes')).find(({ id }) => id === volume.id)?.['state'];
  const file = running.poolPath('main', 'volumes', volume.id);
  renameSync(file, `${file}.aside`);
  assert.equal(await stateOf(), 'lost');
  renameSync(`${file}.aside`, file);
  assert.equal(await stateOf(), 'ready');
  const id = running.poolPath('main', 'pool-id');
  renameSync(id, `${id}.aside`);
  assert.equal(await stateOf(), 'pool away');
  const [pool] = await rows(t, 'pools');
  assert.match(String(pool?.['problem']), /holds no pool/);
  renameSync(`${id}.aside`, id);
});

test('volumes that come and go meanwhile are neither lost nor without a row', async () => {
  const { orchestrator } = running;
  let isOver = false;
  const churn = (async () => {
    for (let round = 0; !isOver; round += 1) {
      await orchestrator.delete(await orchestrator.create(`brief-${round}`));
    }
    return true;
  })();
  const settings = nodeSettings(environment()['BLOCKDELTA_STATE_DIR'], environment());
  for (let round = 0; round < 15; round += 1) {
    const node = await inspectNode(settings);
    const [view] = node.views;
    assert.ok(view !== undefined && view.problem === null, view?.problem ?? 'no pool');
    assert.deepEqual(withoutRows(node, view), []);
    const held = new Set(view.volumes.map(({ id }) => id));
    const ready = node.catalogue.volumes.filter(({ state }) => state === 'ready');
    assert.deepEqual(
      ready.filter(({ volumeId, name }) => name.startsWith('brief-') && !held.has(volumeId)),
      [],
    );
  }
  isOver = true;
  assert.ok(await churn);
});

test('an object without a row counts only while its pool still holds it', async () => {
  const volume = await running.orchestrator.create('with-a-row');
  const settings = nodeSettings(environment()['BLOCKDELTA_STATE_DIR'], environment());
  const { catalogue, views } = await inspectNode(settings);
  const [view] = views;
  assert.ok(view !== undefined);
  const id = newVolumeId(nodeKey('test-node'));
  const object = { id, sizeBytes: 1n, usedBytes: 0n, file: null };
  const seen: PoolView = { ...view, volumes: [...view.volumes, object] };
  const idsAfter = async (later: PoolView): Promise<string[]> => {
    const found = await withoutRemoved([seen], catalogue, async () => [later]);
    return found.flatMap(({ volumes }) => volumes.map((each) => each.id));
  };
  const known = view.volumes.map((each) => each.id);
  assert.ok(known.includes(volume.id));
  // Removed meanwhile.
  assert.deepEqual(await idsAfter(view), known);
  assert.deepEqual(await idsAfter(seen), [...known, id]);
  // A pool that is away by now says nothing.
  const away = { ...view, problem: 'away', volumes: [], snapshots: [] };
  assert.deepEqual(await idsAfter(away), [...known, id]);
  const lookAgain = () => assert.fail('every object has a row');
  assert.equal((await withoutRemoved(views, catalogue, lookAgain))[0], view);
});

test('a wrong state directory is named with what to do', async (t) => {
  const env = { ...environment(), BLOCKDELTA_STATE_DIR: '/nowhere' };
  const ended = await runCommand(t, ['volumes'], env);
  assert.equal(ended.code, 1);
  assert.match(
    ended.stderr,
    /there is no catalogue \/nowhere\/catalogue.sqlite: name .*--state-dir/,
  );
});
