/** `blockdelta volumes`, `snapshots` and `pools`, beside a running plugin and after its stop. */
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import { inspectNode, nodeSettings, type PoolView, withoutRemoved } from '../../../src/driver/inspection/node-view.js';
import { differencesIn } from '../../../src/driver/inspection/orphans.js';
import { runCommand } from '../../support/command.js';
import { specOf } from '../../support/contents.js';
import { MIB } from '../../support/orchestrator.js';
import { runPlugin, test } from '../../support/running-plugin.js';

type Row = Record<string, unknown>;

const running = runPlugin('inspection', { pools: { main: 'xfs' } });

const rows = async (t: TestContext, command: string): Promise<Row[]> =>
  JSON.parse(await running.output(t, command, '--json'));

/** As a command beside the plugin finds it. */
const found = () => inspectNode(nodeSettings(undefined, running.settings));

test('the lists show names, pools, states, devices and mounts, also without the plugin', async (t) => {
  const { orchestrator } = running;
  const used = await orchestrator.create('used', specOf('ext4'));
  const idle = await orchestrator.create('idle', { sizeBytes: 16 * MIB });
  const target = await orchestrator.bringUp(used);
  const snapshotId = await orchestrator.snapshot(used, 'first');
  const rowOf = async (id: string) => (await rows(t, 'volumes')).find((row) => row['id'] === id) ?? assert.fail(id);

  const { name, pool, state, snapshots, device, mountedAt, publishedAt } = await rowOf(used.id);
  assert.deepEqual([name, pool, state, snapshots], ['used', 'main', 'ready', 1]);
  assert.match(String(device), /^\/dev\/loop\d+$/);
  assert.deepEqual([mountedAt, publishedAt], [[used.stagingPath, target], [target]]);
  const other = await rowOf(idle.id);
  assert.deepEqual([other['device'], other['sizeBytes']], [null, String(16 * MIB)]);
  const listed = new RegExp(`${idle.id} +main +16 MiB .* ready +- +idle`);
  assert.match(await running.output(t, 'volumes'), listed);
  const snapshot = new RegExp(`${snapshotId} +${used.id} +main .* first`);
  assert.match(await running.output(t, 'snapshots'), snapshot);
  assert.match(await running.output(t, 'pools'), /^main +reflink +.*GiB .* 2 +1 +0 /m);

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
  await running.restart(async () => assert.equal((await rows(t, 'volumes')).length, 2));
});

test('a published raw volume is shown where its device is bound', async (t) => {
  const { orchestrator } = running;
  const raw = await orchestrator.create('raw');
  const target = await orchestrator.bringUp(raw);
  const row = (await rows(t, 'volumes')).find(({ id }) => id === raw.id);
  const staged = `${raw.stagingPath}/device`;
  assert.deepEqual([row?.['mountedAt'], row?.['publishedAt']], [[staged, target], [target]]);
  assert.match(await running.output(t, 'volumes'), new RegExp(`^${raw.id} .* raw +${staged} ${target}$`, 'm'));
  await orchestrator.remove(raw);
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
  for (let round = 0; round < 15; round += 1) {
    const node = await found();
    const [view] = node.views;
    assert.ok(view !== undefined && view.problem === null, view?.problem ?? 'no pool');
    assert.ok(differencesIn(node, view).every(({ kind }) => kind !== 'unknown'));
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
  const { catalogue, views } = await found();
  const [view] = views;
  assert.ok(view !== undefined);
  const id = newVolumeId(nodeKey('test-node'));
  const object = { id, sizeBytes: 1n, usedBytes: 0n, path: null };
  const seen: PoolView = { ...view, volumes: [...view.volumes, object] };
  const idsAfter = async (later: PoolView): Promise<string[]> => {
    const left = await withoutRemoved([seen], catalogue, async () => [later]);
    return left.flatMap(({ volumes }) => volumes.map((each) => each.id));
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

test('a deleted snapshot that its pool retains as the base of deltas proves no loss of rows', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('with-a-base');
  const snapshotId = await orchestrator.snapshot(volume);
  await orchestrator.deleteSnapshot(snapshotId);
  const node = await found();
  const retained = node.catalogue.retainedBases.map((base) => base.snapshotId);
  assert.deepEqual(retained, [snapshotId]);
  assert.deepEqual(
    node.views.flatMap((view) => differencesIn(node, view)),
    [],
  );
});

test('a wrong state directory is named with what to do', async (t) => {
  const env = { ...running.settings, BLOCKDELTA_STATE_DIR: '/nowhere' };
  const said = /there is no catalogue \/nowhere\/catalogue.sqlite: name .*--state-dir/;
  for (const command of [['volumes'], ['catalogue', 'unknown'], ['catalogue', 'confirm']]) {
    const ended = await runCommand(t, command, env);
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, said);
  }
});

test('a restored volume gets a PersistentVolume for one claim, and a provisioned one only by force', async (t) => {
  const { orchestrator } = running;
  const raw = await orchestrator.create('restored', { sizeBytes: 16 * MIB });
  const mounted = await orchestrator.create('pvc-01234567-89ab-4cde-8f01-23456789abcd', specOf('xfs'));
  const made = async (id: string, ...more: string[]): Promise<Row> =>
    JSON.parse(await running.output(t, 'volumes', '--persistent-volume', id, '--claim', 'shop/data', ...more));
  const expected = {
    capacity: { storage: String(16 * MIB) },
    accessModes: ['ReadWriteOnce'],
    volumeMode: 'Block',
    persistentVolumeReclaimPolicy: 'Retain',
    storageClassName: '',
    claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data' },
    csi: { driver: 'blockdelta.csi', volumeHandle: raw.id },
  };
  const { nodeAffinity, ...spec } = (await made(raw.id))['spec'] as Row;
  assert.deepEqual(spec, expected);
  const { accessible_topology: topology } = await running.plugin.client.node.NodeGetInfo({});
  const [[key, value] = []] = Object.entries(topology['segments']);
  assert.deepEqual(nodeAffinity, {
    required: { nodeSelectorTerms: [{ matchExpressions: [{ key, operator: 'In', values: [value] }] }] },
  });
  const { volumeMode, csi } = (await made(raw.id, '--fs-type', 'ext4'))['spec'] as { volumeMode: string; csi: Row };
  assert.deepEqual([volumeMode, csi['fsType']], ['Filesystem', 'ext4']);

  const of = ['volumes', '--persistent-volume', mounted.id, '--claim', 'shop/data'];
  const refused = await runCommand(t, of, running.settings);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /a provisioner made it .* Two of them mount one volume twice, .* --force/);
  assert.deepEqual(((await made(mounted.id, '--force'))['spec'] as { csi: Row }).csi['fsType'], 'xfs');
  const unknown = await runCommand(t, ['volumes', '--persistent-volume', 'vol-x', '--claim', 'a/b'], running.settings);
  assert.match(unknown.stderr, /there is no volume vol-x on this node/);
  const alone = await runCommand(t, ['volumes', '--persistent-volume', raw.id], running.settings);
  assert.equal(alone.code, 2);
});
