/**
 * Pulls without a router: transfers of one pool, replicas in another, and a catalogue. A failure at each step by number, after
 * which the pull goes on in the same process or after a restart, and ends with the snapshot, byte for byte.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { newSnapshotId, newVolumeId } from '../../../src/base/csi/handles.js';
import { CsiError } from '../../../src/base/errors.js';
import type { Backend, PoolReplicas } from '../../../src/driver/backends/backend.js';
import type { ReflinkBackend } from '../../../src/driver/backends/reflink/reflink-backend.js';
import { BackendRegistry } from '../../../src/driver/backends/registry.js';
import { type OpenCatalogue, openCatalogue } from '../../../src/driver/catalogue/catalogue-client.js';
import type { DescribedSnapshot, SnapshotRecord } from '../../../src/driver/catalogue/records.js';
import { ScanThreads } from '../../../src/driver/native/scan-threads.js';
import { OpenTransfers, type Transfer } from '../../../src/driver/replicas/open-transfers.js';
import { type Piece, Pulls } from '../../../src/driver/replicas/pulls.js';
import { ReplicaKeeper } from '../../../src/driver/replicas/replica-keeper.js';
import { PIECE_LIMITS, type PieceLimits } from '../../../src/driver/transfer/piece-list.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import { ReflinkPool } from '../../backend/reflink-fixture.js';
import { eventually } from '../../support/eventually.js';
import { isNightly } from '../../support/nightly.js';
import { seededRandom } from '../../support/random.js';
import { BLOCK as RAW, snapshotRecord, TEST_NODE_KEY, volumeRecord } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const MIB = 1 << 20;
const BLOCK = 4096;
const SIZE = 16 * MIB;
const READER = 'node-2';

const quiet = { info: () => undefined, warn: () => undefined };
const signal = new AbortController().signal;

const [from, to] = [new ReflinkPool(), new ReflinkPool()];
let source: ReflinkBackend;
let target: ReflinkBackend;
let catalogue: OpenCatalogue;
let transfers: OpenTransfers;
const taken = new Map<string, SnapshotRecord>();
const volume = volumeRecord({ volumeId: newVolumeId(TEST_NODE_KEY), sizeBytes: BigInt(SIZE) });

before(async () => {
  if (skipUnlessRoot !== false) return;
  from.make('pulled-from', 'xfs');
  to.make('pulled-to', 'btrfs');
  source = await from.open({ changeLists: true });
  target = await to.open();
  catalogue = await openCatalogue(to.workspace.path('catalogue.sqlite'));
  await catalogue.registerPool('default', '1'.repeat(32));
  transfers = await serving();
  await source.volumes.create(volume.volumeId, volume.sizeBytes);
});
after(async () => {
  await transfers?.stop();
  await catalogue?.close();
  await from.dispose();
  await to.dispose();
});

/** Pieces are small. Any port will do. */
async function serving(
  options: { ports?: number[]; leaseMs?: number; limits?: PieceLimits } = {},
): Promise<OpenTransfers> {
  const directory = from.workspace.path(`transfers-${Math.random()}`);
  await mkdir(directory, { mode: 0o700 });
  const known = {
    snapshotById: async (id: string) => taken.get(id) ?? null,
    retainedBaseById: async () => null,
  };
  return new OpenTransfers({
    catalogue: known,
    locks: new OperationLocks(),
    scanThreads: new ScanThreads(from.native, 1),
    backendOf: () => source,
    settings: { ports: options.ports ?? [0], host: '127.0.0.1', bytesPerSecond: null },
    directory,
    logger: quiet,
    limits: options.limits ?? { maxRanges: 12, maxBytes: 1n << 19n },
    ...(options.leaseMs === undefined ? {} : { leaseMs: options.leaseMs }),
  });
}

const random = seededRandom('pulls');

