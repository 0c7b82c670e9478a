/** Snapshots of several thin devices at one point in time, on a real kernel. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../src/base/errors.js';
import { DEFAULT_FREEZING, freezeRequest } from '../../src/driver/backends/freezing.js';
import type { DmDevice } from '../../src/driver/native/dm-addon.js';
import { Disturbance } from '../support/disturbance.js';
import { assertOneMoment, OrderedWriter, readNumber } from '../support/ordered-writer.js';
import { seededRandom } from '../support/random.js';
import {
  fails,
  type Member,
  MIB,
  nightlyPoolTest,
  readBlock,
  type TestPool,
  poolTest as test,
  writeBlocks,
} from './dm-setup.js';

async function assertNoneSuspended(pool: TestPool, ...labels: string[]): Promise<void> {
  for (const label of labels) assert.equal((await pool.find(label))?.suspended, false, label);
}

async function assertAbsent(pool: TestPool, ...ids: number[]): Promise<void> {
  for (const id of ids) await fails(pool.send(`delete ${id}`), 'ENODATA');
}

test('snapshots of inactive origins need no suspension', async (pool) => {
  const { path } = await pool.volume('one', 1);
  await writeBlocks(path, 6, 2);
  await pool.remove('one');
  const outcome = await pool.take([null, 1, 2], [null, 1, 3]);
  assert.equal(outcome.suspendedNs, 0n);
  assert.equal(outcome.status.mode, 'rw');
  for (const id of [2, 3]) {
    const copy = await pool.activate(`copy-${id}`, id, { readOnly: true });
    assert.equal(await readBlock(copy.path, 2), 6);
  }
});

test('a snapshot is taken between its call and its answer, and has everything that was synced', async (pool) => {
  const { path } = await pool.volume('one', 1);
  await writeBlocks(path, 1, 0);
  const before = BigInt(Date.now()) * 1_000_000n;
  const outcome = await pool.take(['one', 1, 2], ['one', 1, 3]);
  const after = BigInt(Date.now() + 1) * 1_000_000n;
  assert.ok(before <= outcome.takenAtNs && outcome.takenAtNs <= after);
  assert.ok(outcome.suspendedNs > 0n && outcome.suspendedNs <= after - before);
  await writeBlocks(path, 2, 0);
  for (const id of [2, 3]) {
    const copy = await pool.activate(`copy-${id}`, id, { readOnly: true });
    assert.equal(await readBlock(copy.path, 0), 1);
  }
});

test('snapshots of raw devices under writes are one point in time', async (pool) => {
  const one = await pool.volume('one', 1);
  const two = await pool.volume('two', 2);
  const random = seededRandom('a cut of thin devices');
  const writer = await OrderedWriter.start([one.path, two.path]);
  for (let round = 0; round < 8; round += 1) {
    await delay(random.below(40));
    const ids = [10 + 2 * round, 11 + 2 * round] as const;
    const [first, second] = ids;
    const finishedBefore = writer.finished;
    await pool.take(['two', 2, second], ['one', 1, first]);
    const begunAfter = writer.begun;
    const copies: number[] = [];
    for (const id of ids) {
      const label = `copy-${id}`;
      copies.push(readNumber((await pool.activate(label, id, { readOnly: true })).path));
      await pool.remove(label);
    }
    assertMoment(copies, finishedBefore, begunAfter);
  }
  await writer.stop();
});

function assertMoment(copies: number[], finishedBefore: number, begunAfter: number): void {
  const [first = -1, second = -1] = copies;
  assertOneMoment([first, second], { finishedBefore, begunAfter });
}

/** Mounts a device, which has a file system. Returns where. */
function mount({ workspace }: TestPool, { minor, path }: DmDevice, ...options: string[]): string {
  const mountPoint = workspace.path(`mount-${minor}`);
  mkdirSync(mountPoint, { recursive: true });
  execFileSync('mount', [...options, path, mountPoint]);
  return mountPoint;
}

/** A volume with a new file system, mounted. Resolves to where. */
async function mounted(pool: TestPool, fsType: string, ...volume: Parameters<TestPool['volume']>): Promise<string> {
  const device = await pool.volume(...volume);
  execFileSync(`mkfs.${fsType}`, ['-q', device.path], { stdio: 'ignore' });
  return mount(pool, device);
}

const LARGE = 320n * MIB;

test(
  'mounted ext4 and xfs are frozen for a snapshot, and clean in it',
  async (pool) => {
    const ext4 = await mounted(pool, 'ext4', 'ext4', 1, LARGE);
    const xfs = await mounted(pool, 'xfs', 'xfs', 2, LARGE);
    // What is not written back yet belongs to the snapshot.
    writeFileSync(`${ext4}/before`, Buffer.alloc(300_000, 1));
    writeFileSync(`${xfs}/before`, Buffer.alloc(300_000, 2));
    const writer = await OrderedWriter.start([`${ext4}/number`, `${xfs}/number`]);
    await delay(100);
    const finished = writer.finished;
    await pool.take(['ext4', 1, 3], ['xfs', 2, 4]);
    const begun = writer.begun;
    await writer.stop();
    const copy3 = await pool.activate('copy-3', 3, { sizeBytes: LARGE });
    const copy4 = await pool.activate('copy-4', 4, { sizeBytes: LARGE });
    execFileSync('e2fsck', ['-fn', copy3.path], { stdio: 'ignore' });
    const copies = [mount(pool, copy3, '-o', 'ro'), mount(pool, copy4, '-o', 'nouuid')];
    const numbers = copies.map((copy) => readNumber(`${copy}/number`));
    assertMoment(numbers, finished, begun);
    for (const copy of copies) execFileSync('test', ['-s', `${copy}/before`]);
    for (const mountPoint of [...copies, ext4, xfs]) execFileSync('umount', [mountPoint]);
    // A frozen xfs keeps a record in its log, which the mount has replayed.
    execFileSync('xfs_repair', ['-n', copy4.path], { stdio: 'ignore' });
  },
  { dataBytes: 1024n * MIB },
);

