/** Storage conditions: files and pools that are really damaged, and how controller and node report it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync, truncateSync } from 'node:fs';
import { blockCapability, type Message } from '../support/csi-client.js';
import { controllerHealth, nodeHealth, settled, storageHealth, told } from '../support/health.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('health-storage', { pools: { main: 'xfs' }, poolSizeMiB: 512 });

const fileOf = (volume: HeldVolume): string => running.poolPath('main', 'volumes', volume.id);

/** The device whose backing file, there or not, has the name. */
function deviceLabelled(name: string): string {
  const list = execFileSync('losetup', ['-n', '-O', 'NAME,BACK-FILE'], { encoding: 'utf8' });
  const line = list.split('\n').find((found) => found.includes(name));
  return line?.split(' ')[0] ?? assert.fail(`no device is labelled ${name}`);
}

async function bothViews(volume: HeldVolume): Promise<string[][]> {
  const { client } = running;
  return [await controllerHealth(client, volume.id), await nodeHealth(client, volume.id)];
}

test('a healthy volume has an empty list of conditions, and is not listed', async () => {
  const { client, orchestrator } = running;
  const volume = await orchestrator.create('healthy');
  for (const inUse of [false, true]) {
    if (inUse) await orchestrator.bringUp(volume);
    assert.deepEqual(await bothViews(volume), [[], []]);
    const { entries, next_token } = await client.controller.ControllerListVolumeHealth({});
    assert.deepEqual([entries, next_token], [[], '']);
    assert.deepEqual(await storageHealth(client), []);
  }
  const { volume_health } = await client.controller.ControllerGetVolumeHealth({
    volume_id: volume.id,
  });
  assert.equal(volume_health.volume_id, volume.id);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('a backing file shorter than the volume is DATA_LOSS until its size is restored', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('truncated', { sizeBytes: 8 * MIB });
  truncateSync(fileOf(volume), 4 * MIB);
  const lost = ['DATA_LOSS BackingFileTruncated'];
  assert.deepEqual(await bothViews(volume), [lost, lost]);
  const { client } = running;
  const { entries } = await client.controller.ListVolumes({});
  const got = await client.controller.ControllerGetVolume({ volume_id: volume.id });
  for (const { volume_condition } of [entries[0].status, got['status']]) {
    assert.equal(volume_condition.abnormal, true, 'LV7, GV4');
    assert.match(
      volume_condition.message,
      /^BackingFileTruncated: its file was truncated to 4194304 of/,
    );
  }
  truncateSync(fileOf(volume), 8 * MIB);
  assert.deepEqual(await bothViews(volume), [[], []]);
  await orchestrator.delete(volume);
});

test('a missing backing file is DATA_LOSS, and the volume still exists', async () => {
  const { client, orchestrator } = running;
  const volume = await orchestrator.create('gone');
  rmSync(fileOf(volume));
  const lost = ['DATA_LOSS BackingFileMissing'];
  assert.deepEqual(await bothViews(volume), [lost, lost]);
  const { entries } = await client.controller.ControllerListVolumeHealth({});
  assert.deepEqual(entries.map(told), [lost]);
  await orchestrator.delete(volume);
  const request = { volume_id: volume.id };
  await refused(client.controller.ControllerGetVolumeHealth(request), 'NOT_FOUND');
  await refused(client.node.NodeGetVolumeHealth(request), 'NOT_FOUND');
});

test('a file removed while its device is in use is DATA_LOSS, and its data stays until the device is detached', async () => {
  const { orchestrator } = running;
  for (const capability of [blockCapability(), { mount: {}, access_mode: { mode: 1 } }]) {
    const volume = await orchestrator.create('removed', { capability, sizeBytes: 16 * MIB });
    await orchestrator.bringUp(volume);
    rmSync(fileOf(volume));
    const lost = ['DATA_LOSS BackingFileDeleted'];
    assert.deepEqual(await bothViews(volume), [lost, lost]);
    await orchestrator.takeDown(volume);
    // The plugin never detaches what it cannot prove to be its own, and so the data stays.
    assert.deepEqual(await bothViews(volume), [lost, lost]);
    execFileSync('losetup', ['-d', deviceLabelled(volume.id)]);
    const gone = ['DATA_LOSS BackingFileMissing'];
    assert.deepEqual(await bothViews(volume), [gone, gone]);
    await orchestrator.delete(volume);
  }
});

test('a pool that fills up is reported before and when writes fail, and recovers', async () => {
  const { client, orchestrator } = running;
  const volume = await orchestrator.create('in a full pool');
  const fillers = ['filler-0', 'filler-1'].map((name) => running.poolPath('main', name));
  const fill = (filler: string, leaveMiB: number): void => {
    const free = execFileSync('stat', ['-f', '-c', '%a %S', running.poolPath('main')], {
      encoding: 'utf8',
    });
    const [blocks = 0, size = 0] = free.split(' ').map(Number);
    const bytes = blocks * size - leaveMiB * MIB;
    execFileSync('fallocate', ['-l', String(bytes), filler]);
  };
  fill(fillers[0] ?? '', 16);
  assert.deepEqual(await bothViews(volume), [
    ['DEGRADED PoolNearlyFull'],
    ['DEGRADED PoolNearlyFull'],
  ]);
  assert.deepEqual(await storageHealth(client), ['STORAGE_DEGRADED PoolNearlyFull']);
  fill(fillers[1] ?? '', 1);
  assert.deepEqual(await bothViews(volume), [
    ['INACCESSIBLE PoolOutOfSpace'],
    ['INACCESSIBLE PoolOutOfSpace'],
  ]);
  assert.deepEqual(await storageHealth(client), ['STORAGE_DEGRADED PoolOutOfSpace']);
  for (const filler of fillers) rmSync(filler);
  // XFS gives the space of a removed file back a little later.
  await settled(() => storageHealth(client), []);
  assert.deepEqual(await bothViews(volume), [[], []]);
  await orchestrator.delete(volume);
});

test('an unreachable pool is reported as such, and not as the loss of its volumes', async () => {
  const { client, orchestrator } = running;
  const volume = await orchestrator.create('in a pool that is away');
  renameSync(running.poolPath('main', 'volumes'), running.poolPath('main', 'away'));
  try {
    const away = ['INACCESSIBLE PoolUnreachable'];
    assert.deepEqual(await bothViews(volume), [away, away]);
    const { backend_health } = await client.node.NodeGetStorageHealth({});
    assert.equal(backend_health.length, 1);
    const [{ status, reason, message, volume_capability }] = backend_health;
    assert.equal(`${status} ${reason}`, 'STORAGE_UNREACHABLE PoolUnreachable');
    assert.match(message, /pool 'main'/);
    assert.equal(volume_capability, null);
  } finally {
    renameSync(running.poolPath('main', 'away'), running.poolPath('main', 'volumes'));
  }
  assert.deepEqual(await bothViews(volume), [[], []]);
  await orchestrator.delete(volume);
});

test('abnormal volumes are listed in pages; a bad token is ABORTED', async () => {
  const { client, orchestrator } = running;
  const volumes: HeldVolume[] = [];
  for (let index = 0; index < 7; index += 1) {
    volumes.push(await orchestrator.create(`page ${index}`, { sizeBytes: MIB }));
  }
  // Every other one.
  const sick = volumes.filter((_, index) => index % 2 === 0);
  for (const volume of sick) truncateSync(fileOf(volume), 0);
  const list = client.controller.ControllerListVolumeHealth;
  const found: string[] = [];
  let token = '';
  do {
    const page: Message = await list({ max_entries: 3, starting_token: token });
    assert.ok(page['entries'].length <= 3);
    for (const entry of page['entries']) {
      assert.deepEqual(told(entry), ['DATA_LOSS BackingFileTruncated']);
      found.push(entry.volume_id);
    }
    token = page['next_token'];
  } while (token !== '');
  assert.deepEqual(found, sick.map(({ id }) => id).sort());
  const { next_token } = await client.controller.ListVolumes({ max_entries: 1 });
  for (const bad of ['no token', next_token]) {
    await refused(list({ starting_token: bad }), 'ABORTED', /starting_token/);
  }
  await refused(list({ max_entries: -1 }), 'INVALID_ARGUMENT', /max_entries/);
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('the health RPCs check the id, then the volume, then the paths', async () => {
  const { client, orchestrator } = running;
  await refused(client.controller.ControllerGetVolumeHealth({}), 'INVALID_ARGUMENT', /volume_id/);
  await refused(client.node.NodeGetVolumeHealth({}), 'INVALID_ARGUMENT', /volume_id/);
  const unknown = { volume_id: 'fake-vol-id', volume_publish_path: 'some/path' };
  await refused(client.node.NodeGetVolumeHealth(unknown), 'NOT_FOUND');
  await refused(
    client.controller.ControllerGetVolumeHealth({ volume_id: 'fake-vol-id' }),
    'NOT_FOUND',
  );
  const volume = await orchestrator.create('paths');
  for (const field of ['volume_publish_path', 'staging_target_path']) {
    const ask = (path: string) =>
      client.node.NodeGetVolumeHealth({ volume_id: volume.id, [field]: path });
    await refused(ask('some/path'), 'INVALID_ARGUMENT', new RegExp(field));
    await refused(ask('/a/../b'), 'INVALID_ARGUMENT', new RegExp(field));
    const answer = await ask('/no/such/path');
    assert.deepEqual(answer['volume_health'], { volume_id: volume.id, health_statuses: [] });
  }
  await orchestrator.delete(volume);
});