/** Writes to the volume, and takes a snapshot. */
async function snapshot(): Promise<DescribedSnapshot> {
  const { volumeId, sizeBytes } = volume;
  const { devicePath } = await source.attachments.attach(volumeId, { readOnly: false });
  const file = openSync(devicePath, 'r+');
  for (let index = 0; index < 30; index += 1) {
    const length = (1 + random.below(20)) * BLOCK;
    writeSync(file, random.bytes(length), 0, length, random.below((SIZE - length) / BLOCK) * BLOCK);
  }
  fsyncSync(file);
  closeSync(file);
  const snapshotId = newSnapshotId(TEST_NODE_KEY);
  await source.snapshots.create([{ volumeId, snapshotId }]);
  await source.attachments.detach(volumeId);
  const sequence = BigInt(taken.size + 1);
  taken.set(snapshotId, { ...snapshotRecord(volume, { snapshotId }), sequence });
  const facts = { pristine: false, fileSystem: null, capabilities: [RAW] };
  const origin = { catalogueUuid: 'c'.repeat(32), poolUuid: 'd'.repeat(32) };
  return { snapshotId, volumeId, sizeBytes, sequence, creationTimeNs: 1n, ...facts, ...origin };
}

const pieceOf = ({ piece, ticket, ...transfer }: Transfer): Piece => ({
  host: '127.0.0.1',
  ticket,
  ...transfer,
  ...piece,
});

interface Puller {
  catalogue?: OpenCatalogue;
  backend?: Backend;
  now?: () => number;
}

function puller({ catalogue: rows = catalogue, backend = target, now = Date.now }: Puller = {}) {
  const registry = new BackendRegistry([backend]);
  const deps = { catalogue: rows, registry, locks: new OperationLocks(), logger: quiet, now };
  const pulls = new Pulls({ ...deps, directory: to.workspace.directory });
  return { pulls, keeper: new ReplicaKeeper({ ...deps, pulls, transfers, lacksRows: () => false }) };
}

/** As a router does it. Rejects with why a piece was not fetched. */
async function bring(pulls: Pulls, wanted: DescribedSnapshot): Promise<number> {
  const { snapshotId } = wanted;
  for (let pieces = 1; ; pieces += 1) {
    const state = await pulls.state(snapshotId);
    if (state?.status === 'complete') {
      await transfers.close({ snapshotId, reader: READER });
      return pieces - 1;
    }
    const begun = state?.baseId == null ? [] : [{ snapshotId: state.baseId, sizeBytes: 0n }];
    const goesOn = state !== null && state.offset > 0n;
    const bases = goesOn ? begun : await pulls.bases(wanted);
    const asked = { snapshotId, reader: READER, bases, offset: state?.offset ?? 0n };
    const piece = pieceOf(await transfers.open(asked, signal));
    const { failure } = await pulls.pull(
      { snapshot: wanted, pool: '', cloneName: null, isAsked: true, piece },
      60_000,
      signal,
    );
    if (failure !== null) throw new Error(failure);
  }
}

function assertWhole({ snapshotId }: DescribedSnapshot): void {
  const [was, is] = [from, to].map(({ directory }, index) =>
    readFileSync(join(directory, 'snapshots', `${snapshotId}${index === 0 ? '' : '.replica'}`)),
  );
  assert.ok(was !== undefined && is?.equals(was), `the replica of ${snapshotId} differs`);
}

/** Fails the call with this number, once, before it does anything. Counts calls of the catalogue and the replicas. */
class Faults {
  count = 0;

  constructor(private readonly at: number) {}

  over<T extends object>(object: T): T {
    return new Proxy(object, {
      get: (held, name) => {
        const member: unknown = Reflect.get(held, name, held);
        if (typeof member !== 'function') return member;
        return async (...args: unknown[]): Promise<unknown> => {
          this.count += 1;
          const fails = this.count === this.at;
          // The kernel closes a descriptor even if that fails.
          if (fails && name !== 'close') throw new Error(`step ${this.at}`);
          const result: unknown = await Reflect.apply(member, held, args);
          if (fails) throw new Error(`step ${this.at}`);
          return name === 'open' ? this.over(result as object) : result;
        };
      },
    });
  }

  get backend(): Backend {
    const replicas = this.over(target.replicas as PoolReplicas);
    return { pool: target.pool, replicas, capacity: (age?: 'now' | 'recent') => target.capacity(age) } as Backend;
  }
}

