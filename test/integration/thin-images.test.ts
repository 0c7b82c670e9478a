/** The files of an embedded thin pool: real files and loop devices, without device-mapper. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, type TestContext, test } from 'node:test';
import { EmbeddedDevices } from '../../src/backends/thin/pool/embedded-devices.js';
import { SystemError } from '../../src/base/errors.js';
import type { FileState } from '../../src/native/addon.js';
import { deviceSizeBytes } from '../../src/native/block-device.js';
import { NativePool, type NativeRunner } from '../../src/native/pool.js';
import { rejectsWith } from '../support/expect-status.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const MIB = 1n << 20n;
const options = { skip: skipUnlessRoot };
const native = new NativePool(1);
after(() => native.close());

class Images {
  readonly devices: EmbeddedDevices;
  readonly metadata: string;
  readonly data: string;
  /** Instead of the next call of that name. */
  failing: string | null = null;

  constructor(workspace: Workspace) {
    const directory = workspace.path('pool');
    mkdirSync(directory);
    const run: NativeRunner['run'] = (method, request) => {
      if (method !== this.failing) return native.run(method, request);
      throw new SystemError('ENOSPC', 'fallocate', directory, 'no space');
    };
    const settings = { pool: 'default', directory, maximumBytes: 600n * MIB };
    this.devices = new EmbeddedDevices({ run }, settings);
    this.metadata = workspace.path('pool', 'metadata.img');
    this.data = workspace.path('pool', 'data.img');
  }

  async file(path: string): Promise<FileState> {
    const { state } = await native.run('fileState', { path });
    return state ?? assert.fail(`there is no ${path}`);
  }
}

function images(t: TestContext): Images {
  const workspace = new Workspace('thin-images');
  t.after(() => workspace.dispose());
  return new Images(workspace);
}

test('metadata is allocated in full from the start, and data is sparse', options, async (t) => {
  const { devices, metadata, data, file } = images(t);
  await devices.create();
  const made = await file(metadata);
  assert.equal(made.sizeBytes, 16n * MIB);
  assert.ok(made.allocatedBytes >= made.sizeBytes);
  assert.equal((await file(data)).sizeBytes, 584n * MIB);
  assert.ok((await file(data)).allocatedBytes < MIB);

  const { metadataPath } = await devices.open();
  assert.equal(await devices.growMetadata(), true);
  const grown = await file(metadata);
  assert.equal(grown.sizeBytes, 32n * MIB);
  assert.ok(grown.allocatedBytes >= grown.sizeBytes);
  assert.equal(await deviceSizeBytes(metadataPath), 32n * MIB);
});

test('metadata for which the host has no space is refused and reported', options, async (t) => {
  const one = images(t);
  const said = /no room for \d+ bytes more of metadata of pool 'default': free space there/;
  one.failing = 'allocateFile';
  await rejectsWith(one.devices.create(), 'RESOURCE_EXHAUSTED', said);
  one.failing = null;
  await one.devices.create();
  await one.devices.open();
  one.failing = 'allocateFile';
  await rejectsWith(one.devices.growMetadata(), 'RESOURCE_EXHAUSTED', said);
  assert.equal((await one.file(one.metadata)).sizeBytes, 16n * MIB);
});

test(
  'a growth that was killed between file and device is completed, and not repeated',
  options,
  async (t) => {
    const { devices, metadata, file } = images(t);
    await devices.create();
    const { metadataPath } = await devices.open();
    await native.run('allocateFile', { path: metadata, sizeBytes: 32n * MIB });
    assert.equal(await deviceSizeBytes(metadataPath), 16n * MIB);
    assert.equal(await devices.growMetadata(), true);
    assert.equal(await deviceSizeBytes(metadataPath), 32n * MIB);
    assert.equal((await file(metadata)).sizeBytes, 32n * MIB);

    await native.run('allocateFile', { path: metadata, sizeBytes: 40n * MIB });
    await devices.open();
    assert.equal(await deviceSizeBytes(metadataPath), 40n * MIB);
  },
);

test('space freed in the file of the pool is free, whatever the host has', options, async (t) => {
  const { devices, data, file } = images(t);
  await devices.create();
  await native.run('allocateFile', { path: data, sizeBytes: 584n * MIB });
  const { allocatedBytes } = await file(data);
  const full = await devices.freeBelow(allocatedBytes);
  const freed = await devices.freeBelow(0n);
  const overused = await devices.freeBelow(2n * allocatedBytes);
  // Others use the host meanwhile.
  const isNear = (a: bigint, b: bigint) => a - b < 250n * MIB && b - a < 250n * MIB;
  assert.ok(isNear(freed - full, allocatedBytes), `${freed} and ${full}`);
  assert.ok(isNear(overused, full), `${overused} and ${full}`);
});
