/**
 * What a thin pool lies on: which devices it accepts as its own, and the files of an embedded one. Real loop
 * devices and a real ledger under a simulated device-mapper. A start is killed at every step where the label moves.
 */
import assert from 'node:assert/strict';
import { mkdirSync, truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { after, type TestContext } from 'node:test';
import { CsiError, SystemError } from '../../../src/base/errors.js';
import { sizeOfDeviceAt } from '../../../src/base/system/device-attributes.js';
import { type OpenLedger, openLedger } from '../../../src/driver/backends/thin/ledger/ledger-client.js';
import { labelBlock, labelOffset } from '../../../src/driver/backends/thin/pool/device-label.js';
import { EmbeddedDevices } from '../../../src/driver/backends/thin/pool/embedded-devices.js';
import { GivenDevices } from '../../../src/driver/backends/thin/pool/pool-devices.js';
import { PoolGrowth } from '../../../src/driver/backends/thin/pool/pool-growth.js';
import { PoolMonitor } from '../../../src/driver/backends/thin/pool/pool-monitor.js';
import { PoolNames } from '../../../src/driver/backends/thin/pool/pool-names.js';
import { PoolOpening } from '../../../src/driver/backends/thin/pool/pool-opening.js';
import { ThinPool } from '../../../src/driver/backends/thin/pool/thin-pool.js';
import type { FileState } from '../../../src/driver/native/addon.js';
import { NativePool, type NativeRunner } from '../../../src/driver/native/pool.js';
import { SerialQueue } from '../../../src/driver/serial-queue.js';
import { FakeThinKernel } from '../../support/fake-thin-kernel.js';
import { loopOn } from '../../support/loops.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { Workspace } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

const MIB = 1n << 20n;
const BLOCK = 65536n;
const DATA_BYTES = 128n * MIB + 4096n;
const FEATURES = { passDiscards: true, errorWhenFull: true, lowWaterPercent: 10n };
const native = new NativePool(1);
after(() => native.close());

/** One pool of its own, on loop devices. */
class Machine {
  readonly kernel = new FakeThinKernel();
  areOurs = false;
  metadata = '';
  data = '';
  readonly #workspace = new Workspace('thin-devices');
  #ledger: OpenLedger | null = null;

  constructor() {
    this.kernel.formatted = false;
    this.kernel.metadataBlocks = DATA_BYTES / 4096n;
  }

  async disk(name: string, sizeBytes = DATA_BYTES): Promise<string> {
    return loopOn(native, this.#workspace.path(name), sizeBytes);
  }

  async grow(name: string, sizeBytes: bigint): Promise<void> {
    if (name === 'metadata') this.kernel.metadataBlocks = sizeBytes / 4096n;
    truncateSync(this.#workspace.path(name), Number(sizeBytes));
    await native.run('loopResize', { backingPath: this.#workspace.path(name) });
  }

  /** Of the pool, as its ledger says. */
  async record() {
    return (await this.ledger()).pool();
  }

  /** A kill before that method, and what goes on afterwards. */
  async killedBefore(step: string, work: () => Promise<unknown>): Promise<void> {
    this.kernel.before = (method) => {
      if (method === step) throw new Error('killed');
    };
    await assert.rejects(work(), /killed/);
    this.kernel.before = () => undefined;
  }

  async ledger(): Promise<OpenLedger> {
    if (this.#ledger === null) {
      this.#ledger = await openLedger(this.#workspace.path('pool.sqlite'));
      await this.#ledger.makePool(BLOCK);
    }
    return this.#ledger;
  }

  /** As a plugin does that starts on these devices. */
  async start(metadata = this.metadata, data = this.data): Promise<ThinPool> {
    const { opening, pool } = await this.#parts(metadata, data);
    await (await opening.prepare()).activate();
    return pool;
  }

  /** A kill can come before each step of it. */
  async growth(paths: { metadata?: string; data?: string } = {}): Promise<PoolGrowth> {
    const { metadata, data } = { metadata: this.metadata, data: this.data, ...paths };
    const { pool, devices } = await this.#parts(metadata, data);
    const real = await this.ledger();
    const setLabelledBytes = async (bytes: bigint): Promise<void> => {
      this.kernel.before('setLabelledBytes');
      await real.setLabelledBytes(bytes);
    };
    return new PoolGrowth({
      pool,
      devices,
      ledger: { ...real, setLabelledBytes },
      queue: new SerialQueue(),
      opened: { metadataPath: metadata, dataPath: data },
      dataBlockBytes: BLOCK,
      features: FEATURES,
      onEvent: () => undefined,
    });
  }

  /** What the table of the active pool lets it use, bytes. */
  get reach(): bigint {
    return [...this.kernel.active.values()][0]?.sizeBytes ?? 0n;
  }

  stop(): void {
    this.kernel.active.clear();
  }

  async dispose(): Promise<void> {
    await this.#ledger?.close();
    this.#workspace.dispose();
  }

  async #parts(metadata: string, data: string) {
    const ledger = await this.ledger();
    const pool = new ThinPool(this.kernel, 'default', new PoolNames((await ledger.pool()).uuid));
    const given = new GivenDevices('default', { metadata, data });
    const devices = Object.assign(given, { areOurs: this.areOurs });
    const parts = { native: this.kernel, ledger, pool, devices, features: FEATURES };
    return { opening: new PoolOpening(parts), pool, devices };
  }
}

const READABLE = { assertReadable: async () => undefined };

/** Its events are collected in `events`. */
function monitor(pool: ThinPool, growth: PoolGrowth, metadata = READABLE) {
  const events: string[] = [];
  const made = new PoolMonitor({
    pool,
    growth,
    metadata,
    lowWaterPercent: 10n,
    onStatus: async () => undefined,
    onEvent: ({ message }) => events.push(message),
  });
  return { events, probe: () => made.probe() };
}

/** These events, and no other. */
function assertSaid(events: readonly string[], ...expected: readonly RegExp[]): void {
  assert.equal(events.length, expected.length, events.join());
  for (const [index, said] of expected.entries()) assert.match(events[index] ?? '', said);
}

async function machine(t: TestContext): Promise<Machine> {
  const made = new Machine();
  t.after(() => made.dispose());
  made.metadata = await made.disk('metadata');
  made.data = await made.disk('data');
  return made;
}

/** Fails as a start on wrong devices does. */
const refusal = (work: Promise<unknown>, said: RegExp): Promise<string> => refused(work, 'FAILED_PRECONDITION', said);

async function read(path: string, position: bigint, length: number): Promise<Buffer> {
  const handle = await open(path, 'r');
  const { buffer } = await handle.read(Buffer.alloc(length), 0, length, Number(position));
  await handle.close();
  return buffer;
}

const write = (path: string, position: bigint, bytes: Buffer): void => writeAt(path, Number(position), bytes);

test('formatting leaves a label beyond the blocks that the pool uses', async (t) => {
  const one = await machine(t);
  await one.start();
  const { uuid: poolUuid, labelledBytes, state } = await one.record();
  assert.equal(state, 'ready');
  assert.equal(labelledBytes, DATA_BYTES);
  assert.equal(one.reach, 127n * MIB);
  const block = labelBlock({ poolUuid, deviceBytes: DATA_BYTES });
  assert.deepEqual(await read(one.data, 127n * MIB, 4096), block);
  one.stop();
  await one.start();
  assert.equal(one.reach, 127n * MIB);
  // A pool that was formatted is never formatted again.
  one.stop();
  one.kernel.formatted = false;
  await refusal(one.start(), /does not hold the metadata of pool/);
  assert.equal(one.kernel.active.size, 0);
});

test('another disk, or a disk of another pool, is refused and not changed', async (t) => {
  const [one, two] = [await machine(t), await machine(t)];
  const [blank, short] = [await one.disk('blank'), await one.disk('short', 64n * MIB)];
  await one.start();
  await two.start();
  one.stop();
  const { uuid } = await two.record();
  await refusal(one.start(one.metadata, two.data), new RegExp(`label is of pool ${uuid}`));
  await refusal(one.start(one.metadata, blank), /there is no label/);
  await refusal(one.start(one.metadata, short), /it ends before that/);
  assert.equal(one.kernel.active.size, 0);
  const content = await read(blank, 0n, Number(DATA_BYTES));
  assert.ok(content.equals(Buffer.alloc(content.length)));
  await one.start();
});

test('a new pool is created only if both ends of both devices are zeros', async (t) => {
  const one = await machine(t);
  for (const device of [one.metadata, one.data]) {
    for (const at of [0n, MIB - 1n, DATA_BYTES - 1n, DATA_BYTES - MIB]) {
      write(device, at, Buffer.of(1));
      await refusal(one.start(), /is not empty, so no pool is created/);
      write(device, at, Buffer.of(0));
    }
  }
  assert.equal((await one.record()).state, 'new');
  await one.start();
});

test('an interrupted formatting resumes, with its original disk only', async (t) => {
  const one = await machine(t);
  const blank = await one.disk('blank');
  await one.killedBefore('dmCreate', () => one.start());
  assert.equal((await one.record()).state, 'formatting');
  // Remains without a superblock are ignored only in files of the pool.
  write(one.metadata, 8192n, Buffer.of(1));
  const said = `^${one.metadata} is not empty.* the remains of a format that was interrupted`;
  await refusal(one.start(), new RegExp(said));
  one.areOurs = true;
  await one.killedBefore('dmCreate', () => one.start());
  one.areOurs = false;
  // The kernel came as far as to write the superblock.
  one.kernel.formatted = true;
  await refusal(one.start(one.metadata, blank), /there is no label/);
  await one.start();
  assert.equal((await one.record()).state, 'ready');
});

test('the label of a pool moves before the pool grows over it, with a kill at any step', async (t) => {
  for (const step of ['setLabelledBytes', 'dmReload', 'none']) {
    await t.test(`the label is found after a kill before ${step}`, async (u) => {
      const one = await machine(u);
      await one.start();
      const grown = 2n * DATA_BYTES;
      await one.grow('data', grown);
      const growth = await one.growth();
      if (step === 'none') await growth.step();
      else await one.killedBefore(step, () => growth.step());

      const { uuid: poolUuid, labelledBytes: deviceBytes } = await one.record();
      assert.ok(deviceBytes !== null);
      const place = labelOffset(deviceBytes);
      assert.ok(one.reach <= place, 'the pool could overwrite its label');
      const block = labelBlock({ poolUuid, deviceBytes });
      assert.deepEqual(await read(one.data, place, 4096), block);
      one.stop();
      await one.start();
      await (await one.growth()).step();
      assert.equal(one.reach, labelOffset(grown));
      one.stop();
      // The pool's own by now.
      write(one.data, labelOffset(DATA_BYTES), Buffer.alloc(4096, 7));
      await one.start();
    });
  }
});

test('a pool never grows onto a disk that is not its own', async (t) => {
  const one = await machine(t);
  const other = await one.disk('other', 2n * DATA_BYTES);
  await one.start();
  const { labelledBytes } = await one.record();
  // The paths lead to others now than when the pool was activated.
  for (const paths of [{ data: other }, { metadata: other }]) {
    await refusal((await one.growth(paths)).step(), /paths in BLOCKDELTA_POOLS/);
  }
  const content = await read(other, 0n, Number(2n * DATA_BYTES));
  assert.ok(content.equals(Buffer.alloc(content.length)));
  // The same device, and what is on it is not the pool's any more.
  await one.grow('data', 2n * DATA_BYTES);
  write(one.data, labelOffset(DATA_BYTES), Buffer.alloc(4096, 7));
  await refusal((await one.growth()).step(), /there is no label/);
  const place = await read(one.data, labelOffset(2n * DATA_BYTES), 4096);
  assert.ok(place.equals(Buffer.alloc(4096)));
  assert.equal(one.reach, labelOffset(DATA_BYTES));
  assert.equal((await one.record()).labelledBytes, labelledBytes);
});

test('larger metadata is used before larger data, and also without it', async (t) => {
  const one = await machine(t);
  const pool = await one.start();
  const old = await read(one.data, labelOffset(DATA_BYTES), 4096);
  await one.grow('metadata', 2n * DATA_BYTES);
  await one.grow('data', 2n * DATA_BYTES);
  // The label cannot be moved.
  write(one.data, labelOffset(DATA_BYTES), Buffer.alloc(4096, 7));
  const growth = await one.growth();
  const { events, probe } = monitor(pool, growth);
  await probe();
  assert.equal((await pool.status()).totalMetadataBlocks, (2n * DATA_BYTES) / 4096n);
  assert.equal(one.reach, labelOffset(DATA_BYTES));
  one.kernel.mode = 'out_of_data_space';
  await probe();
  write(one.data, labelOffset(DATA_BYTES), old);
  one.kernel.mode = 'rw';
  await probe();
  assert.equal(one.reach, labelOffset(2n * DATA_BYTES));
  const label = /cannot grow: .* there is no label/;
  assertSaid(events, label, /has no data space left/, /can grow again/, /has recovered/);
});

test('unreadable metadata is logged once, and once more when it is readable again', async (t) => {
  const one = await machine(t);
  const pool = await one.start();
  let isDead = true;
  const assertReadable = async () => {
    if (isDead) throw CsiError.failedPrecondition('the metadata cannot be read');
    return undefined;
  };
  const { events, probe } = monitor(pool, await one.growth(), { assertReadable });
  await probe();
  await probe();
  isDead = false;
  await probe();
  assertSaid(events, /cannot be monitored: the metadata cannot be read/, /has recovered/);
});

test('data grows no further than the metadata can count', async (t) => {
  const one = await machine(t);
  const pool = await one.start();
  const { events, probe } = monitor(pool, await one.growth());
  // 67,106,816 blocks of data more: 4,111 whole ones of metadata count them.
  await one.grow('data', 4n << 40n);
  const needed = 4111n + 82n + 64n;
  one.kernel.usedMetadataBlocks = DATA_BYTES / 4096n - needed;
  const { labelledBytes } = await one.record();
  await probe();
  const said = [
    new RegExp(`need more than ${needed} free blocks .* enlarge its metadata`),
    /less than a quarter of its metadata left/,
  ];
  assertSaid(events, ...said);
  assert.equal(one.reach, labelOffset(DATA_BYTES));
  assert.equal((await one.record()).labelledBytes, labelledBytes);
  // The room is there as soon as the metadata device is larger.
  await one.grow('metadata', DATA_BYTES + 4096n);
  await probe();
  assert.equal(one.reach, labelOffset(4n << 40n));
  assertSaid(events, ...said, /can grow again/);
});

/** The files of an embedded pool. */
class Images {
  readonly devices: EmbeddedDevices;
  readonly metadata: string;
  readonly data: string;
  /** A call for which there is no space. */
  failing: string | null = null;

  constructor(t: TestContext) {
    const workspace = new Workspace('thin-images');
    t.after(() => workspace.dispose());
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

  /** The size of the metadata's file, all of which is allocated. */
  async metadataBytes(): Promise<bigint> {
    const { sizeBytes, allocatedBytes } = await this.file(this.metadata);
    assert.ok(allocatedBytes >= sizeBytes);
    return sizeBytes;
  }
}

test('embedded metadata is allocated in full or refused, and data is sparse', async (t) => {
  const one = new Images(t);
  const said = /no room for \d+ bytes more of metadata of pool 'default': free space there/;
  one.failing = 'allocateFile';
  await refused(one.devices.create(), 'RESOURCE_EXHAUSTED', said);
  one.failing = null;
  await one.devices.create();
  assert.equal(await one.metadataBytes(), 16n * MIB);
  const { sizeBytes, allocatedBytes } = await one.file(one.data);
  assert.equal(sizeBytes, 584n * MIB);
  assert.ok(allocatedBytes < MIB);
  await one.devices.open();
  one.failing = 'allocateFile';
  await refused(one.devices.growMetadata(), 'RESOURCE_EXHAUSTED', said);
  one.failing = null;
  assert.equal(await one.metadataBytes(), 16n * MIB);
  assert.equal(await one.devices.growMetadata(), true);
  assert.equal(await one.metadataBytes(), 32n * MIB);
});

test('a growth that is killed between file and device is completed, and not repeated', async (t) => {
  const one = new Images(t);
  await one.devices.create();
  const { metadataPath } = await one.devices.open();
  await native.run('allocateFile', { path: one.metadata, sizeBytes: 32n * MIB });
  assert.equal(await sizeOfDeviceAt(metadataPath), 16n * MIB);
  assert.equal(await one.devices.growMetadata(), true);
  assert.equal(await sizeOfDeviceAt(metadataPath), 32n * MIB);
  assert.equal(await one.metadataBytes(), 32n * MIB);
  await native.run('allocateFile', { path: one.metadata, sizeBytes: 40n * MIB });
  await one.devices.open();
  assert.equal(await sizeOfDeviceAt(metadataPath), 40n * MIB);
});

test('space freed in the file of the pool is free, whatever the host has', async (t) => {
  const one = new Images(t);
  await one.devices.create();
  await native.run('allocateFile', { path: one.data, sizeBytes: 584n * MIB });
  const { allocatedBytes } = await one.file(one.data);
  const full = await one.devices.freeBelow(allocatedBytes);
  const freed = await one.devices.freeBelow(0n);
  const overused = await one.devices.freeBelow(2n * allocatedBytes);
  // Others use the host meanwhile.
  const isNear = (a: bigint, b: bigint) => a - b < 250n * MIB && b - a < 250n * MIB;
  assert.ok(isNear(freed - full, allocatedBytes), `${freed} and ${full}`);
  assert.ok(isNear(overused, full), `${overused} and ${full}`);
});
