/** Thin pools on a real kernel: messages and their errors, and the status in every mode. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { BLOCK, fails, MIB, readBlock, type TestPool, poolTest as test, writeBlocks } from './dm-setup.js';

test('a new pool reports its usage, and a missing device has no status', async (pool) => {
  const status = await pool.status();
  assert.deepEqual(
    { ...status, usedMetadataBlocks: 0n },
    {
      mode: 'rw',
      transactionId: 0n,
      usedMetadataBlocks: 0n,
      totalMetadataBlocks: 4096n,
      usedDataBlocks: 0n,
      totalDataBlocks: 1024n,
      heldRoot: null,
      discards: status.discards,
      whenFull: 'error_if_no_space',
      needsCheck: false,
      metadataLowWaterBlocks: 1024n,
    },
  );
  assert.match(status.discards, /^(no_)?discard_passdown$/);
  const { native, data } = pool;
  const none = { name: pool.name('none'), commit: false };
  assert.equal((await native.run('thinPoolStatus', none)).status, null);
  await fails(native.run('thinPoolStatus', { name: data.name, commit: false }), 'EINVAL');
});

test('each message has its own errors, and the messages before a failed one are applied', async (pool) => {
  const top = 2 ** 24 - 1;
  await pool.send('create_thin 0', `create_thin ${top}`, 'create_snap 5 0');
  await pool.activate('zero', 0);
  for (const [code, ...messages] of [
    ['EEXIST', 'create_thin 0'],
    ['EEXIST', 'create_snap 5 0'],
    ['EINVAL', `create_thin ${top + 1}`],
    ['EINVAL', `create_snap ${top + 1} 0`],
    ['ENODATA', 'create_snap 6 7'],
    ['ENODATA', 'delete 7'],
    ['EBUSY', 'delete 0'],
    ['EINVAL', 'set_transaction_id 1 2'],
    ['EINVAL', 'release_metadata_snap'],
    ['EINVAL', ''],
    ['EINVAL'],
    ['ENODATA', 'create_thin 8', 'delete 7', 'create_thin 9'],
    ['EEXIST', 'create_thin 8'],
  ] as const)
    await fails(pool.send(...messages), code);
  await pool.send('create_thin 9');
  const unknown = await fails(pool.send('make_tea'), 'EINVAL');
  assert.match(unknown.message, /make_tea/);
  assert.equal((await pool.send('set_transaction_id 0 9')).transactionId, 9n);
  assert.notEqual((await pool.send('reserve_metadata_snap')).heldRoot, null);
  await fails(pool.send('reserve_metadata_snap'), 'EBUSY');
  assert.equal((await pool.send('release_metadata_snap')).heldRoot, null);
  const absent = { pool: pool.name('none'), messages: ['delete 1'] };
  await fails(pool.native.run('thinMessages', absent), 'ENXIO');
});

/** What the kernel says of a thin device: its mapped sectors, or that its pool has failed. */
function mapped(pool: TestPool, label: string): string | undefined {
  const [, , , found] = execFileSync('dmsetup', ['status', pool.name(label)], { encoding: 'utf8' })
    .trim()
    .split(' ');
  return found;
}

test('a thin device reports how much of it is mapped', async (pool) => {
  const { path } = await pool.volume('one', 1);
  assert.equal(mapped(pool, 'one'), '0');
  await writeBlocks(path, 1, 3, 2);
  assert.equal(mapped(pool, 'one'), '256');
  assert.equal((await pool.status()).usedDataBlocks, 2n);
  assert.equal(spawnSync('blkdiscard', ['-o', `${3 * BLOCK}`, '-l', `${BLOCK}`, path]).status, 0);
  assert.equal(mapped(pool, 'one'), '128');
});

test('a thin table with an unknown device id cannot be loaded', async (pool) => {
  await fails(pool.activate('one', 1), 'ENODATA');
  assert.equal(await pool.find('one'), null);
});