test('a pull that fails at any step goes on, in the same process or after a restart, and ends with the snapshot', {
  skip: skipUnlessRoot,
}, async (t) => {
  const first = await snapshot();
  assert.ok((await bring(puller().pulls, first)) > 2);
  assertWhole(first);
  const second = await snapshot();
  let steps = 0;
  // All steps at night, each seventh one otherwise: each other one of these is followed by a restart.
  for (let at = 1; ; at += isNightly ? 1 : 7) {
    const faults = new Faults(at);
    const failing = puller({ catalogue: faults.over(catalogue), backend: faults.backend });
    await bring(failing.pulls, second).catch(() => undefined);
    const isOver = faults.count < at;
    const isRestarted = isOver || at % 2 === 1;
    if (isRestarted) await failing.pulls.stop();
    const next = isRestarted ? puller() : failing;
    if (isRestarted) await next.keeper.settle(target);
    await bring(next.pulls, second);
    assertWhole(second);
    await next.keeper.remove(second.snapshotId);
    assert.deepEqual(
      (await target.replicas.list()).map(({ snapshotId }) => snapshotId),
      [first.snapshotId],
    );
    if (isOver) break;
    steps += 1;
  }
  t.diagnostic(`${steps} steps failed, each once`);
  assert.ok(steps > (isNightly ? 30 : 4));
});

/** Whether a loop device has the file of the snapshot, which may be deleted. */
const isAttached = (snapshotId: string): boolean =>
  readdirSync('/sys/block').some((name) => {
    try {
      return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').includes(snapshotId);
    } catch {
      // It is no loop device, or nothing is attached to it.
      return false;
    }
  });

/** What a router asks for first. */
const opening = ({ snapshotId }: DescribedSnapshot, bases: DescribedSnapshot[] = []) => ({
  snapshotId,
  reader: READER,
  bases: bases.map((base) => ({ snapshotId: base.snapshotId, sizeBytes: base.sizeBytes })),
  offset: 0n,
});

const orderOf = (wanted: DescribedSnapshot, transfer: Transfer) => ({
  snapshot: wanted,
  pool: '',
  cloneName: null,
  isAsked: true,
  piece: pieceOf(transfer),
});

async function removeAll(): Promise<void> {
  const { keeper } = puller();
  for (const { snapshotId } of await catalogue.listReplicas()) await keeper.remove(snapshotId);
  assert.deepEqual(await target.replicas.list(), []);
  assert.equal(transfers.count, 0);
}

test('a transfer is prolonged by the same request, replaced by another, and ends with its lease', {
  skip: skipUnlessRoot,
}, async () => {
  const [first, second] = [await snapshot(), await snapshot()];
  const opened = await transfers.open(opening(second, [first]), signal);
  assert.equal(opened.baseId, first.snapshotId);
  assert.equal(await transfers.open(opening(second, [first]), signal), opened);
  // As a router asks that knows only what the reader has begun with.
  const prolonging = { ...opening(second), bases: [{ snapshotId: first.snapshotId, sizeBytes: 0n }] };
  assert.equal(await transfers.open(prolonging, signal), opened);
  const whole = await transfers.open(opening(second), signal);
  assert.deepEqual([whole.baseId, transfers.count], [null, 1]);
  assert.notEqual(whole.ticket.key, opened.ticket.key);
  await refused(transfers.open({ ...opening(second), reader: 'node-3' }, signal), 'ABORTED', /all 1 ports/);
  await transfers.close(opening(second));
  await transfers.close(opening(second));
  assert.equal(transfers.count, 0);
  const brief = await serving({ leaseMs: 1 });
  await brief.open(opening(second), signal);
  while (brief.count > 0) await new Promise(setImmediate);
  await refused((await serving({ ports: [] })).open(opening(second), signal), 'FAILED_PRECONDITION', /TRANSFER_PORTS/);
});

test('a base of another volume, of another size, or younger than the snapshot is not used', {
  skip: skipUnlessRoot,
}, async () => {
  const [first, second] = [await snapshot(), await snapshot()];
  const known = taken.get(first.snapshotId);
  assert.ok(known);
  const baseOf = async (changed: object, offered = [first]) => {
    taken.set(first.snapshotId, { ...known, ...changed });
    const { baseId } = await transfers.open(opening(second, offered), signal);
    await transfers.close(opening(second));
    return baseId;
  };
  assert.equal(await baseOf({}), first.snapshotId);
  assert.equal(await baseOf({ volumeId: newVolumeId(TEST_NODE_KEY) }), null);
  assert.equal(await baseOf({ sequence: second.sequence + 1n }), null);
  assert.equal(await baseOf({ state: 'deleting' }), null);
  assert.equal(await baseOf({}, [{ ...first, sizeBytes: first.sizeBytes + 512n }]), null);
  taken.delete(first.snapshotId);
  assert.equal(await baseOf({}, []), null);
  const unknown = { ...second, snapshotId: newSnapshotId(TEST_NODE_KEY) };
  await refused(transfers.open(opening(unknown), signal), 'NOT_FOUND', /does not exist/);
});

