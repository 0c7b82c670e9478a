/** The files of an embedded thin pool: real files and loop devices, without device-mapper. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { open, statfs } from 'node:fs/promises';
import { after, type TestContext, test } from 'node:test';
import { EmbeddedDevices } from '../../src/backends/thin/embedded-devices.js';
import { SystemError } from '../../src/errors.js';
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

test('metadata has all its blocks from the beginning, and data none', options, async (t) => {
  const { devices, metadata, data, file } = images(t);
  await devices.make();
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

test('metadata that the host has no room for is refused, and told', options, async (t) => {
  const one = images(t);
  const said = /no room for \d+ bytes more of metadata of pool 'default': free space there/;
  one.failing = 'allocateFile';
  await rejectsWith(one.devices.make(), 'RESOURCE_EXHAUSTED', said);
  one.failing = null;
  await one.devices.make();
  await one.devices.open();
  one.failing = 'allocateFile';
  await rejectsWith(one.devices.growMetadata(), 'RESOURCE_EXHAUSTED', said);
  assert.equal((await one.file(one.metadata)).sizeBytes, 16n * MIB);
});

test(
  'a growth that was killed between file and device is ended, and not repeated',
  options,
  async (t) => {
    const { devices, metadata, file } = images(t);
    await devices.make();
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

test(
  'space that the pool has freed inside its file is free, host or no host',
  options,
  async (t) => {
    const { devices, data, file } = images(t);
    await devices.make();
    const handle = await open(data, 'r+');
    await handle.write(Buffer.alloc(Number(8n * MIB), 1));
    await handle.sync();
    await handle.close();
    const { allocatedBytes } = await file(data);
    assert.ok(allocatedBytes >= 8n * MIB);
    const full = await devices.freeBelow(allocatedBytes);
    const freed = await devices.freeBelow(0n);
    // The host is used by others meanwhile.
    const difference = freed - full - allocatedBytes;
    assert.ok(difference < 4n * MIB && difference > -4n * MIB, `off by ${difference}`);
    const statedHost = await statfs(data, { bigint: true });
    const overused = await devices.freeBelow(allocatedBytes + MIB);
    assert.ok(overused > statedHost.bavail * statedHost.bsize - 64n * MIB);
  },
);
