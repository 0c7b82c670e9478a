/**
 * What `thin-delta` and `thin-ls` read from the metadata device of a pool in use, beside thin_delta. In
 * this process and not as commands: on an emulated processor Node.js takes long to start.
 */
import assert from 'node:assert/strict';
import { CsiError, StatusCode } from '../../src/base/errors.js';
import { type SnapshotChoice, ThinTrees } from '../../src/cli/thin/pool-metadata.js';
import { XML_TAIL, xmlHead, xmlRows } from '../../src/cli/thin/printers.js';
import { readRuns } from '../../src/cli/thin/runs.js';
import { thinTool } from '../support/thin-tools.js';
import { type DmScene, dmTest, TestPool, writeBlocks } from './dm-setup.js';

/** What `thin-delta --format xml` prints. */
async function xmlOf(
  { native }: DmScene,
  metadata: string,
  choice: SnapshotChoice,
  [base, target]: readonly [number, number],
): Promise<string> {
  const trees = await ThinTrees.open(native, metadata, choice);
  const { signal } = new AbortController();
  let xml = xmlHead(trees.superblock, base, target);
  for await (const { runs } of readRuns(trees, { base, target, includeSame: true }, signal)) {
    xml += xmlRows(runs);
  }
  return xml + XML_TAIL;
}

async function idsIn({ native }: DmScene, metadata: string): Promise<number[]> {
  const trees = await ThinTrees.open(native, metadata, false);
  return (await trees.devices()).map(({ deviceId }) => deviceId);
}

/** A volume with 40 blocks, and two snapshots of it between which seven changed. */
async function poolWithSnapshots(scene: DmScene): Promise<{ pool: TestPool; volume: string }> {
  const pool = await TestPool.start(scene);
  const { path } = await pool.volume('volume', 1);
  await writeBlocks(path, 1, 0, 40);
  await pool.cut(['volume', 1, 2]);
  await writeBlocks(path, 2, 10, 5);
  await writeBlocks(path, 2, 60, 2);
  await pool.cut(['volume', 1, 3]);
  return { pool, volume: path };
}

/** Writes to the volume, over and over, until the work has ended. */
async function underWrites(volume: string, work: () => Promise<void>): Promise<void> {
  let isOver = false;
  const writing = (async () => {
    for (let round = 3; !isOver; round += 1) await writeBlocks(volume, round & 255, round % 200, 8);
  })();
  try {
    await work();
  } finally {
    isOver = true;
    await writing;
  }
}

const BETWEEN_SNAPSHOTS = [
  '    <same begin="0" length="10"/>',
  '    <different begin="10" length="5"/>',
  '    <same begin="15" length="25"/>',
  '    <right_only begin="60" length="2"/>',
].join('\n');

dmTest('snapshots are compared while their volume is written to', async (scene) => {
  const { pool, volume } = await poolWithSnapshots(scene);
  await underWrites(volume, async () => {
    for (let metadata = 0; metadata < 6; metadata += 1) {
      const xml = await xmlOf(scene, pool.metadata.path, false, [2, 3]);
      assert.ok(xml.includes(`<diff left="2" right="3">\n${BETWEEN_SNAPSHOTS}\n  </diff>`), xml);
    }
  });
});

dmTest(
  'under a metadata snapshot all devices are compared as thin_delta compares them',
  async (scene) => {
    const { pool, volume } = await poolWithSnapshots(scene);
    const { path } = pool.metadata;
    await underWrites(volume, async () => {
      await pool.send('reserve_metadata_snap');
      for (const pair of [
        [2, 3],
        [3, 1],
        [1, 2],
      ] as const) {
        const words = ['-m', '--thin1', `${pair[0]}`, '--thin2', `${pair[1]}`, path];
        assert.equal(await xmlOf(scene, path, true, pair), await thinTool('thin_delta', words));
      }
      await pool.send('release_metadata_snap');
      await assert.rejects(xmlOf(scene, path, true, [2, 3]), {
        code: StatusCode.FAILED_PRECONDITION,
        message: /no metadata snapshot is held/,
      });
    });
  },
);

dmTest('a volume under writes gives a list of one point in time, or none', async (scene) => {
  const { pool, volume } = await poolWithSnapshots(scene);
  await underWrites(volume, async () => {
    for (let metadata = 0; metadata < 5; metadata += 1) {
      try {
        const xml = await xmlOf(scene, pool.metadata.path, false, [3, 1]);
        assert.ok(xml.endsWith(XML_TAIL), xml);
      } catch (thrown) {
        assert.ok(thrown instanceof CsiError, String(thrown));
        assert.match(thrown.message, /changed while it was read/);
      }
    }
  });
});

dmTest('devices are listed as of the last commit, past the page cache', async (scene) => {
  const { pool } = await poolWithSnapshots(scene);
  const { path } = pool.metadata;
  assert.deepEqual(await idsIn(scene, path), [1, 2, 3]);
  await pool.send('create_thin 9');
  assert.deepEqual(await idsIn(scene, path), [1, 2, 3, 9]);
  await pool.send('delete 2');
  assert.deepEqual(await idsIn(scene, path), [1, 3, 9]);
});
