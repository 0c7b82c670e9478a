/**
 * `blockdelta backup` beside drivers that share nothing with the plugin but the CSI definition: with few
 * capabilities, with lists of other forms, and with lists that must not be used.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { after, type TestContext } from 'node:test';
import type { Deviation } from '../../conformance/fake/defect.js';
import { FakeDriver } from '../../conformance/fake/driver.js';
import { BackedUpVolume, RAW } from '../../support/backed-up-volume.js';
import { assertSame, backedUp, runBackup } from '../../support/backups.js';
import { runCommand } from '../../support/command.js';
import { CsiClient } from '../../support/csi-client.js';
import { isNightly } from '../../support/nightly.js';
import { MIB, Orchestrator } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { test } from '../../support/running-plugin.js';
import { Workspace } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

const workspace = new Workspace('backup-foreign');
after(() => workspace.dispose());
const random = seededRandom('backup-foreign');

let started = 0;
/** A driver in a directory of its own. */
async function start(t: TestContext, deviation: Deviation) {
  started += 1;
  const directory = String(started);
  const path = (...names: string[]): string => workspace.path(directory, ...names);
  const driver = await FakeDriver.start(path(), deviation);
  const { socketPath } = driver;
  const client = new CsiClient(`unix://${socketPath}`);
  t.after(async () => {
    client.close();
    await driver.stop();
  });
  return { client, socketPath, path, orchestrator: new Orchestrator({ path }, () => client) };
}

async function foreign(t: TestContext, deviation: Deviation) {
  const { client, socketPath, path, orchestrator } = await start(t, deviation);
  const volume = await orchestrator.create('volume', { sizeBytes: 8 * MIB });
  if (deviation.without?.includes('STAGE_UNSTAGE_VOLUME')) {
    mkdirSync(dirname(volume.targetPath), { recursive: true });
    await client.node.NodePublishVolume({
      volume_id: volume.id,
      target_path: volume.targetPath,
      volume_capability: volume.capability,
    });
  } else {
    await orchestrator.bringUp(volume);
  }
  const temporary = path('t');
  mkdirSync(temporary);
  const place = { endpoint: `unix://${socketPath}`, directory: path('b'), temporary };
  return { orchestrator, volume, place };
}

type Foreign = Awaited<ReturnType<typeof foreign>>;

/** Random changes and a snapshot of them. */
async function change({ orchestrator, volume }: Foreign, name: string): Promise<string> {
  for (let n = 0; n < 8; n += 1) {
    const offset = random.below(8 * MIB - 8192);
    writeAt(volume.targetPath, offset, random.bytes(1 + random.below(8192)));
  }
  writeAt(volume.targetPath, random.below(2047) * 4096, Buffer.alloc(4096));
  return orchestrator.snapshot(volume, name);
}

const DRIVERS: Readonly<Record<string, Deviation>> = {
  'ranges of any length': {},
  'blocks of one length, entries clipped': { metadataType: 'FIXED_LENGTH', clipped: true },
  'no GetSnapshot': { without: ['GET_SNAPSHOT'] },
};
for (const [title, deviation] of Object.entries(DRIVERS)) {
  if (!isNightly && deviation.clipped !== true) continue;
  test(`backups of a driver with ${title} hold what the volume held`, async (t) => {
    const volume = await BackedUpVolume.begin({
      ...(await start(t, deviation)),
      random: seededRandom(`backups-${title}`),
      directory: workspace.path(`h${started}`),
      use: RAW,
      name: 'foreign',
      sizeBytes: 4 * MIB,
      growthBytes: MIB,
    });
    await volume.live(isNightly ? 30 : 5);
    console.log(`# ${volume}`);
    assert.ok(volume.incrementalBackups > 0, 'some backups are incremental');
    await volume.check();
    await volume.restore(4);
    await volume.end();
  });
}

const LACKING: Readonly<Record<string, string[]>> = {
  'no ListSnapshots': ['LIST_SNAPSHOTS'],
  'no staging': ['STAGE_UNSTAGE_VOLUME'],
  'no call that describes a snapshot, which needs --volume': ['LIST_SNAPSHOTS', 'GET_SNAPSHOT'],
};

for (const [title, without] of Object.entries(LACKING)) {
  // The last one lacks what the first one does.
  if (!isNightly && title === 'no ListSnapshots') continue;
  test(`a driver with ${title} gets a full backup and an incremental one`, async (t) => {
    const driver = await foreign(t, { without });
    const { volume, place } = driver;
    const [first, second] = [await change(driver, 'one'), await change(driver, 'two')];
    const more: string[] = [];
    if (without.length > 1) {
      const { code, stderr } = await runBackup(t, place, first);
      assert.equal(code, 1);
      assert.match(stderr, /--volume/);
      more.push('--volume', volume.id);
    }
    assert.equal((await backedUp(t, place, first, ...more)).base_snapshot_id, null);
    const result = await backedUp(t, place, second, ...more);
    assert.equal(result.base_snapshot_id, first, result.reason ?? '');
    await assertSame(volume.targetPath, result.image);
  });
}