test('a read-only thin device can be read and refuses writes and discards', async (pool) => {
  const { path } = await pool.volume('one', 1);
  await writeBlocks(path, 8, 0);
  await pool.send('create_snap 2 1');
  const copy = await pool.activate('two', 2, { readOnly: true });
  assert.equal(copy.readOnly, true);
  assert.equal(await readBlock(copy.path, 0), 8);
  await assert.rejects(writeBlocks(copy.path, 1, 0));
  spawnSync('blockdev', ['--setrw', copy.path]);
  await assert.rejects(writeBlocks(copy.path, 1, 0));
  assert.notEqual(spawnSync('blkdiscard', [copy.path]).status, 0);
  assert.equal(mapped(pool, 'two'), '128');
});

test('a pool grows while it is used, and cannot shrink', async (pool) => {
  const { path } = await pool.volume('one', 1);
  const reload = (sizeBytes: bigint) =>
    pool.native.run('dmReload', {
      name: pool.name('pool'),
      type: 'thin-pool',
      table: pool.table,
      sizeSectors: sizeBytes / 512n,
      readOnly: false,
      noFlush: false,
      lockFileSystem: false,
    });
  await pool.data.grow(128n * MIB);
  await reload(128n * MIB);
  assert.equal((await pool.status()).totalDataBlocks, 2048n);
  await writeBlocks(path, 1, 0);
  // Refused when it is to go live: the old table must come back.
  await fails(reload(64n * MIB), 'EINVAL');
  const device = await pool.find('pool');
  assert.equal(device?.suspended, false);
  assert.equal(device?.sizeBytes, 128n * MIB);
  assert.equal((await pool.status()).mode, 'rw');
  await writeBlocks(path, 2, 0);
  assert.equal(await readBlock(path, 0), 2);
});

const FULL_BLOCKS = 64;

test(
  'a pool without data space reports it, still accepts messages, and recovers',
  async (pool) => {
    const { path } = await pool.volume('one', 1);
    await writeBlocks(path, 1, 0, FULL_BLOCKS);
    // More than there is: what is written in place still works.
    await assert.rejects(writeBlocks(path, 1, FULL_BLOCKS));
    const status = await pool.status();
    assert.equal(status.mode, 'out_of_data_space');
    assert.equal(status.usedDataBlocks, status.totalDataBlocks);
    await writeBlocks(path, 2, 5);
    assert.equal(await readBlock(path, 5), 2);
    assert.equal((await pool.send('create_thin 2')).mode, 'out_of_data_space');
    await pool.send('delete 2');
    await fails(pool.take(['one', 1, 3]), 'THIN_POOL_MODE');
    assert.equal((await pool.find('one'))?.suspended, false);
    await fails(pool.send('delete 3'), 'ENODATA');
    assert.equal(spawnSync('blkdiscard', ['-l', `${8 * BLOCK}`, path]).status, 0);
    assert.equal((await pool.status(true)).mode, 'rw');
    await writeBlocks(path, 3, FULL_BLOCKS);
  },
  { dataBytes: BigInt(FULL_BLOCKS * BLOCK) },
);

test('a failed pool reports only that it has failed', async (pool) => {
  const { path } = await pool.volume('one', 1);
  await writeBlocks(path, 1, 0);
  await pool.metadata.fail();
  await fails(pool.send('create_thin 2'), 'THIN_POOL_MODE');
  const { mode } = await pool.status();
  assert.equal(mode, 'fail');
  assert.equal(mapped(pool, 'one'), 'Fail');
  await assert.rejects(writeBlocks(path, 1, 20));
  await fails(pool.send('create_thin 3'), 'EOPNOTSUPP');
});

test('a pool whose metadata cannot be written becomes read-only and needs a check', async (pool) => {
  const { path } = await pool.volume('one', 1);
  await writeBlocks(path, 4, 0);
  await pool.metadata.failWrites();
  const failure = await fails(pool.send('create_thin 2'), 'THIN_POOL_MODE');
  assert.match(failure.message, /ro needs_check after 'create_thin 2'/);
  const status = await pool.status();
  assert.equal(status.mode, 'ro');
  assert.equal(status.needsCheck, true);
  await fails(pool.send('create_thin 3'), 'EOPNOTSUPP');
  assert.equal(await readBlock(path, 0), 4);
  await fails(pool.take(['one', 1, 5]), 'THIN_POOL_MODE');
  assert.equal((await pool.find('one'))?.suspended, false);
});