test('the bytes of a snapshot stay while a transfer needs them, and a source that ends early is asked again', {
  skip: skipUnlessRoot,
}, async () => {
  const wanted = await snapshot();
  const { pulls } = puller();
  const before = readFileSync(join(from.directory, 'snapshots', wanted.snapshotId));
  const ended = await transfers.open(opening(wanted), signal);
  await transfers.close(opening(wanted));
  const state = await pulls.pull(orderOf(wanted, ended), 60_000, signal);
  assert.deepEqual([state.status, state.offset], ['waiting', 0n]);
  assert.match(state.failure ?? '', /nbdcopy/);
  const whole = await serving({ limits: PIECE_LIMITS });
  const opened = await whole.open(opening(wanted), signal);
  assert.equal(opened.piece.nextOffset, null);
  await source.snapshots.delete(wanted.snapshotId);
  const done = await pulls.pull(orderOf(wanted, opened), 60_000, signal);
  assert.deepEqual([done.status, done.failure], ['complete', null]);
  await whole.stop();
  await eventually('no device of the transfer is left', () => !isAttached(wanted.snapshotId));
  const replica = readFileSync(join(to.directory, 'snapshots', `${wanted.snapshotId}.replica`));
  assert.ok(replica.equals(before));
  await removeAll();
});

test('a pool that is low on space ends the transfers of deleted snapshots, and no others', {
  skip: skipUnlessRoot,
}, async () => {
  const [kept, deleted] = [await snapshot(), await snapshot()];
  let freeBytes = 0n;
  const capacity = async () => ({ totalBytes: 1n << 40n, freeBytes });
  const { keeper } = puller({ backend: { pool: source.pool, capacity } as unknown as Backend });
  await transfers.open(opening(kept), signal);
  await keeper.round();
  assert.equal(transfers.count, 1);
  await transfers.close(opening(kept));
  await transfers.open(opening(deleted), signal);
  await source.snapshots.delete(deleted.snapshotId);
  taken.delete(deleted.snapshotId);
  freeBytes = 1n << 40n;
  await keeper.round();
  assert.equal(transfers.count, 1);
  freeBytes = 0n;
  await keeper.round();
  assert.equal(transfers.count, 0);
  await eventually('the bytes are free', () => !isAttached(deleted.snapshotId));
});

test('a replica whose last step has failed is completed before its row says so', {
  skip: skipUnlessRoot,
}, async () => {
  const wanted = await snapshot();
  const { pulls } = puller();
  await bring(pulls, wanted);
  execFileSync('chattr', ['-i', join(to.directory, 'snapshots', `${wanted.snapshotId}.replica`)]);
  await catalogue.advanceReplica(wanted.snapshotId, 0n, 1n);
  await bring(pulls, wanted);
  await target.replicas.check(wanted.snapshotId, wanted.sizeBytes);
  await removeAll();
});

