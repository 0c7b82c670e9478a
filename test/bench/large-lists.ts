/**
 * A node with 20,000 volumes and 50,000 snapshots: how long a start takes, what lists cost, and for how
 * long a list keeps all other calls waiting. Needs root.
 *
 *   node .test-build/test/bench/large-lists.js [--main FILE] [--volumes N] [--snapshots N]
 *
 * Objects are rows in the catalogue and sparse files in a pool on XFS, written directly. `--main` is the
 * program of another build, to compare with.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { packagePath } from '../../src/base/package-root.js';
import { SqliteConnection } from '../../src/database/connection.js';
import { CsiClient, type Message } from '../support/csi-client.js';
import { openCatalogueHere } from '../support/direct-database.js';
import { snapshotRecord, volumeRecord } from '../support/records.js';
import { makePoolFileSystem, Workspace } from '../support/workspace.js';

const { values } = parseArgs({
  options: {
    main: { type: 'string', default: packagePath('dist/main.js') },
    volumes: { type: 'string', default: '20000' },
    snapshots: { type: 'string', default: '50000' },
  },
});

interface Objects {
  volumeIds: string[];
  snapshotIds: string[];
}

/** Rows in the state directory and files in the pool. */
function build(state: string, pool: string): Objects {
  const poolId = '00000000-0000-4000-8000-000000000000';
  mkdirSync(state, { recursive: true });
  for (const name of ['volumes', 'snapshots', 'used']) mkdirSync(`${pool}/${name}`);
  writeFileSync(`${pool}/pool-id`, `${poolId}\n`);
  const catalogue = openCatalogueHere(`${state}/catalogue.sqlite`);
  catalogue.registerPool('main', poolId);
  writeFileSync(`${pool}/pool-owner`, `${catalogue.uuid()}\n`);
  catalogue.close();
  const volumes = Array.from({ length: Number(values.volumes) }, () => volumeRecord());
  const snapshots = Array.from({ length: Number(values.snapshots) }, (_, index) => {
    const volume = volumes[index % volumes.length];
    if (volume === undefined) throw new Error('snapshots need a volume');
    return snapshotRecord(volume);
  });
  const database = new SqliteConnection(`${state}/catalogue.sqlite`, 0);
  database.transaction(() => {
    for (const { volumeId, name, sizeBytes, capabilities } of volumes) {
      database.run(
        `INSERT INTO volumes (volume_id, name, pool, size_bytes, state, parameters, capabilities,
           fresh, created_ns) VALUES (?, ?, 'main', ?, 'ready', '{}', ?, 0, 1)`,
        ...[volumeId, name, sizeBytes, JSON.stringify(capabilities)],
      );
      sparseFile(`${pool}/volumes/${volumeId}`, sizeBytes);
      sparseFile(`${pool}/used/${volumeId}`, 0n);
    }
    for (const { snapshotId, name, volumeId, sizeBytes } of snapshots) {
      database.run(
        `INSERT INTO snapshots (snapshot_id, name, volume_id, pool, size_bytes, state,
           creation_time_ns, parameters, fresh) VALUES (?, ?, ?, 'main', ?, 'ready', 1, '{}', 0)`,
        ...[snapshotId, name, volumeId, sizeBytes],
      );
      sparseFile(`${pool}/snapshots/${snapshotId}`, sizeBytes);
    }
  });
  database.close();
  return {
    volumeIds: volumes.map(({ volumeId }) => volumeId),
    snapshotIds: snapshots.map(({ snapshotId }) => snapshotId),
  };
}

function sparseFile(path: string, sizeBytes: bigint): void {
  const fd = openSync(path, 'w', 0o600);
  ftruncateSync(fd, Number(sizeBytes));
  closeSync(fd);
}

async function started(workspace: Workspace, pool: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [values.main, 'serve'], {
    env: {
      PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
      CSI_ENDPOINT: `unix://${workspace.path('csi.sock')}`,
      BLOCKDELTA_STATE_DIR: workspace.path('state'),
      BLOCKDELTA_NODE_ID: 'bench',
      BLOCKDELTA_POOLS: `main=${pool}`,
    },
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  let log = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes('"msg":"ready"')) resolve();
    });
    child.once('exit', () => reject(new Error(`the plugin ended:\n${log}`)));
  });
  return child;
}

/** How long the work took, and the longest wait of another call meanwhile. */
async function timed(client: CsiClient, work: () => Promise<unknown>): Promise<string> {
  let isDone = false;
  let longest = 0;
  const other = (async () => {
    while (!isDone) {
      const begin = performance.now();
      await client.identity.GetPluginInfo({});
      longest = Math.max(longest, performance.now() - begin);
      await delay(2);
    }
  })();
  const begin = performance.now();
  // A client takes 4 MiB unless it was told otherwise; the answer was made all the same.
  const failure = await work().then(
    () => '',
    (thrown: Error) => ` (${thrown.message})`,
  );
  const ms = performance.now() - begin;
  isDone = true;
  await other;
  return `${ms.toFixed(0)} ms, another call waits ${longest.toFixed(0)} ms at most${failure}`;
}

async function pages(client: CsiClient, rpc: 'ListVolumes' | 'ListSnapshots'): Promise<void> {
  let token = '';
  do {
    const answer: Message = await client.controller[rpc]({
      max_entries: 500,
      starting_token: token,
    });
    token = String(answer['next_token']);
  } while (token !== '');
}

const workspace = new Workspace('large');
let child: ChildProcess | undefined;
try {
  const pool = makePoolFileSystem(workspace, 'xfs', 4096);
  const { volumeIds, snapshotIds } = build(workspace.path('state'), pool);
  const begin = performance.now();
  child = await started(workspace, pool);
  console.log(`start: ${(performance.now() - begin).toFixed(0)} ms`);
  const client = new CsiClient(`unix://${workspace.path('csi.sock')}`);
  const { controller } = client;
  const one = () => controller.ListSnapshots({ snapshot_id: snapshotIds[123] ?? '' });
  const rows: [string, () => Promise<unknown>][] = [
    ['first call', () => controller.ControllerGetCapabilities({})],
    ['one snapshot', one],
    ['one snapshot, 16 at once', () => Promise.all(Array.from({ length: 16 }, one))],
    ['one source', () => controller.ListSnapshots({ source_volume_id: volumeIds[5] ?? '' })],
    ['a page of 500 snapshots', () => controller.ListSnapshots({ max_entries: 500 })],
    ['all snapshots by pages of 500', () => pages(client, 'ListSnapshots')],
    ['all snapshots in one answer', () => controller.ListSnapshots({})],
    ['a page of 500 volumes', () => controller.ListVolumes({ max_entries: 500 })],
    ['all volumes by pages of 500', () => pages(client, 'ListVolumes')],
    ['all volumes in one answer', () => controller.ListVolumes({})],
    ['health of all volumes', () => controller.ControllerListVolumeHealth({})],
  ];
  for (const [name, work] of rows) console.log(`${name}: ${await timed(client, work)}`);
  client.close();
} finally {
  if (child?.exitCode === null) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  workspace.dispose();
}
