/** What a thin pool lies on: files of its own, and devices that must be empty to be formatted. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { truncate } from 'node:fs/promises';
import { after, test } from 'node:test';
import { sizeOfDeviceAt } from '../../../../src/base/system/device-attributes.js';
import type { PoolRecord } from '../../../../src/driver/backends/thin/ledger/ledger.js';
import { assertFormattable } from '../../../../src/driver/backends/thin/metadata/metadata-format.js';
import { writeLabel } from '../../../../src/driver/backends/thin/pool/device-label.js';
import { EmbeddedDevices } from '../../../../src/driver/backends/thin/pool/embedded-devices.js';
import { GivenDevices } from '../../../../src/driver/backends/thin/pool/pool-devices.js';
import { isSamePool, poolTable } from '../../../../src/driver/backends/thin/pool/pool-table.js';
import { NativePool } from '../../../../src/driver/native/pool.js';
import type { ThinSuperblock } from '../../../../src/driver/native/thin-addon.js';
import { POOL_RECORD, SUPERBLOCK } from '../../../support/fake-thin-kernel.js';
import { refused } from '../../../support/refusal.js';
import { test as rootTest } from '../../../support/running-plugin.js';
import { makePoolFileSystem, Workspace } from '../../../support/workspace.js';

const MIB = 1n << 20n;
const BLOCK = 65536n;
const workspace = new Workspace('thin-devices');
after(() => workspace.dispose());

const RECORD: PoolRecord = { ...POOL_RECORD, state: 'new', transactionId: 0n, labelledBytes: null };
const FRESH = { ...SUPERBLOCK, time: 0, transactionId: 0n, dataBlocks: 10n };

async function emptyDevices(label: string): Promise<{ metadataPath: string; dataPath: string }> {
  const paths = { metadataPath: workspace.path(`${label}-metadata`), dataPath: workspace.path(`${label}-data`) };
  for (const path of Object.values(paths)) {
    writeFileSync(path, '');
    await truncate(path, 4 << 20);
  }
  return paths;
}

rootTest('an embedded pool has two files within its bound, which grow and stay', async () => {
  const native = new NativePool(1);
  const directory = makePoolFileSystem(workspace, 'ext4', 2048);
  const bound = (maximumBytes: bigint) => new EmbeddedDevices(native, { pool: 'default', directory, maximumBytes });
  const devices = bound(1024n * MIB);
  try {
    assert.equal(await devices.exist(), false);
    await refused(devices.open(), 'FAILED_PRECONDITION', /has lost/);
    await devices.create();
    await devices.create();
    assert.equal(await devices.exist(), true);
    const { metadataPath, dataPath } = await devices.open();
    assert.deepEqual(await devices.open(), { metadataPath, dataPath });
    const sizes = async () => [await sizeOfDeviceAt(metadataPath), await sizeOfDeviceAt(dataPath)];
    assert.deepEqual(await sizes(), [16n * MIB, 1008n * MIB]);
    assert.equal(await devices.growMetadata(), true);
    await bound(1280n * MIB).open();
    assert.deepEqual(await sizes(), [32n * MIB, 1248n * MIB]);
    await bound(600n * MIB).open();
    assert.deepEqual(await sizes(), [32n * MIB, 1248n * MIB], 'never smaller');
    await devices.release();
    rmSync(`${directory}/data.img`);
    await refused(devices.open(), 'FAILED_PRECONDITION', /data\.img/);
  } finally {
    await devices.release();
    await native.close();
  }
});

rootTest('an embedded pool is not made where the host has no room for it', async () => {
  const native = new NativePool(1);
  try {
    const directory = makePoolFileSystem(workspace, 'btrfs', 600);
    const devices = new EmbeddedDevices(native, { pool: 'p', directory, maximumBytes: null });
    await refused(devices.create(), 'FAILED_PRECONDITION', /free space there/);
    assert.equal(await devices.exist(), false);
  } finally {
    await native.close();
  }
});

test('a file that is given as a device of a pool is refused', async () => {
  const { metadataPath, dataPath } = await emptyDevices('files');
  const devices = new GivenDevices('default', { metadata: metadataPath, data: dataPath });
  assert.equal(await devices.exist(), false);
  await refused(devices.open(), 'FAILED_PRECONDITION', /is not a block device/);
});

const DEVICE_BYTES = 4n * MIB;

/** Whether devices with this superblock may be formatted, in that state of the pool. */
const judged = (
  devices: { metadataPath: string; dataPath: string },
  record: Partial<PoolRecord>,
  found: Partial<ThinSuperblock> = {},
  hasDevices = false,
) =>
  assertFormattable({
    pool: 'p',
    record: { ...RECORD, ...record },
    devices,
    areOurs: false,
    readSuperblock: async () => ({ ...FRESH, ...found }),
    hasThinDevices: async () => hasDevices,
    sizeOf: async () => DEVICE_BYTES,
  });

test('metadata of a thin pool is not taken for a new one', async () => {
  const devices = await emptyDevices('formatted');
  for (const state of ['new', 'formatting'] as const) {
    await refused(judged(devices, { state }), 'FAILED_PRECONDITION', /is not pool 'p'/);
  }
});

test('a formatting that was killed goes on only with new metadata of its own shape', async () => {
  const devices = await emptyDevices('interrupted');
  await writeLabel(devices.dataPath, { poolUuid: RECORD.uuid, deviceBytes: DEVICE_BYTES });
  const resumed = (found: Partial<ThinSuperblock>, hasDevices?: boolean) =>
    judged(devices, { state: 'formatting', labelledBytes: DEVICE_BYTES }, found, hasDevices);
  assert.equal(await resumed({}), 'formatted');
  assert.equal(await resumed({ dataBlocks: 0n }), 'formatted', 'killed before it was resized');
  assert.equal(await resumed({ dataBlocks: 48n }), 'formatted', 'all that the label leaves');
  for (const refusal of [
    resumed({ dataBlocks: 49n }),
    resumed({ dataBlockBytes: 2n * BLOCK }),
    resumed({ transactionId: 1n }),
    resumed({ time: 1 }),
    resumed({}, true),
  ]) {
    await refused(refusal, 'FAILED_PRECONDITION', /is not pool 'p'/);
  }
});

test('a table names devices by number, and its features as the kernel tells them', () => {
  const devices = { metadata: '7:1', data: '7:2', dataBytes: 10n * BLOCK + 512n };
  const features = { passDiscards: true, errorWhenFull: true, lowWaterPercent: 20n };
  const plain = poolTable(devices, BLOCK, features);
  assert.deepEqual([plain.table, plain.sizeSectors], ['7:1 7:2 128 2 1 error_if_no_space', 1280n]);
  const other = poolTable(devices, BLOCK, { passDiscards: false, errorWhenFull: false, lowWaterPercent: 1n });
  assert.equal(other.table, '7:1 7:2 128 0 1 no_discard_passdown');
  assert.ok(isSamePool(plain.table, other.table));
  assert.ok(!isSamePool(plain.table, poolTable(devices, 2n * BLOCK, features).table));
  assert.ok(!isSamePool(plain.table, plain.table.replace('7:2', '7:3')));
});
