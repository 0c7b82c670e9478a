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
  const { orchestrator } = running;
  const used = await orchestrator.create('used', {
    capability: mountCapability('ext4'),
    sizeBytes: 32 * MIB,
  });
  const idle = await orchestrator.create('idle', { sizeBytes: 16 * MIB });
  const target = await orchestrator.bringUp(used);
  const snapshotId = await orchestrator.snapshot(used, 'first');
  const rowOf = async (id: string) =>
    (await rows(t, 'volumes')).find((row) => row['id'] === id) ?? assert.fail(id);

  const { name, pool, state, snapshots, device, mountedAt, publishedAt } = await rowOf(used.id);
  assert.deepEqual([name, pool, state, snapshots], ['used', 'main', 'ready', 1]);
  assert.match(String(device), /^\/dev\/loop\d+$/);
  assert.deepEqual([mountedAt, publishedAt], [[used.stagingPath, target], [target]]);
  const other = await rowOf(idle.id);
  assert.deepEqual([other['device'], other['sizeBytes']], [null, String(16 * MIB)]);
  assert.match(await table(t, 'volumes'), new RegExp(`${idle.id} +main +16 MiB .* ready +- +idle`));
  const snapshot = new RegExp(`${snapshotId} +${used.id} +main .* first`);
  assert.match(await table(t, 'snapshots'), snapshot);
  assert.match(await table(t, 'pools'), /^main +reflink +.*GiB .* 2 +1 /m);

  const moved = async (path: string, expected: string): Promise<void> => {
    renameSync(path, `${path}.aside`);
    assert.equal((await rowOf(idle.id))['state'], expected);
    if (expected === 'pool away') {
      assert.match(String((await rows(t, 'pools'))[0]?.['problem']), /holds no pool/);
    }
    renameSync(`${path}.aside`, path);
  };
  await moved(running.poolPath('main', 'volumes', idle.id), 'lost');
  await moved(running.poolPath('main', 'pool-id'), 'pool away');

  await orchestrator.takeDown(used);
  await running.plugin.stop();
  assert.equal((await rows(t, 'volumes')).length, 2);
  await running.start();
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
