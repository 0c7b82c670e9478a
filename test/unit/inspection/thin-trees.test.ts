/**
 * How `thin-delta` and `thin-ls` read the trees of a pool that changes meanwhile: each answer is of one state of them,
 * read again while nothing of it was returned, and refused afterwards.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import { type Run, readRuns } from '../../../src/driver/inspection/thin-runs.js';
import { ThinTrees } from '../../../src/driver/inspection/thin-trees.js';
import { ThinDeltaKind, type ThinSuperblock } from '../../../src/driver/native/thin-addon.js';
import { FakeThinKernel, failure as failureOf, SUPERBLOCK } from '../../support/fake-thin-kernel.js';

const { SAME, LEFT_ONLY, DIFFERENT } = ThinDeltaKind;
const PATH = '/dev/mapper/vg-pool_tmeta';

type Method = keyof FakeThinPool['calls'];

/** A pool whose trees are read, also while it commits between two calls. */
class FakeThinPool extends FakeThinKernel {
  /** The copy that a metadata snapshot holds; null: as the current one. */
  held: ThinSuperblock | null = null;
  /** Answers of thinDelta, one after the other. */
  batches: readonly (readonly (readonly [kind: number, begin: number, length: number])[])[] = [[]];
  /** How often each function was called. */
  readonly calls = { thinSuperblock: 0, thinDevices: 0, thinDelta: 0 };
  /** Devices in one answer at most. */
  devicesPerAnswer = 65_536;
  /** Called before each answer: what happens in the pool meanwhile. */
  meanwhile: (method: Method, call: number) => void = () => undefined;

  override before = (method: string): void => {
    const name = method as Method;
    this.calls[name] += 1;
    this.meanwhile(name, this.calls[name]);
  };

  addDevice(deviceId: number, root: bigint): void {
    const times = { transactionId: 0n, creationTime: 1, snapshottedTime: 1 };
    this.thin.set(deviceId, { deviceId, root, mappedBlocks: 10n, ...times });
  }

  /** A commit that wrote to a device: its root moves. */
  write(deviceId: number): void {
    const device = this.thin.get(deviceId);
    if (device !== undefined) this.addDevice(deviceId, device.root + 1000n);
    this.commit();
  }

  /** A commit after which all roots are in the blocks where they were. */
  commit(): void {
    this.checksum += 1;
  }

  protected override answer(method: string, request: never): object {
    if (method === 'thinDelta') return this.#delta(request);
    const { superblock, deviceIds } = request as { superblock: bigint; deviceIds: unknown };
    if (method === 'thinSuperblock' && superblock !== 0n && this.held !== null) {
      return { superblock: this.held };
    }
    if (method === 'thinDevices' && deviceIds === null) {
      const devices = [...this.thin.values()].slice(0, this.devicesPerAnswer);
      return { devices, truncated: devices.length < this.thin.size };
    }
    return super.answer(method, request);
  }

  /** `firstBlock` is what the answer before told: the number of the batch, times a thousand. */
  #delta({ firstBlock, includeSame }: { firstBlock: bigint; includeSame: boolean }) {
    const index = Number(firstBlock) / 1000;
    const runs = (this.batches[index] ?? []).filter(([kind]) => includeSame || kind !== SAME);
    const words = BigUint64Array.from(runs.flat().map(BigInt));
    const done = index === this.batches.length - 1;
    return { words, nextBlock: BigInt((index + 1) * 1000), done, nodes: 5 };
  }
}

function poolOfTwo(...batches: FakeThinPool['batches']): FakeThinPool {
  const pool = new FakeThinPool();
  pool.addDevice(1, 11n);
  pool.addDevice(2, 12n);
  pool.batches = batches;
  return pool;
}

const refused = (message: RegExp) => ({ code: StatusCode.FAILED_PRECONDITION, message });

/** What happens during that call of the method, or during every one. */
function during(pool: FakeThinPool, on: Method, happens: () => void, number?: number) {
  pool.meanwhile = (method, call) => {
    if (method === on && (number ?? call) === call) happens();
  };
  return pool;
}

async function rootsOf(pool: FakeThinPool, signal?: AbortSignal): Promise<bigint[]> {
  const devices = await (await ThinTrees.open(pool, PATH, false)).devices(signal);
  return devices.map(({ root }) => root);
}

/** The runs that come before the delta ends or fails. */
async function runsOf(
  pool: FakeThinPool,
  signal = new AbortController().signal,
): Promise<{ runs: Run[]; failure: unknown }> {
  const runs: Run[] = [];
  const trees = await ThinTrees.open(pool, PATH, false);
  const request = { base: 1, target: 2, includeSame: true };
  try {
    for await (const batch of readRuns(trees, request, signal)) runs.push(...batch.runs);
  } catch (failure) {
    return { runs, failure };
  }
  return { runs, failure: null };
}

const run = (kind: Run['kind'], begin: bigint, length: bigint): Run => ({ kind, begin, length });

function write(pool: FakeThinPool, device: number, failure?: string): () => void {
  return () => {
    pool.write(device);
    if (failure !== undefined) throw failureOf(failure, 'read', '/pool block 12');
  };
}

test('trees are those of the current superblock, or of the metadata snapshot at the given block', async () => {
  const pool = poolOfTwo();
  const trees = await ThinTrees.open(pool, PATH, false);
  assert.equal(trees.superblock, trees.current);
  assert.deepEqual(await trees.rootsOf([2, 1]), [12n, 11n]);
  const none = { code: StatusCode.NOT_FOUND, message: /no thin device 3 in .*tmeta/ };
  await assert.rejects(trees.rootsOf([1, 3]), none);
  const unreserved = refused(/no metadata snapshot is held in .*tmeta: .*reserve_metadata_snap/);
  await assert.rejects(ThinTrees.open(pool, PATH, true), unreserved);
  pool.heldRoot = 55n;
  assert.equal((await ThinTrees.open(pool, PATH, 55n)).heldRoot, 55n);
  await assert.rejects(ThinTrees.open(pool, PATH, 56n), refused(/is at block 55, not 56/));
});

