/**
 * Two calls at once on the node for one volume, for every pair of them that can conflict; and sixteen clients that
 * take many volumes through their whole lives. The races of the controller are in memory/races.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { after } from 'node:test';
import type { StatusName } from '../../../src/base/errors.js';
import { SqliteConnection } from '../../../src/driver/database/connection.js';
import { blockCapability, CsiClient, mountCapability } from '../../support/csi-client.js';
import { isNightly } from '../../support/nightly.js';
import { type HeldVolume, MIB, Orchestrator, untilSettled } from '../../support/orchestrator.js';
import { startReport } from '../../support/plugin-log.js';
import { assertRaced, statusOf } from '../../support/refusal.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';

const ROUNDS = isNightly ? 50 : 2;
const LIVES = isNightly ? 300 : 5;
const CLIENTS = 16;

const running = runPlugin('concurrency', {
  pools: { main: 'xfs' },
  poolSizeMiB: 8192,
  // As many as the plugin has by default.
  env: { BLOCKDELTA_SCAN_THREADS: '2', BLOCKDELTA_DEVICE_THREADS: '4' },
  prepare: () => {
    second = new CsiClient(running.plugin.endpoint);
    other = new Orchestrator(running.workspace, () => second);
  },
});
const { orchestrator } = running;
let second: CsiClient;
let other: Orchestrator;
after(() => second?.close());

interface Race {
  /** Published before; staged only, unless it is false. */
  isStaged: boolean;
  calls(volume: HeldVolume): readonly [() => Promise<unknown>, () => Promise<unknown>];
  /** The statuses of both calls that are right besides OK and ABORTED. */
  also?: readonly (readonly StatusName[])[];
  /** What the volume has in the end, where one thing alone is right. */
  left?: (volume: HeldVolume) => void | Promise<void>;
}

const another = ({ id }: HeldVolume): string => orchestrator.target(id, 'another');
const isStagedOnce = (): void => assert.equal(running.held().loops.length, 1);

const RACES: Readonly<Record<string, Race>> = {
  'two calls stage a volume once': {
    isStaged: false,
    calls: (volume) => [() => orchestrator.stage(volume), () => other.stage(volume)],
    left: isStagedOnce,
  },
  'staging and unstaging leave a volume staged or not': {
    isStaged: false,
    calls: (volume) => [() => orchestrator.stage(volume), () => other.unstage(volume)],
  },
  'two calls publish a volume once': {
    isStaged: true,
    calls: (volume) => [() => orchestrator.publish(volume), () => other.publish(volume)],
    left: ({ targetPath }) => assert.equal(running.held().mounts.filter((path) => path === targetPath).length, 1),
  },
  'publishing at two paths publishes a volume at one': {
    isStaged: true,
    calls: (volume) => [() => orchestrator.publish(volume), () => other.publish(volume, { target: another(volume) })],
    also: [['FAILED_PRECONDITION'], ['FAILED_PRECONDITION']],
    left: (volume) => {
      const targets = [volume.targetPath, another(volume)];
      assert.equal(running.held().mounts.filter((path) => targets.includes(path)).length, 1);
    },
  },
  'publishing and unpublishing leave a volume published or not': {
    isStaged: true,
    calls: (volume) => [() => orchestrator.publish(volume), () => other.unpublish(volume)],
  },
  'a volume is staged or deleted, and never staged without its file': {
    isStaged: false,
    calls: (volume) => [() => orchestrator.stage(volume), () => other.delete(volume)],
    also: [['NOT_FOUND']],
    // A deletion ends a staging that was there first.
    left: async ({ id }) => {
      if ((await orchestrator.volumeIds()).includes(id)) return;
      assert.deepEqual(running.held(), NOTHING);
    },
  },
};