test('a group of which one snapshot fails has no snapshot, and all origins resume', async (pool) => {
  const labels = ['one', 'two', 'three'];
  const paths: string[] = [];
  for (const [i, label] of labels.entries()) paths.push((await pool.volume(label, i + 1)).path);
  await pool.send('create_thin 13');
  const members = labels.map((label, i): Member => [label, i + 1, 11 + i]);
  await fails(pool.take(...members), 'EEXIST');
  await assertNoneSuspended(pool, ...labels);
  await assertAbsent(pool, 11, 12);
  for (const path of paths) await writeBlocks(path, 1, 0);
  // That of somebody else stays.
  await pool.send('delete 13');
  await pool.take(...members);
  await pool.send('delete 11', 'delete 12', 'delete 13');
});

/** Each of two volumes and its snapshot. */
const PAIR: readonly Member[] = [
  ['one', 1, 3],
  ['two', 2, 4],
];

test('no snapshot is taken if another process has suspended one of the origins', async (pool) => {
  await pool.volume('one', 1);
  await pool.volume('two', 2);
  const how = { noFlush: false, lockFileSystem: true };
  await pool.native.run('dmSuspend', { name: pool.name('two'), ...how });
  const failure = await fails(pool.take(...PAIR), 'EBUSY');
  assert.equal(failure.path, pool.name('two'));
  await assertNoneSuspended(pool, 'one');
  assert.equal((await pool.find('two'))?.suspended, true, 'it is for somebody else to resume it');
  await pool.native.run('dmResume', { name: pool.name('two') });
  await assertAbsent(pool, 3, 4);
  await pool.take(...PAIR);
});

const thaw = (mountPoint: string) => spawnSync('fsfreeze', ['-u', mountPoint]).status === 0;

nightlyPoolTest(
  'an origin whose file system another process has frozen is taken as it is and stays frozen',
  async (pool) => {
    await pool.volume('one', 1);
    for (const [fsType, id] of [
      ['ext4', 2],
      ['xfs', 3],
    ] as const) {
      const frozen = await mounted(pool, fsType, fsType, id, LARGE);
      writeFileSync(`${frozen}/before`, fsType);
      execFileSync('fsfreeze', ['-f', frozen]);
      try {
        await pool.take(['one', 1, 10], [fsType, id, 10 + id]);
        await pool.take([fsType, id, 20 + id]);
        await assertNoneSuspended(pool, 'one', fsType);
      } finally {
        assert.ok(thaw(frozen), 'it was frozen still');
      }
      writeFileSync(`${frozen}/before`, 'later', { flush: true });
      execFileSync('umount', [frozen]);
      for (const copyId of [10 + id, 20 + id]) {
        const copy = await pool.activate(`copy-${copyId}`, copyId, { sizeBytes: LARGE });
        const mountPoint = mount(pool, copy);
        assert.equal(readFileSync(`${mountPoint}/before`, 'utf8'), fsType);
        execFileSync('umount', [mountPoint]);
      }
      await pool.send('delete 10');
    }
  },
  { dataBytes: 1024n * MIB },
);

nightlyPoolTest('a snapshot of an origin that others thaw and freeze is one of a moment, or none', async (pool) => {
  await pool.volume('one', 1);
  const two = await mounted(pool, 'ext4', 'two', 2);
  const freezing = new Disturbance(async () => {
    spawnSync('fsfreeze', ['-f', two]);
    spawnSync('fsfreeze', ['-u', two]);
    await delay(1);
  });
  try {
    for (let round = 0; round < 5; round += 1) {
      try {
        await pool.take(...PAIR);
        await pool.send('delete 3', 'delete 4');
      } catch (thrown) {
        assert.equal(errorCode(thrown), 'SNAPSHOT_THAWED');
        await assertAbsent(pool, 3, 4);
      }
      await assertNoneSuspended(pool, 'one', 'two');
    }
  } finally {
    await freezing.stop();
    thaw(two);
  }
  await pool.take(...PAIR);
});

test('no snapshot is taken of a device that is not the origin in this pool', async (pool) => {
  await pool.volume('one', 1);
  await pool.send('create_thin 2');
  for (const [code, ...members] of [
    ['ESTALE', ['one', 2, 3]],
    ['ENXIO', ['none', 1, 3]],
    ['ENODATA', [null, 9, 3]],
    ['EINVAL', ['one', 1, 3], [null, 2, 3]],
    ['EINVAL'],
    ['EINVAL', [null, 2 ** 24, 3]],
  ] as const) {
    await fails(pool.take(...members), code);
  }
  for (const [code, name, deviceName] of [
    ['ESTALE', pool.name('pool'), pool.data.name],
    ['ENXIO', pool.name('none'), null],
  ] as const) {
    const members = [{ deviceName, originId: 1, snapshotId: 3 }];
    const request = { pool: name, members, ...freezeRequest(DEFAULT_FREEZING, Number.POSITIVE_INFINITY) };
    await fails(pool.native.run('takeThinSnapshots', request), code);
  }
  await assertNoneSuspended(pool, 'one');
  await assertAbsent(pool, 3);
});
