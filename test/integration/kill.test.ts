/**
 * kill -9 of the plugin at random moments of every changing call and of its start. Afterwards the
 * repeated call succeeds, nothing is lost, and nothing is left behind.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { after } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { KillScenarios, type Resident, VOLUME_KINDS } from '../support/kill-scenarios.js';
import { KillablePlugin, passed } from '../support/killable-plugin.js';
import { isNightly } from '../support/nightly.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin, type PluginOptions } from '../support/plugin.js';
import { startReport } from '../support/plugin-log.js';
import { PluginProcess } from '../support/plugin-process.js';
import { type Random, seededRandom } from '../support/random.js';
import { test } from '../support/running-plugin.js';
import { loopsBelow, makePoolFileSystem, mountsBelow, Workspace } from '../support/workspace.js';

const KILLS = { xfs: isNightly ? 300 : 64, embedded: isNightly ? 60 : 12 };
/** Group snapshots in each round of lifecycles. */
const GROUPS = 3;
const START_ROUNDS = isNightly ? 25 : 5;

const workspaces: Workspace[] = [];
const ends: (() => Promise<void>)[] = [];

function newWorkspace(label: string): Workspace {
  const workspace = new Workspace(label);
  workspaces.push(workspace);
  return workspace;
}

after(async () => {
  for (const end of ends) await end();
  for (const workspace of workspaces) workspace.dispose();
});

