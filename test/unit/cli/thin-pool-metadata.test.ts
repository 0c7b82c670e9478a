/** How `thin-delta` and `thin-ls` find the trees of a pool and detect that they changed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import { ThinTrees } from '../../../src/cli/thin/pool-metadata.js';
import { FakeThinPool, metadataFailure } from '../../support/fake-thin-metadata.js';

const PATH = '/dev/mapper/vg-pool_tmeta';

function poolOfTwo(): FakeThinPool {
  const pool = new FakeThinPool();
  pool.addDevice(1, 11n);
  pool.addDevice(2, 12n);
  return pool;
}

test('without a metadata snapshot the trees are those of the current superblock', async () => {
  const pool = poolOfTwo();
  const trees = await ThinTrees.open(pool.runner, PATH, false);
  assert.equal(trees.superblock, trees.current);
  assert.deepEqual(await trees.rootsOf([2, 1]), [12n, 11n]);
});

test('without a metadata snapshot the error says how to reserve one', async () => {
  await assert.rejects(ThinTrees.open(poolOfTwo().runner, PATH, true), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /no metadata snapshot is held in .*tmeta: .*reserve_metadata_snap/,
  });
});

test('a metadata snapshot is read only at the block that was given', async () => {
  const pool = poolOfTwo();
  pool.superblock.heldRoot = 55n;
  assert.equal((await ThinTrees.open(pool.runner, PATH, 55n)).heldRoot, 55n);
  await assert.rejects(ThinTrees.open(pool.runner, PATH, 56n), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /is at block 55, not 56/,
  });
});

test('an unknown device is NOT_FOUND', async () => {
  const trees = await ThinTrees.open(poolOfTwo().runner, PATH, false);
  await assert.rejects(trees.rootsOf([1, 3]), {
    code: StatusCode.NOT_FOUND,
    message: /no thin device 3 in .*tmeta/,
  });
});

test('a list is read again after a commit during the read', async () => {
  const pool = poolOfTwo();
  const trees = await ThinTrees.open(pool.runner, PATH, false);
  pool.meanwhile = (method, call) => {
    if (method === 'thinDevices' && call === 1) pool.write(1);
  };
  assert.deepEqual(
    (await trees.devices()).map(({ root }) => root),
    [1011n, 12n],
  );
  assert.equal(pool.calls.thinDevices, 2);
});

test('a failure counts only if the trees did not change', async () => {
  const pool = poolOfTwo();
  const trees = await ThinTrees.open(pool.runner, PATH, false);
  pool.meanwhile = (method, call) => {
    if (method !== 'thinDevices' || call > 1) return;
    pool.write(1);
    throw metadataFailure('THIN_METADATA_INVALID');
  };
  assert.equal((await trees.devices()).length, 2);
  pool.meanwhile = (method) => {
    if (method === 'thinDevices') throw metadataFailure('THIN_METADATA_INVALID');
  };
  await assert.rejects(trees.devices(), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /block 12.*thin_check/,
  });
});

test('a list that keeps changing is refused with the remedy', async () => {
  const pool = poolOfTwo();
  const trees = await ThinTrees.open(pool.runner, PATH, false);
  pool.meanwhile = (method) => {
    if (method === 'thinDevices') pool.write(1);
  };
  await assert.rejects(trees.devices(), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /changed while it was read.*reserve_metadata_snap/,
  });
});

test('a list is refused when its metadata snapshot was released during the read', async () => {
  const pool = poolOfTwo();
  pool.superblock.heldRoot = 55n;
  const trees = await ThinTrees.open(pool.runner, PATH, true);
  pool.superblock.heldRoot = null;
  await assert.rejects(trees.devices(), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /released during the read/,
  });
});

test('a list can be aborted between two calls', async () => {
  const pool = poolOfTwo();
  pool.devicesPerAnswer = 1;
  const trees = await ThinTrees.open(pool.runner, PATH, false);
  const stop = new AbortController();
  pool.meanwhile = (method, call) => {
    if (method === 'thinDevices' && call === 2) stop.abort(new Error('enough'));
  };
  await assert.rejects(trees.devices(stop.signal), /enough/);
  assert.equal(pool.calls.thinDevices, 2);
});

test('a commit that leaves all roots in their blocks is detected', async () => {
  const pool = poolOfTwo();
  const trees = await ThinTrees.open(pool.runner, PATH, false);
  pool.meanwhile = (method, call) => {
    if (method === 'thinDevices' && call === 1) pool.commit();
  };
  await trees.devices();
  assert.equal(pool.calls.thinDevices, 2);
});

test('a metadata snapshot replaced by another at the same block is detected', async () => {
  const pool = poolOfTwo();
  pool.superblock.heldRoot = 55n;
  pool.held = { ...pool.superblock };
  const trees = await ThinTrees.open(pool.runner, PATH, true);
  pool.commit();
  await trees.devices();
  pool.held = { ...pool.held, checksum: 99 };
  await assert.rejects(trees.devices(), {
    code: StatusCode.FAILED_PRECONDITION,
    message: /released during the read/,
  });
});

test('a pool of very many devices is listed in several calls', async () => {
  const pool = new FakeThinPool();
  const ids = [0, 1, 2, 70_000, 140_000, 2 ** 24 - 1];
  for (const id of ids) pool.addDevice(id, 1n);
  pool.devicesPerAnswer = 3;
  const trees = await ThinTrees.open(pool.runner, PATH, false);
  assert.deepEqual(
    (await trees.devices()).map(({ deviceId }) => deviceId),
    ids,
  );
});
