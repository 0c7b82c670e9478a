/**
 * Suite lifecycle: what each call of a volume's life costs, through the socket of the plugin as a process, with an
 * empty catalogue and with one of many objects; or of the driver at --endpoint, as it is.
 */

import { CsiConnection } from '../csi-connection.js';
import { fillCatalogue } from '../lifecycle/full-catalogue.js';
import { mountRow } from '../lifecycle/mount-row.js';
import { type Catalogue, operationRows } from '../lifecycle/operation-rows.js';
import { probeRow } from '../lifecycle/probe-row.js';
import { type StoppedPlugin, startRow } from '../lifecycle/start-row.js';
import { PluginProcess } from '../plugin-process.js';
import type { Row } from '../row.js';
import { makePool, requireRoot } from '../storage/pool.js';
import type { Settings, Suite } from '../suite.js';
import { Workspace } from '../workspace.js';

const POOL = 'bench';
const NODE_ID = 'bench';
const CATALOGUES = {
  full: { volumes: 10_000, snapshots: 30_000 },
  tiny: { volumes: 20, snapshots: 60 },
} as const;

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
};

async function fullPlugin(settings: Settings, workspace: Workspace): Promise<StoppedPlugin> {
  const size = CATALOGUES[settings.size];
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
