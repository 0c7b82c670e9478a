/**
 * Suite lifecycle: what each call of a volume's life costs, through the socket of the plugin as a process, with an
 * empty catalogue and with one of many objects; or of the driver at --endpoint, as it is.
 */

import { CsiConnection } from '../csi-connection.js';
import { fillCatalogue } from '../lifecycle/full-catalogue.js';
import { mountRow } from '../lifecycle/mount-row.js';
import { type Catalogue, operationRows } from '../lifecycle/operation-rows.js';
import { probeRow } from '../lifecycle/probe-row.js';
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
    const pool = await makePool(workspace, 'xfs');
    const plugin = await PluginProcess.start(settings, workspace, {
      env: { BLOCKDELTA_POOLS: `${POOL}=${pool}` },
    });
    const { connection } = plugin;
    const rows = [
      await mountRow(settings, workspace, connection, workspace.path('xfs')),
      await probeRow(settings, workspace, connection),
    ];
    const full = await startFull(settings, workspace);
    const empty = { label: 'empty catalogue', connection };
    return [...rows, ...(await operationRows(settings, workspace, [full, empty]))];
  },
};

async function startFull(settings: Settings, workspace: Workspace): Promise<Catalogue> {
  const size = CATALOGUES[settings.size];
  const label = `${size.volumes} volumes and ${size.snapshots} snapshots`;
  settings.say(`making a catalogue of ${label}`);
  const name = 'full';
  const pool = await makePool(workspace, 'xfs', 'full-pool');
  fillCatalogue(workspace.path(name), pool, POOL, NODE_ID, size);
  const { connection } = await PluginProcess.start(settings, workspace, {
    name,
    env: { BLOCKDELTA_POOLS: `${POOL}=${pool}` },
  });
  return { label, connection };
}