test('a pull goes on only with the piece, the base and the snapshot that it has, and is made once for all who ask', {
  skip: skipUnlessRoot,
}, async () => {
  const [first, second] = [await snapshot(), await snapshot()];
  const { pulls, keeper } = puller();
  const begun = await transfers.open(opening(second), signal);
  await pulls.pull(orderOf(second, begun), 0, signal);
  await refused(keeper.remove(second.snapshotId), 'ABORTED', /is being pulled/);
  const both = [pulls.pull(orderOf(second, begun), 60_000, signal), pulls.pull(orderOf(second, begun), 60_000, signal)];
  const [one, other] = await Promise.all(both);
  assert.deepEqual([one?.offset, other?.offset], [begun.piece.nextOffset, begun.piece.nextOffset]);
  // The same piece once more, and one that is not wanted yet, change nothing.
  const late = { ...begun, offset: BigInt(SIZE) - 512n, piece: { ...begun.piece, nextOffset: null } };
  for (const stale of [{ ...begun, offset: 512n }, late]) {
    const { status, offset } = await pulls.pull(orderOf(second, stale), 60_000, signal);
    assert.deepEqual([status, offset], ['waiting', begun.piece.nextOffset]);
  }
  await transfers.close(opening(second));
  await bring(pulls, first);
  // From a base: the pull begins anew. A snapshot that another catalogue has taken is another snapshot.
  const anew = await transfers.open(opening(second, [first]), signal);
  assert.deepEqual([anew.baseId, anew.offset], [first.snapshotId, 0n]);
  await pulls.pull(orderOf(second, anew), 60_000, signal);
  assert.equal((await pulls.state(second.snapshotId))?.baseId, first.snapshotId);
  const foreign = { ...second, catalogueUuid: 'e'.repeat(32) };
  await refused(pulls.pull(orderOf(foreign, anew), 60_000, signal), 'ABORTED', /cannot be pulled from the base/);
  assert.deepEqual(await pulls.bases(foreign), []);
  await bring(pulls, second);
  assertWhole(second);
  await removeAll();
});

test('a pull that the pool has no room for is refused before it begins', { skip: skipUnlessRoot }, async () => {
  const wanted = await snapshot();
  const opened = await transfers.open(opening(wanted), signal);
  const totalBytes = 4n << 30n;
  const { remainingBytes, dataBytes, writtenBytes } = opened.piece;
  const room = remainingBytes - dataBytes + writtenBytes - 1n;
  const capacity = async () => ({ totalBytes, freeBytes: ((totalBytes / 4n) * 5n) / 4n + room });
  const { pulls } = puller({
    backend: { pool: target.pool, replicas: target.replicas, capacity } as unknown as Backend,
  });
  await refused(
    pulls.pull(orderOf(wanted, opened), 60_000, signal),
    'RESOURCE_EXHAUSTED',
    new RegExp(`has ${room} bytes`),
  );
  assert.equal(await pulls.state(wanted.snapshotId), null);
  const ample = async () => ({ totalBytes, freeBytes: totalBytes });
  const makeRoom = { value: async (bytes: bigint) => Promise.reject(CsiError.resourceExhausted(`no ${bytes}`)) };
  const cannotGrow = puller({
    backend: { pool: target.pool, replicas: Object.create(target.replicas, { makeRoom }), capacity: ample } as Backend,
  }).pulls;
  const refusal = new RegExp(`^no ${opened.piece.writtenBytes}$`);
  await refused(cannotGrow.pull(orderOf(wanted, opened), 60_000, signal), 'RESOURCE_EXHAUSTED', refusal);
  assert.equal(await cannotGrow.state(wanted.snapshotId), null);
  const without = puller({ backend: { pool: target.pool, capacity } as unknown as Backend });
  await refused(without.pulls.pull(orderOf(wanted, opened), 60_000, signal), 'FAILED_PRECONDITION', /cannot hold/);
  await transfers.close(opening(wanted));
});

test('replicas are kept for as long as they may be of use, and freed for space, the least recently used first', {
  skip: skipUnlessRoot,
}, async () => {
  const all = [await snapshot(), await snapshot(), await snapshot()];
  const [first, second, third] = all.map(({ snapshotId }) => snapshotId);
  let clock = Date.now();
  const now = (): number => clock;
  let freeBytes = 1n << 40n;
  const { replicas, pool } = target;
  const capacity = async () => ({ totalBytes: 1n << 40n, freeBytes });
  const backend = { pool, replicas, capacity } as unknown as Backend;
  const { pulls, keeper } = puller({ backend, now });
  const left = async () => (await catalogue.listReplicas()).map(({ snapshotId }) => snapshotId);
  const pullAll = async (): Promise<void> => {
    for (const each of all) {
      await bring(pulls, each);
      clock += 1000;
    }
  };
  await pullAll();
  clock += 3_590_000;
  await keeper.round();
  assert.deepEqual(await left(), [first, second, third]);
  clock += 60_000;
  await keeper.round();
  assert.deepEqual(await left(), [third]);
  clock += 6 * 24 * 3_600_000;
  await catalogue.replicaUsed(third ?? '', BigInt(clock) * 1_000_000n);
  clock += 6 * 24 * 3_600_000;
  await keeper.round();
  assert.deepEqual(await left(), [third]);
  clock += 25 * 3_600_000;
  await keeper.round();
  assert.deepEqual(await left(), []);
  // Low on space: none that a call has just asked for.
  await pullAll();
  freeBytes = 0n;
  await keeper.round();
  assert.deepEqual(await left(), [first, second, third]);
  clock += 15 * 60_000;
  await catalogue.replicaUsed(first ?? '', BigInt(clock) * 1_000_000n);
  const removed: string[] = [];
  const freeing = {
    ...backend,
    replicas: new Proxy(replicas, {
      get:
        (held, name) =>
        async (...args: never[]) => {
          if (name === 'delete') {
            removed.push(String(args[0]));
            if (removed.length === 2) freeBytes = 1n << 40n;
          }
          return (Reflect.get(held, name) as (...given: never[]) => unknown).apply(held, args);
        },
    }),
  } as Backend;
  await puller({ backend: freeing, now }).keeper.round();
  assert.deepEqual(removed, [second, third]);
  assert.deepEqual(await left(), [first]);
  await removeAll();
});

