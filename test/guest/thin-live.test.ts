/**
 * What `thin-delta` and `thin-ls` read from the metadata device of a pool in use, beside thin_delta. In
 * this process and not as commands: on an emulated processor Node.js takes long to start.
 */
import assert from 'node:assert/strict';
import { CsiError, StatusCode } from '../../src/base/errors.js';
import { XML_TAIL, xmlHead, xmlRows } from '../../src/cli/thin/printers.js';
import { readRuns } from '../../src/driver/inspection/thin-runs.js';
import { type SnapshotChoice, ThinTrees } from '../../src/driver/inspection/thin-trees.js';
import { Disturbance } from '../support/disturbance.js';
import { thinTool } from '../support/thin-tools.js';
import { nightlyPoolTest, type TestPool, poolTest as test, writeBlocks } from './dm-setup.js';

/** What `thin-delta --format xml` prints. */
async function xmlOf(
  { native, metadata }: TestPool,
  choice: SnapshotChoice,
  [base, target]: readonly [number, number],
): Promise<string> {
  const trees = await ThinTrees.open(native, metadata.path, choice);
  const { signal } = new AbortController();
  let xml = xmlHead(trees.superblock, base, target);
  for await (const { runs } of readRuns(trees, { base, target, includeSame: true }, signal)) {
    xml += xmlRows(runs);
  }
  return xml + XML_TAIL;
}

async function idsIn({ native, metadata }: TestPool): Promise<number[]> {
  const trees = await ThinTrees.open(native, metadata.path, false);
  return (await trees.devices()).map(({ deviceId }) => deviceId);
}

/** A volume with 40 blocks, and two snapshots of it between which seven changed. */
async function withSnapshots(pool: TestPool): Promise<string> {
  const { path } = await pool.volume('volume', 1);
  await writeBlocks(path, 1, 0, 40);
  await pool.take(['volume', 1, 2]);
  await writeBlocks(path, 2, 10, 5);
  await writeBlocks(path, 2, 60, 2);
  await pool.take(['volume', 1, 3]);
  return path;
}

/** With such a volume, which is written to over and over until the work has ended. */
async function underWrites(pool: TestPool, work: () => Promise<void>): Promise<void> {
  const volume = await withSnapshots(pool);
  const writes = new Disturbance((round) => writeBlocks(volume, (3 + round) & 255, round % 200, 8));
  try {
    await work();
  } finally {
    await writes.stop();
  }
}

const BETWEEN_SNAPSHOTS = [
  '    <same begin="0" length="10"/>',
  '    <different begin="10" length="5"/>',
  '    <same begin="15" length="25"/>',
  '    <right_only begin="60" length="2"/>',
].join('\n');

test('snapshots are compared while their volume is written to', async (pool) => {
  await underWrites(pool, async () => {
    for (let round = 0; round < 6; round += 1) {
      const xml = await xmlOf(pool, false, [2, 3]);
      assert.ok(xml.includes(`<diff left="2" right="3">\n${BETWEEN_SNAPSHOTS}\n  </diff>`), xml);
    }
  });
});

test('all devices under a metadata snapshot are compared as by thin_delta', async (pool) => {
  await underWrites(pool, async () => {
    await pool.send('reserve_metadata_snap');
    for (const pair of [
      [2, 3],
      [3, 1],
      [1, 2],
    ] as const) {
      const words = ['-m', '--thin1', `${pair[0]}`, '--thin2', `${pair[1]}`, pool.metadata.path];
      assert.equal(await xmlOf(pool, true, pair), await thinTool('thin_delta', words));
    }
    await pool.send('release_metadata_snap');
    await assert.rejects(xmlOf(pool, true, [2, 3]), {
      code: StatusCode.FAILED_PRECONDITION,
      message: /no metadata snapshot is held/,
    });
  });
});

nightlyPoolTest('a volume under writes gives a list of one point in time, or none', async (pool) => {
  await underWrites(pool, async () => {
    for (let round = 0; round < 5; round += 1) {
      try {
        const xml = await xmlOf(pool, false, [3, 1]);
        assert.ok(xml.endsWith(XML_TAIL), xml);
      } catch (thrown) {
        assert.ok(thrown instanceof CsiError, String(thrown));
        assert.match(thrown.message, /changed while it was read/);
      }
    }
  });
});

test('devices are listed as of the last commit, past the page cache', async (pool) => {
  await withSnapshots(pool);
  assert.deepEqual(await idsIn(pool), [1, 2, 3]);
  await pool.send('create_thin 9');
  assert.deepEqual(await idsIn(pool), [1, 2, 3, 9]);
  await pool.send('delete 2');
  assert.deepEqual(await idsIn(pool), [1, 3, 9]);
});
