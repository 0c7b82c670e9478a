/**
 * The disks that fail on command (test/support/dm-fixture.ts) do fail, and recover. The tests
 * of failing pools depend on it.
 */
import assert from 'node:assert/strict';
import { type FileHandle, open } from 'node:fs/promises';
import { SystemError } from '../../src/base/errors.js';
import type { DmDevice } from '../../src/native/dm-addon.js';
import type { NativePool } from '../../src/native/pool.js';
import { DmFixture, type FaultyDisk } from '../support/dm-fixture.js';
import { sharedThreads } from '../support/shared-threads.js';
import { Workspace } from '../support/workspace.js';
import { guestTest } from './guest.js';

const MIB = 1n << 20n;
const BLOCK = 65536;

function faultTest(
  title: string,
  run: (native: NativePool, fixture: DmFixture) => Promise<void>,
): void {
  guestTest(title, async () => {
    const workspace = new Workspace('faults');
    const native = sharedThreads();
    const fixture = new DmFixture(native, workspace);
    try {
      await run(native, fixture);
    } finally {
      await fixture.dispose();
      workspace.dispose();
    }
  });
}

/** The last close drops what the page cache holds, so each reads and writes the disk itself. */
async function withDevice<T>(path: string, use: (device: FileHandle) => Promise<T>): Promise<T> {
  const device = await open(path, 'r+');
  try {
    return await use(device);
  } finally {
    await device.close();
  }
}

const write = (path: string, value: number): Promise<void> =>
  withDevice(path, async (device) => {
    await device.write(Buffer.alloc(BLOCK, value), 0, BLOCK, 0);
    await device.sync();
  });

const read = (path: string): Promise<number> =>
  withDevice(path, async (device) => {
    const { buffer } = await device.read(Buffer.alloc(BLOCK), 0, BLOCK, 0);
    assert.ok(buffer.equals(Buffer.alloc(BLOCK, buffer[0])), 'a block of one byte');
    return buffer[0] ?? 0;
  });

faultTest('a disk fails for reads and writes, or for writes alone, and recovers', async (_, f) => {
  const disk = await f.disk('one', 8n * MIB);
  await write(disk.path, 1);
  await disk.failWrites();
  await assert.rejects(write(disk.path, 2), { code: 'EIO' });
  assert.equal(await read(disk.path), 1);
  await disk.fail();
  await assert.rejects(read(disk.path), { code: 'EIO' });
  await assert.rejects(write(disk.path, 2), { code: 'EIO' });
  await disk.work();
  assert.equal(await read(disk.path), 1);
  await write(disk.path, 3);
  assert.equal(await read(disk.path), 3);
});

const POOL = 'blockdelta-pool-faults';
const THIN = 'blockdelta-thin-faults';

async function startPool(native: NativePool, metadata: FaultyDisk, data: FaultyDisk) {
  const table = `${metadata.path} ${data.path} 128 0 1 error_if_no_space`;
  const sizeSectors = data.sizeBytes / 512n;
  await native.run('dmCreate', {
    name: POOL,
    uuid: 'BLOCKDELTA-TEST-pool',
    readOnly: false,
    sizeSectors,
    type: 'thin-pool',
    table,
  });
}

async function activate(native: NativePool, deviceId: number): Promise<DmDevice> {
  const pool = await native.run('dmFind', { name: POOL });
  const { device } = await native.run('dmCreate', {
    name: THIN,
    uuid: 'BLOCKDELTA-TEST-thin',
    readOnly: false,
    sizeSectors: (16n * MIB) / 512n,
    type: 'thin',
    table: `${pool.device?.path} ${deviceId}`,
  });
  return device;
}

faultTest(
  'after a power failure a pool is in the state of its last commit',
  async (native, fixture) => {
    const metadata = await fixture.disk('metadata', 16n * MIB);
    const data = await fixture.disk('data', 64n * MIB);
    await startPool(native, metadata, data);
    await native.run('thinMessages', { pool: POOL, messages: ['create_thin 1'] });
    const before = await activate(native, 1);
    await write(before.path, 5);
    await fixture.powerCut();
    assert.equal((await native.run('dmFind', { name: POOL })).device, null);
    await startPool(native, metadata, data);
    const after = await activate(native, 1);
    assert.equal(await read(after.path), 5, 'what was synced');
    const { status } = await native.run('thinPoolStatus', { name: POOL, commit: false });
    assert.equal(status?.mode, 'rw');
  },
);

faultTest(
  'a pool does not confirm messages while its metadata disk refuses writes',
  async (n, f) => {
    const metadata = await f.disk('metadata', 16n * MIB);
    // Far larger than the machine.
    const data = await f.zeroDisk('data', 1n << 40n);
    await startPool(n, metadata, data);
    await metadata.failWrites();
    const request = { pool: POOL, messages: ['create_thin 1'] };
    await assert.rejects(n.run('thinMessages', request), (thrown: unknown) => {
      return thrown instanceof SystemError && thrown.code === 'THIN_POOL_MODE';
    });
    await f.powerCut();
    await startPool(n, metadata, data);
    await n.run('thinMessages', request);
  },
);

faultTest('a disk grows under the devices on top of it', async (native, fixture) => {
  const metadata = await fixture.disk('metadata', 4n * MIB);
  const data = await fixture.zeroDisk('data', 64n * MIB);
  await startPool(native, metadata, data);
  await metadata.grow(8n * MIB);
  await native.run('dmSuspend', { name: POOL, noFlush: false, lockFileSystem: false });
  await native.run('dmResume', { name: POOL });
  const { status } = await native.run('thinPoolStatus', { name: POOL, commit: false });
  assert.equal(status?.totalMetadataBlocks, 2048n);
});