test('every backup of a driver without lists is full and copies everything', async (t) => {
  const driver = await foreign(t, { without: ['SNAPSHOT_METADATA_SERVICE'] });
  for (const name of ['one', 'two']) {
    const result = await backedUp(t, driver.place, await change(driver, name));
    assert.equal(result.method, 'full');
    assert.equal(result.range_bytes, String(8 * MIB));
    assert.match(result.reason ?? '', /does not list the allocated ranges/);
    await assertSame(driver.volume.targetPath, result.image);
  }
});

for (const [method, without] of [
  ['delta', []],
  ['full', ['SNAPSHOT_METADATA_SERVICE']],
] as const) {
  test(`a driver without marks is restored in place when that is accepted, and writes its ${method}`, async (t) => {
    const driver = await foreign(t, { without: [...without] });
    const { orchestrator, volume, place } = driver;
    const snapshot = await change(driver, 'one');
    await backedUp(t, place, snapshot);
    const bytes = readFileSync(volume.targetPath);
    await change(driver, 'two');
    const changed = readFileSync(volume.targetPath);
    await orchestrator.takeDown(volume);
    const restore = (...more: string[]) => {
      const args = ['restore', place.directory, '--snapshot', snapshot, '--in-place', '--json', ...more];
      return runCommand(t, args, { CSI_ENDPOINT: place.endpoint, BLOCKDELTA_RUNTIME_DIR: place.temporary });
    };
    const content = async (): Promise<Buffer> => {
      const found = readFileSync(await orchestrator.bringUp(volume));
      await orchestrator.takeDown(volume);
      return found;
    };
    const refused = await restore();
    assert.equal(refused.code, 5);
    assert.match(refused.stderr, /cannot keep others from volume .* --unprotected/);
    assert.ok((await content()).equals(changed));
    const { code, stdout, stderr } = await restore('--unprotected');
    assert.equal(code, 0, stderr);
    const result = JSON.parse(stdout) as { method: string; reason: string | null; range_bytes: string };
    assert.equal(result.method, method);
    assert.equal(result.range_bytes === String(8 * MIB), method === 'full');
    assert.equal(/everything is written: .*gives no delta/.test(stderr), method === 'full', stderr);
    assert.ok((await content()).equals(bytes));
    assert.equal((await orchestrator.snapshotIds()).length, 2);
  });
}

test('a base that the driver has deleted is left out, and an earlier one is taken', async (t) => {
  const driver = await foreign(t, {});
  const { orchestrator, volume, place } = driver;
  const [first, second] = [await change(driver, 'one'), await change(driver, 'two')];
  await backedUp(t, place, first);
  await backedUp(t, place, second);
  await orchestrator.deleteSnapshot(second);
  const older = await backedUp(t, place, await change(driver, 'three'));
  assert.equal(older.base_snapshot_id, first);
  await assertSame(volume.targetPath, older.image);
});

test('a delta that is out of order is not used, and the backup is full', async (t) => {
  const driver = await foreign(t, {
    metadata: (correct) => ({
      entries: (blocks, query) => {
        const entries = correct.entries(blocks, query);
        return query.base === null ? entries : entries.reverse();
      },
    }),
  });
  await backedUp(t, driver.place, await change(driver, 'one'));
  const result = await backedUp(t, driver.place, await change(driver, 'two'));
  assert.equal(result.method, 'full');
  assert.match(result.reason ?? '', /out of order/);
  await assertSame(driver.volume.targetPath, result.image);
});

test('another snapshot with the id of one that has a backup is refused', async (t) => {
  let laterSeconds = 0;
  const driver = await foreign(t, {
    rpc: (name, correct) => async (request) => {
      const answer = await correct(request);
      for (const { snapshot } of name === 'ListSnapshots' ? answer['entries'] : []) {
        snapshot.creation_time.seconds += laterSeconds;
      }
      return answer;
    },
  });
  const [first, second] = [await change(driver, 'one'), await change(driver, 'two')];
  await backedUp(t, driver.place, first);
  laterSeconds = 60;
  const { code, stderr } = await runBackup(t, driver.place, first);
  assert.equal(code, 5, stderr);
  assert.match(stderr, /is a backup of another snapshot with that id/);
  const result = await backedUp(t, driver.place, second);
  assert.equal(result.method, 'full');
  assert.match(result.reason ?? '', /is not the one that the backup is of/);
});
