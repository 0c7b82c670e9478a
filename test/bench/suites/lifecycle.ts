/**
 * Suite lifecycle: what each call of a volume's life costs, through the socket of the plugin as a process, with an
 * empty catalogue and with one of many objects, its start and its Probe.
 */

import type { MeasuredDriver } from '../../../src/tools/bench/measured-driver.js';
import { BLOCK, Volumes } from '../../../src/tools/bench/measured-volumes.js';
import { mountRow } from '../../../src/tools/bench/mount-row.js';
import { operationRows } from '../../../src/tools/bench/operation-rows.js';
import { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import { makePool, requireRoot } from '../../../src/tools/bench/pool.js';
import type { Curve, CurveLine, Row } from '../../../src/tools/bench/row.js';
import type { Settings, Suite } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import type { CsiDriver } from '../../../src/tools/client/csi-driver.js';
import { type CatalogueSize, fillCatalogue } from '../lifecycle/full-catalogue.js';
import { addNeighbours, NEIGHBOURS } from '../lifecycle/neighbours.js';
import { probeRow } from '../lifecycle/probe-row.js';
import { restartRow } from '../lifecycle/restart-row.js';
import { type StoppedPlugin, startRow } from '../lifecycle/start-row.js';

const POOL = 'bench';
const NODE_ID = 'bench';
const CATALOGUES = {
  full: { volumes: 10_000, snapshots: 30_000 },
  tiny: { volumes: 20, snapshots: 60 },
} as const;
const CURVE_VOLUME_BYTES = 2 ** 24;
const LIST_PAGE = 1000;
/** Volumes in the catalogue; each has three snapshots. */
const CURVE = { full: [100, 1000, 5000, 20_000], tiny: [5, 20] } as const;

export const suite: Suite = {
  name: 'lifecycle',
  describes: 'the calls of a volume at 1, 4 and 16 clients, with a full catalogue (root)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    const workspace = Workspace.make(settings, 'lifecycle');
    const empty = await stoppedPlugin(settings, workspace, 'empty catalogue', 'plugin');
    const full = await fullPlugin(settings, workspace);
    const started = await startRow(settings, full, empty);
    const catalogueOf = async ({ label, start }: StoppedPlugin) => {
      const { driver } = await start();
      return { label, workspace, volumes: new Volumes(settings, driver, workspace) };
    };
    const restarts = await stoppedPlugin(settings, workspace, 'restarted', 'restarted');
    const restarted = await restartRow(settings, workspace, restarts);
    const small = await catalogueOf(empty);
    const pool = workspace.path('plugin-pool');
    return [
      started,
      restarted,
      await mountRow(settings, small, pool),
      await probeRow(settings, workspace, small.volumes.driver.connection),
      ...(await operationRows(settings, [await catalogueOf(full), small])),
      await neighboursRow(settings, small, pool),
    ];
  },

  async curves(settings: Settings): Promise<Curve[]> {
    requireRoot();
    return [await byCatalogue(settings)];
  },
};

/** The last row of the suite: the neighbours stay. */
async function neighboursRow(
  settings: Settings,
  small: Pick<MeasuredDriver, 'workspace' | 'volumes'>,
  pool: string,
): Promise<Row> {
  const { loops, mounts } = NEIGHBOURS[settings.size];
  settings.say(`making ${loops} loop devices and ${mounts} mounts`);
  await addNeighbours(settings, small.workspace);
  const words = ` on a node with ${loops} loop devices and ${mounts} mounts of others`;
  return mountRow(settings, small, pool, { name: 'lifecycle-mount-neighbours', words });
}

async function byCatalogue(settings: Settings): Promise<Curve> {
  const start: CurveLine = { label: 'start', points: [] };
  const create: CurveLine = { label: 'CreateVolume', points: [] };
  const list: CurveLine = { label: 'ListSnapshots, all pages', points: [] };
  for (const volumes of CURVE[settings.size]) {
    const workspace = Workspace.make(settings, `lifecycle-${volumes}`);
    const plugin = await fullPlugin(settings, workspace, { volumes, snapshots: 3 * volumes });
    for (const line of [start, create, list]) line.points.push({ x: volumes, rounds: [] });
    const note = (line: CurveLine, ms: number) => line.points.at(-1)?.rounds.push(ms);
    for (let round = 0; round < settings.rounds; round += 1) {
      const running = await timed(
        () => plugin.start(),
        (ms) => note(start, ms),
      );
      const objects = new Volumes(settings, running.driver, workspace);
      await objects.deleteVolume(await objects.create(BLOCK, CURVE_VOLUME_BYTES));
      const made = await timed(
        () => objects.create(BLOCK, CURVE_VOLUME_BYTES),
        (ms) => note(create, ms),
      );
      await objects.deleteVolume(made);
      await timed(
        () => listSnapshots(running.driver),
        (ms) => note(list, ms),
      );
      await running.stop();
    }
  }
  return {
    name: 'lifecycle-catalogue',
    title: 'By volumes in the catalogue, three snapshots each',
    x: 'volumes',
    y: 'time (ms)',
    lines: [start, create, list],
  };
}

async function timed<T>(work: () => Promise<T>, note: (ms: number) => void): Promise<T> {
  const started = performance.now();
  const result = await work();
  note(performance.now() - started);
  return result;
}

async function listSnapshots(driver: CsiDriver): Promise<void> {
  let token: unknown = '';
  do {
    const request = { max_entries: LIST_PAGE, starting_token: token };
    token = (await driver.call('ListSnapshots', request))['next_token'];
  } while (token !== '' && token !== undefined);
}

async function fullPlugin(
  settings: Settings,
  workspace: Workspace,
  size: CatalogueSize = CATALOGUES[settings.size],
): Promise<StoppedPlugin> {
  const label = `${size.volumes} volumes and ${size.snapshots} snapshots`;
  settings.say(`making a catalogue of ${label}`);
  const plugin = await stoppedPlugin(settings, workspace, label, 'full');
  fillCatalogue(workspace.path('full'), workspace.path('full-pool'), POOL, NODE_ID, size);
  return plugin;
}

/** On a pool of its own, `<name>-pool` in the workspace. */
async function stoppedPlugin(
  settings: Settings,
  workspace: Workspace,
  label: string,
  name: string,
): Promise<StoppedPlugin> {
  const pool = await makePool(workspace, 'xfs', `${name}-pool`);
  const env = { BLOCKDELTA_POOLS: `${POOL}=${pool}` };
  return { label, start: () => PluginProcess.start(settings, workspace, { name, env }) };
}
