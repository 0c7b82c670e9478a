/**
 * Suite lifecycle: what each call of a volume's life costs, through the socket of the plugin as a process, with an
 * empty catalogue and with one of many objects; or of the driver at --endpoint, as it is.
 */

import { CsiConnection } from '../csi-connection.js';
import { type CatalogueSize, fillCatalogue } from '../lifecycle/full-catalogue.js';
import { mountRow } from '../lifecycle/mount-row.js';
import { type Catalogue, operationRows } from '../lifecycle/operation-rows.js';
import { probeRow } from '../lifecycle/probe-row.js';
import { type StoppedPlugin, startRow } from '../lifecycle/start-row.js';
import { PluginProcess } from '../plugin-process.js';
import type { Curve, CurveLine, Row } from '../row.js';
import { makePool, requireRoot } from '../storage/pool.js';
import { BLOCK, Volumes } from '../storage/volumes.js';
import type { Settings, Suite } from '../suite.js';
import { Workspace } from '../workspace.js';

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
  describes:
    'the calls of a volume at 1, 4 and 16 clients, with a full catalogue; of the driver at --endpoint (root)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    const workspace = Workspace.make(settings, 'lifecycle');
    if (settings.endpoint !== null) {
      const connection = new CsiConnection(settings.endpoint);
      settings.cleanup.defer(() => connection.close());
      return [
        await mountRow(settings, workspace, connection, workspace.directory),
        await probeRow(settings, workspace, connection),
        ...(await operationRows(settings, workspace, [{ label: 'driver', connection }])),
      ];
    }
    const empty = await stoppedPlugin(settings, workspace, 'empty catalogue', 'plugin');
    const full = await fullPlugin(settings, workspace);
    const started = await startRow(settings, full, empty);
    const { connection } = await empty.start();
    const rows = [
      started,
      await mountRow(settings, workspace, connection, workspace.path('plugin-pool')),
      await probeRow(settings, workspace, connection),
    ];
    const catalogues: [Catalogue, Catalogue] = [
      { label: full.label, connection: (await full.start()).connection },
      { label: empty.label, connection },
    ];
    return [...rows, ...(await operationRows(settings, workspace, catalogues))];
  },

  async curves(settings: Settings): Promise<Curve[]> {
    requireRoot();
    return settings.endpoint === null ? [await byCatalogue(settings)] : [];
  },
};

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
      const objects = new Volumes(settings, running.connection, workspace);
      await objects.deleteVolume(await objects.create(BLOCK, CURVE_VOLUME_BYTES));
      const made = await timed(
        () => objects.create(BLOCK, CURVE_VOLUME_BYTES),
        (ms) => note(create, ms),
      );
      await objects.deleteVolume(made);
      await timed(
        () => listSnapshots(running.connection),
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

async function listSnapshots(connection: CsiConnection): Promise<void> {
  let token: unknown = '';
  do {
    const request = { max_entries: LIST_PAGE, starting_token: token };
    token = (await connection.call('Controller', 'ListSnapshots', request))['next_token'];
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