test('no rule removes a promised replica, also without its row, which the next pull finds again', {
  skip: skipUnlessRoot,
}, async () => {
  const wanted = await snapshot();
  const { snapshotId, sizeBytes } = wanted;
  const [promiseId, other] = ['1'.repeat(32), '2'.repeat(32)];
  let clock = Date.now();
  const { replicas, pool } = target;
  const full = async () => ({ totalBytes: 1n << 40n, freeBytes: 0n });
  const backend = { pool, replicas, capacity: full } as unknown as Backend;
  const { keeper } = puller({ backend, now: () => clock });
  await refused(keeper.promise(snapshotId, promiseId), 'NOT_FOUND', /no complete replica/);
  await bring(puller().pulls, wanted);
  await keeper.promise(snapshotId, promiseId);
  clock += 16 * 60_000;
  await keeper.round();
  clock += 365 * 24 * 3_600_000;
  await keeper.round();
  assert.equal(await keeper.remove(snapshotId), false);
  await keeper.endPromise(snapshotId, other);
  assert.equal((await catalogue.replicaById(snapshotId))?.promiseId, promiseId);
  // An earlier catalogue comes back: one that knows no promise, and one that knows no replica.
  await catalogue.replicaPromised(snapshotId, null);
  await keeper.settle(backend);
  assert.equal((await catalogue.replicaById(snapshotId))?.promiseId, promiseId);
  await catalogue.removeReplica(snapshotId);
  await keeper.settle(backend);
  await replicas.check(snapshotId, sizeBytes);
  const file = join(to.directory, 'snapshots', `${snapshotId}.replica`);
  const { ino } = statSync(file);
  // The pool is full.
  await bring(puller({ backend }).pulls, wanted);
  assert.deepEqual([statSync(file).ino, (await catalogue.replicaById(snapshotId))?.promiseId], [ino, promiseId]);
  await keeper.endPromise(snapshotId, promiseId);
  await keeper.endPromise(snapshotId, promiseId);
  assert.deepEqual([await replicas.list(), await catalogue.replicaById(snapshotId)], [[], null]);
  assert.deepEqual(readdirSync(join(to.directory, 'snapshots')), []);
});

test('a start makes rows and replicas agree', { skip: skipUnlessRoot }, async () => {
  const [gone, stray, behind] = [await snapshot(), await snapshot(), await snapshot()];
  const { pulls } = puller();
  for (const each of [gone, stray, behind]) await bring(pulls, each);
  await target.replicas.delete(gone.snapshotId);
  await catalogue.removeReplica(stray.snapshotId);
  await catalogue.advanceReplica(behind.snapshotId, 512n, 0n);
  const { pulls: after, keeper } = puller();
  await keeper.settle(target);
  assert.deepEqual(
    (await target.replicas.list()).map(({ snapshotId }) => snapshotId),
    [behind.snapshotId],
  );
  assert.equal(await after.state(gone.snapshotId), null);
  assert.equal((await after.state(behind.snapshotId))?.status, 'waiting');
  await bring(after, behind);
  assert.equal((await after.state(behind.snapshotId))?.status, 'complete');
  assertWhole(behind);
  await removeAll();
});
