/**
 * Which devices a thin pool accepts as its own: real loop devices and a real ledger under a simulated
 * device-mapper. A start is killed at every step where the label moves.
 */
import assert from 'node:assert/strict';
import { truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { after, type TestContext, test } from 'node:test';
import type { AsyncLedger, OpenLedger } from '../../src/backends/thin/ledger/ledger-client.js';
import { openLedger } from '../../src/backends/thin/ledger/ledger-client.js';
import { labelBlock, labelOffset } from '../../src/backends/thin/pool/device-label.js';
import { GivenDevices } from '../../src/backends/thin/pool/pool-devices.js';
import { PoolGrowth } from '../../src/backends/thin/pool/pool-growth.js';
import { PoolMonitor } from '../../src/backends/thin/pool/pool-monitor.js';
import { PoolNames } from '../../src/backends/thin/pool/pool-names.js';
import { PoolOpening } from '../../src/backends/thin/pool/pool-opening.js';
import { ThinPool } from '../../src/backends/thin/pool/thin-pool.js';
import { CsiError } from '../../src/base/errors.js';
import { SerialQueue } from '../../src/base/serial-queue.js';
import { NativePool } from '../../src/native/pool.js';
import { rejectsWith } from '../support/expect-status.js';
import { FakeThinKernel } from '../support/fake-thin-kernel.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const MIB = 1n << 20n;
const BLOCK = 65536n;
const DATA_BYTES = 128n * MIB + 4096n;
const FEATURES = { passDiscards: true, errorWhenFull: true, lowWaterPercent: 10n };
const options = { skip: skipUnlessRoot };
const native = new NativePool(1);
after(() => native.close());

/** One pool of its own, on loop devices. */
class Machine {
  readonly kernel = new FakeThinKernel();
  areOurs = false;
  readonly #workspace = new Workspace('thin-devices');
  #ledger: OpenLedger | null = null;

  constructor() {
    this.kernel.formatted = false;
    this.kernel.metadataBlocks = DATA_BYTES / 4096n;
  }

  async disk(name: string, sizeBytes = DATA_BYTES): Promise<string> {
    const file = this.#workspace.path(name);
    const names = { temporaryPath: `${file}.new`, finalPath: file };
    await native.run('createSparseFile', { ...names, sizeBytes });
    const request = { backingPath: file, readOnly: false, label: '' };
    return (await native.run('loopAttach', request)).device.path;
  }

  async grow(name: string, sizeBytes: bigint): Promise<void> {
    if (name === 'metadata') this.kernel.metadataBlocks = sizeBytes / 4096n;
    truncateSync(this.#workspace.path(name), Number(sizeBytes));
    await native.run('loopResize', { backingPath: this.#workspace.path(name) });
  }

  async ledger(): Promise<OpenLedger> {
    if (this.#ledger === null) {
      this.#ledger = await openLedger(this.#workspace.path('pool.sqlite'));
      await this.#ledger.makePool(BLOCK);
    }
    return this.#ledger;
  }

  /** As a plugin does that starts on these devices. */
  async start(metadata: string, data: string): Promise<ThinPool> {
    const { opening, pool } = await this.#parts(metadata, data);
    await (await opening.prepare()).activate();
    return pool;
  }

  async growth(metadata: string, data: string, ledger?: AsyncLedger): Promise<PoolGrowth> {
    const { pool, devices } = await this.#parts(metadata, data);
    return new PoolGrowth({
      ...{
        pool,
        devices,
        ledger: ledger ?? (await this.ledger()),
        queue: new SerialQueue('the pool'),
      },
      opened: { metadataPath: metadata, dataPath: data },
      ...{ dataBlockBytes: BLOCK, features: FEATURES, onEvent: () => undefined },
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
    ...{ pool, growth, metadata, lowWaterPercent: 10n, onStatus: async () => undefined },
    onEvent: ({ message }) => events.push(message),
  });
  return { events, probe: () => made.probe() };
}

async function machine(t: TestContext): Promise<Machine> {
  const made = new Machine();
  t.after(() => made.dispose());
  return made;
}

async function read(path: string, position: bigint, length: number): Promise<Buffer> {
  const handle = await open(path, 'r');
  const { buffer } = await handle.read(Buffer.alloc(length), 0, length, Number(position));
  await handle.close();
  return buffer;
}

async function write(path: string, position: bigint, bytes: Buffer): Promise<void> {
  const handle = await open(path, 'r+');
  await handle.write(bytes, 0, bytes.length, Number(position));
  await handle.sync();
  await handle.close();
}

test('formatting leaves a label beyond the blocks that the pool uses', options, async (t) => {
  const one = await machine(t);
  const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
  await one.start(metadata, data);
  const { uuid: poolUuid, labelledBytes, state } = await (await one.ledger()).pool();
  assert.equal(state, 'ready');
  assert.equal(labelledBytes, DATA_BYTES);
  assert.equal(one.reach, 127n * MIB);
  const block = labelBlock({ poolUuid, deviceBytes: DATA_BYTES });
  assert.deepEqual(await read(data, 127n * MIB, 4096), block);
  one.stop();
  await one.start(metadata, data);
  assert.equal(one.reach, 127n * MIB);
});

test('another disk, or a disk of another pool, is refused and not changed', options, async (t) => {
  const [one, two] = [await machine(t), await machine(t)];
  const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
  const [otherMetadata, otherData] = [await two.disk('metadata'), await two.disk('data')];
  const [blank, short] = [await one.disk('blank'), await one.disk('short', 64n * MIB)];
  await one.start(metadata, data);
  await two.start(otherMetadata, otherData);
  one.stop();
  const { uuid } = await (await two.ledger()).pool();
  const said = { code: 'FAILED_PRECONDITION' } as const;
  await rejectsWith(
    one.start(metadata, otherData),
    said.code,
    new RegExp(`label is of pool ${uuid}`),
  );
  await rejectsWith(one.start(metadata, blank), said.code, /there is no label/);
  await rejectsWith(one.start(metadata, short), said.code, /it ends before that/);
  assert.equal(one.kernel.active.size, 0);
  const content = await read(blank, 0n, Number(DATA_BYTES));
  assert.ok(content.equals(Buffer.alloc(content.length)));
  await one.start(metadata, data);
});

test('a new pool is created only if both ends of both devices are zeros', options, async (t) => {
  const one = await machine(t);
  const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
  const said = /is not empty, so no pool is created/;
  for (const device of [metadata, data]) {
    for (const at of [0n, MIB - 1n, DATA_BYTES - 1n, DATA_BYTES - MIB]) {
      await write(device, at, Buffer.of(1));
      await rejectsWith(one.start(metadata, data), 'FAILED_PRECONDITION', said);
      await write(device, at, Buffer.of(0));
    }
  }
  assert.equal((await (await one.ledger()).pool()).state, 'new');
  await one.start(metadata, data);
});

test('an interrupted formatting resumes, with its original disk only', options, async (t) => {
  const one = await machine(t);
  const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
  const blank = await one.disk('blank');
  one.kernel.before = (method) => {
    if (method === 'dmCreate') throw new Error('killed');
  };
  await assert.rejects(one.start(metadata, data), /killed/);
  assert.equal((await (await one.ledger()).pool()).state, 'formatting');
  one.kernel.before = () => undefined;
  // The kernel came as far as to write the superblock.
  one.kernel.formatted = true;
  await rejectsWith(one.start(metadata, blank), 'FAILED_PRECONDITION', /there is no label/);
  await one.start(metadata, data);
  assert.equal((await (await one.ledger()).pool()).state, 'ready');
});

test(
  'remains of an interrupted format without a superblock are ignored only in files of the pool',
  options,
  async (t) => {
    const one = await machine(t);
    const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
    one.kernel.before = (method) => {
      if (method === 'dmCreate') throw new Error('killed');
    };
    await assert.rejects(one.start(metadata, data), /killed/);
    one.kernel.before = () => undefined;
    await write(metadata, 8192n, Buffer.of(1));
    const said = new RegExp(
      `^${metadata} is not empty.* the remains of a format that was interrupted`,
    );
    await rejectsWith(one.start(metadata, data), 'FAILED_PRECONDITION', said);
    one.areOurs = true;
    await one.start(metadata, data);
    assert.equal((await (await one.ledger()).pool()).state, 'ready');
  },
);

test(
  'the label moves before the pool grows over it, with a kill at any step',
  options,
  async (t) => {
    for (const step of ['setLabelledBytes', 'dmReload', 'none']) {
      await t.test(`killed before ${step}`, async (u) => {
        const one = await machine(u);
        const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
        await one.start(metadata, data);
        const grown = 2n * DATA_BYTES;
        await one.grow('data', grown);
        one.kernel.before = (method) => {
          if (method === step) throw new Error('killed');
        };
        const real = await one.ledger();
        const ledger: AsyncLedger = {
          ...real,
          setLabelledBytes: async (bytes) => {
            if (step === 'setLabelledBytes') throw new Error('killed');
            await real.setLabelledBytes(bytes);
          },
        };
        const stepped = (await one.growth(metadata, data, ledger)).step();
        if (step === 'none') await stepped;
        else await assert.rejects(stepped, /killed/);
        one.kernel.before = () => undefined;

        const { uuid: poolUuid, labelledBytes } = await real.pool();
        const place = labelOffset(labelledBytes ?? 0n);
        assert.ok(one.reach <= place, 'the pool could overwrite its label');
        const block = labelBlock({ poolUuid, deviceBytes: labelledBytes ?? 0n });
        assert.deepEqual(await read(data, place, 4096), block);
        one.stop();
        await one.start(metadata, data);
        await (await one.growth(metadata, data)).step();
        assert.equal(one.reach, labelOffset(grown));
        one.stop();
        // The pool's own by now.
        await write(data, labelOffset(DATA_BYTES), Buffer.alloc(4096, 7));
        await one.start(metadata, data);
      });
    }
  },
);

test('a pool never grows onto a disk that is not its own', options, async (t) => {
  const one = await machine(t);
  const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
  const other = await one.disk('other', 2n * DATA_BYTES);
  await one.start(metadata, data);
  const { labelledBytes } = await (await one.ledger()).pool();
  const said = { code: 'FAILED_PRECONDITION' } as const;
  // The paths lead to others now than when the pool was activated.
  for (const paths of [
    [metadata, other],
    [other, data],
  ] as const) {
    await rejectsWith((await one.growth(...paths)).step(), said.code, /paths in BLOCKDELTA_POOLS/);
  }
  const content = await read(other, 0n, Number(2n * DATA_BYTES));
  assert.ok(content.equals(Buffer.alloc(content.length)));
  // The same device, and what is on it is not the pool's any more.
  await one.grow('data', 2n * DATA_BYTES);
  await write(data, labelOffset(DATA_BYTES), Buffer.alloc(4096, 7));
  await rejectsWith((await one.growth(metadata, data)).step(), said.code, /there is no label/);
  const place = await read(data, labelOffset(2n * DATA_BYTES), 4096);
  assert.ok(place.equals(Buffer.alloc(4096)));
  assert.equal(one.reach, labelOffset(DATA_BYTES));
  assert.equal((await (await one.ledger()).pool()).labelledBytes, labelledBytes);
});

test('larger metadata is used before larger data, and also without it', options, async (t) => {
  const one = await machine(t);
  const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
  const pool = await one.start(metadata, data);
  const old = await read(data, labelOffset(DATA_BYTES), 4096);
  await one.grow('metadata', 2n * DATA_BYTES);
  await one.grow('data', 2n * DATA_BYTES);
  // The label cannot be moved.
  await write(data, labelOffset(DATA_BYTES), Buffer.alloc(4096, 7));
  const growth = await one.growth(metadata, data);
  const { events, probe } = monitor(pool, growth);
  await probe();
  assert.equal((await pool.status()).totalMetadataBlocks, (2n * DATA_BYTES) / 4096n);
  assert.equal(one.reach, labelOffset(DATA_BYTES));
  one.kernel.mode = 'out_of_data_space';
  await probe();
  await write(data, labelOffset(DATA_BYTES), old);
  one.kernel.mode = 'rw';
  await probe();
  assert.equal(one.reach, labelOffset(2n * DATA_BYTES));
  const said = [
    ...[/cannot grow: .* there is no label/, /has no data space left/],
    ...[/can grow again/, /has recovered/],
  ];
  assert.equal(events.length, said.length);
  for (const [index, expected] of said.entries()) assert.match(events[index] ?? '', expected);
});

test(
  'unreadable metadata is logged once, and once more when it is readable again',
  options,
  async (t) => {
    const one = await machine(t);
    const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
    const pool = await one.start(metadata, data);
    let isDead = true;
    const assertReadable = async () => {
      if (isDead) throw CsiError.failedPrecondition('the metadata cannot be read');
      return undefined;
    };
    const { events, probe } = monitor(pool, await one.growth(metadata, data), { assertReadable });
    await probe();
    await probe();
    isDead = false;
    await probe();
    assert.equal(events.length, 2);
    assert.match(events[0] ?? '', /cannot be monitored: the metadata cannot be read/);
    assert.match(events[1] ?? '', /has recovered/);
  },
);

test('data grows no further than the metadata can count', options, async (t) => {
  const one = await machine(t);
  const [metadata, data] = [await one.disk('metadata'), await one.disk('data')];
  const pool = await one.start(metadata, data);
  const { events, probe } = monitor(pool, await one.growth(metadata, data));
  // 67,106,816 blocks of data more: 4,111 whole ones of metadata count them.
  await one.grow('data', 4n << 40n);
  const needed = 4111n + 82n + 64n;
  one.kernel.usedMetadataBlocks = DATA_BYTES / 4096n - needed;
  const { labelledBytes } = await (await one.ledger()).pool();
  await probe();
  assert.match(
    events[0] ?? '',
    new RegExp(`need more than ${needed} free blocks .* enlarge its metadata`),
  );
  assert.match(events[1] ?? '', /less than a quarter of its metadata left/);
  assert.equal(one.reach, labelOffset(DATA_BYTES));
  assert.equal((await (await one.ledger()).pool()).labelledBytes, labelledBytes);
  // The room is there as soon as the metadata device is larger.
  await one.grow('metadata', DATA_BYTES + 4096n);
  await probe();
  assert.equal(one.reach, labelOffset(4n << 40n));
  assert.match(events[2] ?? '', /can grow again/);
  assert.equal(events.length, 3);
});