test('a kill during any call loses nothing in a pool on XFS, and the call can be repeated', async () => {
  const workspace = newWorkspace('kill');
  const poolPath = makePoolFileSystem(workspace, 'xfs', 4096);
  const own = { mounts: mountsBelow(workspace.directory), loops: loopsBelow(workspace.directory) };
  const env = { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' };
  const options = { pools: `main=${poolPath}`, env };
  await killAround(workspace, { options, poolPath, kills: KILLS.xfs });
  assert.deepEqual(mountsBelow(workspace.directory), own.mounts);
  assert.deepEqual(loopsBelow(workspace.directory), own.loops);
  const names = ['pool-id', 'pool-owner', 'snapshots', 'used', 'volumes'];
  const found = readdirSync(poolPath).sort();
  // They are made when they are needed first.
  const optional = ['bases', 'lists'];
  assert.deepEqual(
    found.filter((name) => !optional.includes(name)),
    names,
  );
  for (const name of optional.filter((each) => found.includes(each))) {
    assert.deepEqual(readdirSync(join(poolPath, name)), [], `left in ${name}`);
  }
});

test('a kill during any call loses nothing in the embedded pool, and the call can be repeated', async () => {
  const workspace = newWorkspace('kill-embedded');
  const poolPath = workspace.path('plugin', 'pools', 'default', 'mount');
  await killAround(workspace, { options: {}, poolPath, kills: KILLS.embedded });
  assert.deepEqual(mountsBelow(workspace.directory), []);
  assert.deepEqual(loopsBelow(workspace.directory), []);
});

interface Round {
  options: PluginOptions;
  poolPath: string;
  kills: number;
}

/** The plugin of the first test, whose measurements the second reuses. */
let measured: KillablePlugin | undefined;

/** Kills often enough, takes everything down, and checks what is left. */
async function killAround(workspace: Workspace, round: Round): Promise<void> {
  const random = seededRandom('kill');
  const isFirst = measured === undefined;
  const plugin = new KillablePlugin(workspace, round.options, random, measured);
  measured = plugin;
  ends.push(() => plugin.end());
  await plugin.start();
  const publishes = round.options.env?.['BLOCKDELTA_CONTROLLER_PUBLISH'] === 'on';
  const scenarios = new KillScenarios(workspace, plugin, random, round.poolPath, publishes);
  const residents: Resident[] = [];
  for (const kind of VOLUME_KINDS) residents.push(await scenarios.settle(kind));
  for (const resident of residents) await scenarios.cut(resident);
  if (isFirst) {
    for (const life of livesOf(scenarios, residents, random)) await life();
  }
  scenarios.killing = true;
  while (plugin.kills < round.kills) {
    for (const life of shuffled(livesOf(scenarios, residents, random), random)) {
      if (plugin.kills < round.kills) await life();
    }
  }
  scenarios.killing = false;
  for (const resident of residents) scenarios.checkSnapshots(resident);
  await scenarios.disband(residents);
  for (const resident of residents) await scenarios.leave(resident);
  console.log(`${plugin.summary()}\n#   ${scenarios.frozen} kills left a file system frozen`);
  await assertNothingToReport(plugin, workspace, round);
}

function livesOf(
  scenarios: KillScenarios,
  residents: readonly Resident[],
  random: Random,
): (() => Promise<void>)[] {
  return [
    ...residents.flatMap((resident) => [
      () => scenarios.cut(resident),
      () => scenarios.cut(resident),
      () => scenarios.live(resident.kind, { snapshot: random.pick(resident.snapshots) }),
      () => scenarios.live(resident.kind, { resident }),
      () => scenarios.live(resident.kind, 'nowhere'),
    ]),
    ...Array.from({ length: GROUPS }, () => () => scenarios.takeGroup(residents)),
  ];
}

function shuffled<T>(items: T[], random: Random): T[] {
  const rest = [...items];
  return items.map(() => rest.splice(random.below(rest.length), 1)[0] as T);
}

async function assertNothingToReport(
  plugin: KillablePlugin,
  workspace: Workspace,
  { options, poolPath }: Round,
): Promise<void> {
  const orchestrator = new Orchestrator(workspace, () => plugin.client);
  assert.deepEqual(await orchestrator.volumeIds(), []);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  await plugin.stop();
  const last = await Plugin.start(workspace, options);
  ends.push(() => last.kill());
  const { finished, undone, differences } = startReport(last.log);
  assert.deepEqual(
    { finished, undone, differences },
    { finished: [], undone: [], differences: [] },
  );
  for (const kind of ['volumes', 'snapshots', 'used']) {
    assert.deepEqual(readdirSync(join(poolPath, kind)), []);
  }
  assert.equal(await last.stop(), 0);
}

test('after a kill while the embedded pool is created, the next start succeeds', async () => {
  const workspace = newWorkspace('kill-start');
  const random = seededRandom('kill while starting');
  const env = { BLOCKDELTA_EMBEDDED_POOL_SIZE: '1Gi' };
  const begin = performance.now();
  await startAndUse(workspace, { name: 'measured', env });
  const durationMs = performance.now() - begin;
  const found = { nothing: 0, unfinished: 0, finished: 0 };
  for (let round = 0; round < START_ROUNDS; round += 1) {
    const options = { name: `round-${round}`, env };
    const image = workspace.path(options.name, 'pools', 'default', 'pool.img');
    for (let kills = 0; kills < 3; kills += 1) {
      const started = new PluginProcess(workspace, options);
      ends.push(() => started.kill());
      // The first kill at any moment, the others while the image is created.
      if (kills === 0) await passed(performance.now() + random.unit() * durationMs);
      else await imageBegun(image, random);
      await started.kill();
      if (existsSync(image)) found.finished += 1;
      else found[existsSync(`${image}.new`) ? 'unfinished' : 'nothing'] += 1;
    }
    await startAndUse(workspace, options);
  }
  console.log(`# kills while starting found the pool image: ${JSON.stringify(found)}`);
});

/** Resolves at a moment while the image is created, or soon if it exists already. */
async function imageBegun(image: string, random: Random): Promise<void> {
  const isThere = existsSync(image);
  while (!existsSync(`${image}.new`) && !existsSync(image)) await setImmediate();
  await passed(performance.now() + random.unit() * (isThere ? 600 : 25));
}

async function startAndUse(workspace: Workspace, options: PluginOptions): Promise<void> {
  const plugin = await Plugin.start(workspace, options);
  ends.push(() => plugin.kill());
  assert.deepEqual(startReport(plugin.log).differences, []);
  const orchestrator = new Orchestrator(workspace, () => plugin.client);
  const volume = await orchestrator.create('used', { sizeBytes: MIB });
  await orchestrator.bringUp(volume);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
  assert.equal(await plugin.stop(), 0);
  assert.deepEqual(mountsBelow(workspace.directory), []);
  assert.deepEqual(loopsBelow(workspace.directory), []);
}
