/** One of several pools is unavailable: the others are served, and its volumes are not treated as deleted. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FileContents } from '../support/contents.js';
import { CsiClient, type Message, mountCapability, probeFails } from '../support/csi-client.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { logLines, startReport } from '../support/plugin-log.js';
import { PluginProcess } from '../support/plugin-process.js';
import { seededRandom } from '../support/random.js';
import { TEST_NODE_KEY } from '../support/records.js';
import { refused, statusOf } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { makePoolFileSystem, Workspace } from '../support/workspace.js';

const random = seededRandom('pools away');
let workspace: Workspace | undefined;
let plugin: PluginProcess | undefined;

after(async () => {
  await plugin?.kill();
  workspace?.dispose();
});

const LOST = /pool 'far' could not be started: .*holds no pool.*tries again/s;

/** Resolves when the plugin has started. */
async function ready(client: CsiClient): Promise<void> {
  for (;;) {
    const answer = client.identity.Probe({}, { deadlineMs: 10_000 });
    if ((await statusOf(answer)) === 'OK' && (await answer)['ready']?.value === true) return;
    await delay(50);
  }
}

/** Resolves when the log of the plugin has that message about the pool, however long that takes. */
async function logged(message: string): Promise<void> {
  while (countOf(message) === 0) await delay(100);
}

/** How often the plugin has logged that message about the pool 'far'. */
const countOf = (message: string): number =>
  logLines(plugin?.output ?? '').filter(
    (line) => line['pool'] === 'far' && String(line['msg']).startsWith(message),
  ).length;

test('while one pool is unavailable, the others are served and Probe is ready; it is taken up when it is back', async () => {
  const place = new Workspace('pools-away');
  workspace = place;
  const [near, far] = [
    makePoolFileSystem(place, 'xfs', 1024),
    makePoolFileSystem(place, 'btrfs', 1024),
  ];
  const options = { pools: `near=${near},far=${far}` };
  const client = new CsiClient(`unix://${place.path('plugin.sock')}`);
  const orchestrator = new Orchestrator(place, () => client);
  const make = (pool: string): Promise<HeldVolume> => {
    const spec = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };
    return orchestrator.create(`in ${pool}`, { ...spec, parameters: { pool } });
  };
  const start = async (): Promise<void> => {
    plugin = new PluginProcess(place, options);
    await ready(client);
  };

  await start();
  const contents = new FileContents();
  const [here, away] = [await make('near'), await make('far')];
  await contents.work(await orchestrator.bringUp(here), random);
  await plugin?.kill();
  execFileSync('umount', [far]);

  await start();
  assert.equal(countOf('the pool could not be started'), 1);
  await contents.work(here.targetPath, random);
  await orchestrator.takeDown(here);
  await contents.verify(await orchestrator.bringUp(here));
  await refused(orchestrator.bringUp(away), 'FAILED_PRECONDITION', LOST);
  await refused(orchestrator.delete(away), 'FAILED_PRECONDITION', LOST);
  const { entries } = await client.controller.ListVolumes({});
  const told = entries.find(({ volume }: Message) => volume.volume_id === away.id);
  assert.equal(told.status.volume_condition.abnormal, true);
  assert.match(told.status.volume_condition.message, /^PoolUnreachable/);

  const { backend_health } = await client.node.NodeGetStorageHealth({});
  assert.match(JSON.stringify(backend_health), /'far' could not be started/);

  const image = place.path('btrfs.img');
  execFileSync('mount', ['-o', 'loop', image, far]);
  await logged('the pool could be started and is served from now on');
  await client.identity.Probe({});
  assert.deepEqual(startReport(plugin?.output ?? '').differences, []);
  assert.equal(countOf('the pool could not be started'), 1, 'logged once, whatever the attempts');

  execFileSync('umount', [far]);
  await logged('the pool does not work any more');
  await refused(orchestrator.bringUp(away), 'FAILED_PRECONDITION', /'far' cannot be reached/);
  assert.deepEqual(await client.identity.Probe({}), { ready: { value: true } });
  execFileSync('mount', ['-o', 'loop', image, far]);
  await logged('the pool works again');
  assert.equal(countOf('the pool does not work any more'), 1);
  await orchestrator.bringUp(away);
  for (const volume of [here, away]) {
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
  client.close();
});

test('Probe fails while no pool works, and says why', async () => {
  const place = new Workspace('pools-none');
  const near = makePoolFileSystem(place, 'xfs', 512);
  const only = new PluginProcess(place, { pools: `near=${near}` });
  const client = new CsiClient(`unix://${place.path('plugin.sock')}`);
  try {
    await ready(client);
    execFileSync('umount', [near]);
    await probeFails(client);
    await refused(client.identity.Probe({}), 'FAILED_PRECONDITION', /'near' cannot be reached/);
    execFileSync('mount', ['-o', 'loop', place.path('xfs.img'), near]);
    assert.deepEqual(await client.identity.Probe({}), { ready: { value: true } });
  } finally {
    client.close();
    await only.kill();
    place.dispose();
  }
});

test('a pool that comes back with objects that the catalogue does not know stops every change', async () => {
  await plugin?.kill();
  const place = new Workspace('pools-strange');
  const [near, far] = [
    makePoolFileSystem(place, 'xfs', 512),
    makePoolFileSystem(place, 'btrfs', 512),
  ];
  const options = { pools: `near=${near},far=${far}` };
  const client = new CsiClient(`unix://${place.path('plugin.sock')}`);
  const orchestrator = new Orchestrator(place, () => client);
  try {
    plugin = new PluginProcess(place, options);
    await ready(client);
    await plugin.kill();
    const strange = `vol-${TEST_NODE_KEY}-00000000-0000-4000-8000-000000000000`;
    writeFileSync(`${far}/volumes/${strange}`, 'x');
    execFileSync('umount', [far]);
    plugin = new PluginProcess(place, options);
    await ready(client);
    const before = await orchestrator.create('before', { sizeBytes: 16 * MIB });
    execFileSync('mount', ['-o', 'loop', place.path('btrfs.img'), far]);
    await logged('the pool could be started and is served from now on');
    const refusal = /has lost rows.*in pool 'far'/;
    await refused(orchestrator.create('after'), 'FAILED_PRECONDITION', refusal);
    await refused(orchestrator.delete(before), 'FAILED_PRECONDITION', refusal);
    await orchestrator.bringUp(before);
    await orchestrator.takeDown(before);
  } finally {
    client.close();
    await plugin?.kill();
    place.dispose();
  }
});
