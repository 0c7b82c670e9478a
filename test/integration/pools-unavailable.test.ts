/** One of several pools is unavailable: the others are served, and its volumes are not treated as deleted. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FileContents } from '../support/contents.js';
import { CsiClient, type Message, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { PluginProcess } from '../support/plugin-process.js';
import { seededRandom } from '../support/random.js';
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

const LOST = /pool 'far' could not be started: .*holds no pool.*restart the plugin/s;

/** The plugin answers Probe for good or ill: it has started. */
async function probed(client: CsiClient): Promise<string> {
  for (;;) {
    const answer = client.identity.Probe({}, { deadlineMs: 1000 });
    const status = await statusOf(answer);
    if (status === 'FAILED_PRECONDITION') return status;
    if (status === 'OK' && (await answer)['ready']?.value === true) return status;
    await delay(50);
  }
}

test('while one pool is unavailable at a start, the volumes of the other can be used and released', async () => {
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
  const start = async (): Promise<string> => {
    plugin = new PluginProcess(place, options);
    return probed(client);
  };

  assert.equal(await start(), 'OK');
  const contents = new FileContents();
  const [here, away] = [await make('near'), await make('far')];
  await contents.work(await orchestrator.bringUp(here), random);
  await plugin?.kill();
  execFileSync('umount', [far]);

  assert.equal(await start(), 'FAILED_PRECONDITION');
  await refused(client.identity.Probe({}), 'FAILED_PRECONDITION', LOST);
  await contents.work(here.targetPath, random);
  await orchestrator.takeDown(here);
  await contents.verify(await orchestrator.bringUp(here));
  await refused(orchestrator.bringUp(away), 'FAILED_PRECONDITION', LOST);
  await refused(orchestrator.delete(away), 'FAILED_PRECONDITION', LOST);
  const { entries } = await client.controller.ListVolumes({});
  const told = entries.find(({ volume }: Message) => volume.volume_id === away.id);
  assert.equal(told.status.volume_condition.abnormal, true);
  assert.match(told.status.volume_condition.message, /^PoolUnreachable/);

  await plugin?.kill();
  execFileSync('mount', ['-o', 'loop', place.path('btrfs.img'), far]);
  assert.equal(await start(), 'OK');
  assert.deepEqual(startReport(plugin?.output ?? '').differences, []);
  await orchestrator.bringUp(away);
  for (const volume of [here, away]) {
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
  client.close();
});
