/**
 * Sixteen concurrent clients take many volumes through their whole lifecycle: every call
 * eventually succeeds, and nothing is left behind.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { after } from 'node:test';
import { SqliteConnection } from '../../src/database/connection.js';
import { blockCapability, CsiClient, mountCapability } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { type HeldVolume, MIB, Orchestrator, untilSettled } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const VOLUMES = isNightly ? 300 : 48;
const CLIENTS = 16;
/** One in this many volumes has a file system, which takes several processes to create and check. */
const EVERY_FILE_SYSTEM = 4;

const running = runPlugin('contention', { pools: { main: 'xfs' }, poolSizeMiB: 8192 });
const clients: CsiClient[] = [];
after(() => {
  for (const client of clients) client.close();
});

/** Number of answers by call and status. */
const statuses = new Map<string, number>();

/** Retries ABORTED; every other error fails the test. */
async function settled<T>(label: string, call: () => Promise<T>): Promise<T> {
  return untilSettled(async () => {
    const attempt = call();
    const key = `${label} ${await statusOf(attempt)}`;
    statuses.set(key, (statuses.get(key) ?? 0) + 1);
    return attempt;
  });
}

async function live(orchestrator: Orchestrator, index: number): Promise<void> {
  const isFileSystem = index % EVERY_FILE_SYSTEM === 0;
  const size = (isFileSystem ? 16 : 1) * MIB;
  const capability = isFileSystem ? mountCapability('ext4') : blockCapability();
  const spec = { capability, sizeBytes: size };
  const volume = await settled('CreateVolume', () => orchestrator.create(`life ${index}`, spec));
  await use(orchestrator, volume, `life ${index}`);
  const larger = await settled('ControllerExpandVolume', () =>
    orchestrator.expand(volume, 2 * size),
  );
  assert.equal(larger, 2 * size);
  const snapshot = () => orchestrator.snapshot(volume, `snapshot ${index}`);
  const snapshotId = await settled('CreateSnapshot', snapshot);
  // A file system that cannot grow while in use has grown once it is published again.
  await settled('NodeStageVolume', () => orchestrator.stage(volume));
  await settled('NodePublishVolume', () => orchestrator.publish(volume));
  await settled('NodeExpandVolume', () => orchestrator.nodeExpand(volume));
  await release(orchestrator, volume);
  await settled('DeleteVolume', () => orchestrator.delete(volume));
  await settled('DeleteSnapshot', () => orchestrator.deleteSnapshot(snapshotId));
}

/** Stages, publishes and writes to the volume, takes a snapshot in use, unpublishes and unstages it. */
async function use(orchestrator: Orchestrator, volume: HeldVolume, text: string): Promise<void> {
  await settled('NodeStageVolume', () => orchestrator.stage(volume));
  await settled('NodePublishVolume', () => orchestrator.publish(volume));
  const isBlock = 'block' in volume.capability;
  const file = await open(isBlock ? volume.targetPath : join(volume.targetPath, 'file'), 'a+');
  await file.write(text);
  await file.sync();
  await file.close();
  const name = `in use ${volume.name}`;
  const snapshotId = await settled('CreateSnapshot', () => orchestrator.snapshot(volume, name));
  await release(orchestrator, volume);
  await settled('DeleteSnapshot', () => orchestrator.deleteSnapshot(snapshotId));
}

async function release(orchestrator: Orchestrator, volume: HeldVolume): Promise<void> {
  await settled('NodeUnpublishVolume', () => orchestrator.unpublish(volume));
  await settled('NodeUnstageVolume', () => orchestrator.unstage(volume));
}

/** Row counts of every table that describes an object. */
function catalogueRows(file: string): Record<string, number> {
  const database = new SqliteConnection(file, 2000);
  try {
    const tables = database
      .all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .map(({ name }) => String(name))
      .filter((name) => !['catalogue', 'pools'].includes(name));
    assert.ok(tables.length >= 6, `the tables are ${tables}`);
    const count = (table: string) =>
      Number(database.get(`SELECT count(*) AS held FROM ${table}`)?.['held']);
    return Object.fromEntries(tables.map((table) => [table, count(table)]));
  } finally {
    database.close();
  }
}

test(`${VOLUMES} volumes pass through their lifecycle with ${CLIENTS} concurrent clients, and nothing stays behind`, async () => {
  const { workspace, plugin } = running;
  const { directory } = workspace;
  const own = { mounts: mountsBelow(directory), loops: loopsBelow(directory) };
  let next = 0;
  const begin = performance.now();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const client = new CsiClient(plugin.endpoint);
      clients.push(client);
      const orchestrator = new Orchestrator(workspace, () => client);
      while (next < VOLUMES) {
        next += 1;
        await live(orchestrator, next);
      }
    }),
  );
  const seconds = (performance.now() - begin) / 1000;
  console.log(`# ${VOLUMES} lives in ${seconds.toFixed(1)} s`);
  console.log(`# ${[...statuses].map(([key, count]) => `${key}: ${count}`).join(', ')}`);
  for (const key of statuses.keys()) assert.match(key, / (OK|ABORTED)$/);

  assert.deepEqual(mountsBelow(directory), own.mounts);
  assert.deepEqual(loopsBelow(directory), own.loops);
  for (const kind of ['volumes', 'snapshots']) {
    assert.deepEqual(readdirSync(running.poolPath('main', kind)), []);
  }
  assert.deepEqual(await running.orchestrator.volumeIds(), []);
  assert.deepEqual(await running.orchestrator.snapshotIds(), []);
  await running.restart();
  const { finished, undone, differences } = startReport(running.plugin.log);
  assert.deepEqual([finished, undone, differences], [[], [], []]);
  await running.plugin.stop();
  const rows = catalogueRows(workspace.path('plugin', 'catalogue.sqlite'));
  assert.deepEqual(
    Object.entries(rows).filter(([, count]) => count > 0),
    [],
    'rows left in the catalogue',
  );
});