for (const [title, { isStaged, calls, also = [], left }] of Object.entries(RACES)) {
  test(`at once, ${title}`, async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const capability = round % 2 === 0 ? blockCapability() : mountCapability('ext4');
      const spec = { capability, sizeBytes: 16 * MIB };
      const volume = await orchestrator.create(`volume ${round}`, spec);
      if (isStaged) await orchestrator.stage(volume);
      const [one, two] = calls(volume);
      const statuses = await Promise.all([statusOf(one()), statusOf(two())]);
      assertRaced(statuses, also, also.length > 1);
      await left?.(volume);
      await orchestrator.unpublish(volume, another(volume));
      await orchestrator.remove(volume);
      assert.deepEqual(running.held(), NOTHING);
      assert.deepEqual(await orchestrator.volumeIds(), []);
    }
  });
}

/** A raw volume, or one in four with a file system: used, snapshotted in use and not, expanded, deleted. */
async function live(orchestrator: Orchestrator, index: number): Promise<void> {
  const isFileSystem = index % 4 === 0;
  const sizeBytes = (isFileSystem ? 16 : 1) * MIB;
  const capability = isFileSystem ? mountCapability('ext4') : blockCapability();
  const name = `life ${index}`;
  const settled = untilSettled;
  const volume = await settled(() => orchestrator.create(name, { capability, sizeBytes }));
  const bringUp = async (): Promise<void> => {
    await settled(() => orchestrator.stage(volume));
    await settled(() => orchestrator.publish(volume));
  };
  const release = async (): Promise<void> => {
    await settled(() => orchestrator.unpublish(volume));
    await settled(() => orchestrator.unstage(volume));
  };
  await bringUp();
  const file = await open(isFileSystem ? join(volume.targetPath, 'file') : volume.targetPath, 'a+');
  await file.write(name);
  await file.sync();
  await file.close();
  const first = await settled(() => orchestrator.snapshot(volume, `in use ${name}`));
  await release();
  await settled(() => orchestrator.deleteSnapshot(first));
  const larger = await settled(() => orchestrator.expand(volume, 2 * sizeBytes));
  assert.equal(larger, 2 * sizeBytes);
  const second = await settled(() => orchestrator.snapshot(volume, name));
  await bringUp();
  await settled(() => orchestrator.nodeExpand(volume));
  await release();
  await settled(() => orchestrator.delete(volume));
  await settled(() => orchestrator.deleteSnapshot(second));
}

/** The tables that describe an object, if they have rows. */
function catalogueRows(): string[] {
  const file = running.workspace.path('plugin', 'catalogue.sqlite');
  const database = new SqliteConnection(file, 2000);
  try {
    const tables = database
      .all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .map(({ name }) => String(name))
      .filter((name) => !['catalogue', 'pools', 'commits'].includes(name));
    assert.ok(tables.length >= 6, `the tables are ${tables}`);
    return tables.filter((table) => database.get(`SELECT 1 FROM ${table}`) !== undefined);
  } finally {
    database.close();
  }
}

test(`${LIVES} lives of volumes with ${CLIENTS} clients at once all succeed, and leave nothing behind`, async () => {
  let next = 0;
  const clients = Array.from({ length: CLIENTS }, () => new CsiClient(running.plugin.endpoint));
  try {
    await Promise.all(
      clients.map(async (client) => {
        const orchestrator = new Orchestrator(running.workspace, () => client);
        while (next < LIVES) {
          next += 1;
          await live(orchestrator, next);
        }
      }),
    );
  } finally {
    for (const client of clients) client.close();
  }
  assert.deepEqual(running.held(), NOTHING);
  for (const kind of ['volumes', 'snapshots']) {
    assert.deepEqual(readdirSync(running.poolPath('main', kind)), []);
  }
  assert.deepEqual(await orchestrator.volumeIds(), []);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  await running.restart();
  const { finished, undone, differences } = startReport(running.plugin.log);
  assert.deepEqual([finished, undone, differences], [[], [], []]);
  await running.plugin.stop();
  assert.deepEqual(catalogueRows(), [], 'rows left in the catalogue');
});