test('a list is read again after any commit during the read, and what failed there does not count', async () => {
  for (const [change, roots] of [
    [(pool: FakeThinPool) => write(pool, 1), [1011n, 12n]],
    [(pool: FakeThinPool) => write(pool, 1, 'THIN_METADATA_INVALID'), [1011n, 12n]],
    // All roots stay in their blocks.
    [(pool: FakeThinPool) => () => pool.commit(), [11n, 12n]],
  ] as const) {
    const pool = poolOfTwo();
    assert.deepEqual(await rootsOf(during(pool, 'thinDevices', change(pool), 1)), roots);
    assert.equal(pool.calls.thinDevices, 2);
  }
});

test('a list that keeps changing, or cannot be read, is refused with the remedy', async () => {
  const changing = poolOfTwo();
  const unstable = refused(/changed while it was read.*reserve_metadata_snap/);
  await assert.rejects(rootsOf(during(changing, 'thinDevices', write(changing, 1))), unstable);
  const invalid = during(poolOfTwo(), 'thinDevices', () => {
    throw failureOf('THIN_METADATA_INVALID', 'read', '/pool block 12');
  });
  await assert.rejects(rootsOf(invalid), refused(/block 12.*thin_check/));
});

test('a list is refused when its metadata snapshot was released, or replaced at the same block', async () => {
  const pool = poolOfTwo();
  pool.heldRoot = 55n;
  pool.held = SUPERBLOCK;
  const trees = await ThinTrees.open(pool, PATH, true);
  pool.commit();
  await trees.devices();
  pool.heldRoot = null;
  await assert.rejects(trees.devices(), refused(/released during the read/));
  pool.heldRoot = 55n;
  pool.held = { ...SUPERBLOCK, checksum: 99 };
  await assert.rejects(trees.devices(), refused(/released during the read/));
});

test('a pool of very many devices is listed in several calls, and can be aborted between two', async () => {
  const pool = new FakeThinPool();
  for (const id of [0, 1, 2, 70_000, 140_000, 2 ** 24 - 1]) pool.addDevice(id, BigInt(id));
  pool.devicesPerAnswer = 3;
  assert.deepEqual(await rootsOf(pool), [0n, 1n, 2n, 70_000n, 140_000n, 2n ** 24n - 1n]);
  const { thinDevices } = pool.calls;
  const stop = new AbortController();
  during(pool, 'thinDevices', () => stop.abort(new Error('enough')));
  await assert.rejects(rootsOf(pool, stop.signal), /enough/);
  assert.equal(pool.calls.thinDevices, thinDevices + 1);
});

test('adjacent runs of one kind are merged across batches, others are not', async () => {
  const pool = poolOfTwo(
    [
      [SAME, 0, 5],
      [DIFFERENT, 5, 2],
    ],
    [],
    [
      [DIFFERENT, 7, 1],
      [LEFT_ONLY, 8, 1],
    ],
    [[LEFT_ONLY, 10, 1]],
  );
  const { runs } = await runsOf(pool);
  assert.deepEqual(runs, [run(SAME, 0n, 5n), run(DIFFERENT, 5n, 3n), run(LEFT_ONLY, 8n, 1n), run(LEFT_ONLY, 10n, 1n)]);
});

test('a delta whose trees change before the first batch is returned starts again, for others it does not', async () => {
  for (const [device, failure, number, calls] of [
    [2, undefined, 1, 3],
    [2, 'THIN_METADATA_INVALID', 1, 3],
    [3, undefined, undefined, 2],
  ] as const) {
    const pool = poolOfTwo([[SAME, 0, 5]], [[DIFFERENT, 5, 1]]);
    pool.addDevice(3, 13n);
    const found = await runsOf(during(pool, 'thinDelta', write(pool, device, failure), number));
    assert.deepEqual(found, { runs: [run(SAME, 0n, 5n), run(DIFFERENT, 5n, 1n)], failure: null });
    assert.equal(pool.calls.thinDelta, calls);
  }
});

test('a delta whose trees change later, all the time or cannot be read fails, without the batch in doubt', async () => {
  const fails = (code: string) => () => () => {
    throw failureOf(code, 'read', '/pool block 12');
  };
  for (const [happens, number, message, returned] of [
    [write, 3, /thin device 1 or 2 in .* changed while it was read.*--metadata-snap/, 1],
    [write, undefined, /changed while it was read/, 0],
    [fails('THIN_METADATA_INVALID'), undefined, /block 12/, 0],
    [fails('SCAN_REPLACED'), undefined, /SCAN_REPLACED: reserve a metadata snapshot/, 0],
  ] as const) {
    const pool = poolOfTwo([[SAME, 0, 5]], [[DIFFERENT, 6, 1]], [[DIFFERENT, 9, 1]]);
    const { runs, failure } = await runsOf(during(pool, 'thinDelta', happens(pool, 1), number));
    await assert.rejects(Promise.reject(failure), refused(message));
    assert.equal(runs.length, returned, `${message}`);
  }
});

test('an aborted delta makes no further call', async () => {
  const interrupt = new AbortController();
  const pool = during(poolOfTwo([[SAME, 0, 5]], [[DIFFERENT, 5, 1]]), 'thinDelta', () =>
    interrupt.abort(new Error('enough')),
  );
  const { failure } = await runsOf(pool, interrupt.signal);
  assert.match(String(failure), /enough/);
  assert.equal(pool.calls.thinDelta, 1);
});
