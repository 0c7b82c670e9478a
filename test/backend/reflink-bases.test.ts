/**
 * What a reflink pool retains of deleted snapshots: each condition of docs/engineering/retained-bases.md, on a real file system;
 * and its stored lists around a deletion.
 */
import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode, SystemError } from '../../src/base/errors.js';
import type { PoolEvent } from '../../src/driver/backends/backend.js';
import type { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import type { SnapshotScan } from '../../src/driver/backends/snapshot-scan.js';
import { brokenLists } from '../support/broken-lists.js';
import { assertSound } from '../support/metadata-check.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import { scanAll } from '../support/wire.js';
import { skipUnlessRoot } from '../support/workspace.js';
import { newSnapshot, newVolume } from './harness.js';
import { ReflinkFixture } from './reflink-fixture.js';

const SIZE = 1 << 20;
const BLOCK = 4096;

const fixture = new ReflinkFixture('reflink-bases', 'xfs', 1024, beforeEach);
let directory: string;
let backend: ReflinkBackend;
let volumeId: string;
let events: PoolEvent[];
/** The snapshots of the volume in the order in which they were taken, with their bytes. */
let taken: { id: string; image: SnapshotImage }[];

beforeEach(async () => {
  if (skipUnlessRoot !== false) return;
  ({ directory } = fixture);
  events = [];
  backend = await open();
  await newSubject();
});

async function newSubject(): Promise<void> {
  volumeId = newVolume();
  taken = [];
  await backend.volumes.create(volumeId, BigInt(SIZE));
}

const open = (changeLists = true): Promise<ReflinkBackend> =>
  fixture.open({ changeLists, onEvent: (event) => events.push(event) });

/** Writes a block that is different each time, and takes a snapshot. */
async function take(): Promise<string> {
  const path = join(directory, 'volumes', volumeId);
  const bytes = readFileSync(path);
  const number = taken.length + 1;
  bytes.fill(number, number * BLOCK, (number + 1) * BLOCK);
  bytes.fill(number, 100 * BLOCK, 101 * BLOCK);
  writeFileSync(path, bytes, { flag: 'r+', flush: true });
  const id = newSnapshot();
  await backend.snapshots.create([{ volumeId, snapshotId: id }]);
  taken.push({ id, image: SnapshotImage.of(bytes) });
  return id;
}

async function store(targetId: string, baseId: string): Promise<void> {
  const list = await backend.changes.begin(targetId, baseId);
  while (list !== null && !(await list.step()));
}

async function remove(id: string, nextId: string | null): Promise<void> {
  await backend.bases.retain(id, nextId);
  if (nextId !== null) await backend.changes.join(id, nextId);
  await backend.snapshots.delete(id);
}

const imageOf = (id: string): SnapshotImage => {
  const found = taken.find((each) => each.id === id);
  assert.ok(found !== undefined);
  return found.image;
};

async function assertSoundDelta(targetId: string, baseId: string): Promise<void> {
  const delta = await scanAll(fixture.native, (await backend.changes.scan(targetId, baseId)).source);
  assertSound(imageOf(baseId), imageOf(targetId), delta, `delta from ${baseId}`);
}

/** In a page of entries, which the head does not cover. */
function damage(list: string): void {
  const bytes = readFileSync(list);
  bytes[BLOCK + 60] = (bytes[BLOCK + 60] ?? 0) ^ 1;
  writeFileSync(list, bytes);
}

const lists = (): string[] => readdirSync(join(directory, 'lists')).sort();

/** Without maps. */
const names = (): string[] => lists().filter((name) => name.includes('.to.'));

const usable = async (): Promise<string[]> =>
  backend.bases
    .all()
    .usable.map(({ snapshotId }) => snapshotId)
    .sort();

test('what is retained of a snapshot is verified before the snapshot is removed', async () => {
  const [first, second, third] = await takeListed();
  const list = join(directory, 'lists', `${first}.to.${second}`);
  damage(list);
  const damaged = readFileSync(list);
  await remove(first, second);
  assert.ok(!readFileSync(list).equals(damaged), 'a damaged list is not kept');
  assert.deepEqual(names(), [`${first}.to.${second}`, `${second}.to.${third}`].sort());
  await assertSoundDelta(third, first);
  await assertSoundDelta(second, first);
});

/** Two snapshots whose list has more than two pages of entries: in the second one every other block has changed. */
async function takeFarApart(): Promise<[string, string]> {
  const size = 17 << 20;
  volumeId = newVolume();
  await backend.volumes.create(volumeId, BigInt(size));
  const bytes = Buffer.alloc(size);
  const ids: string[] = [];
  for (const content of [1, 2]) {
    const file = openSync(join(directory, 'volumes', volumeId), 'r+');
    for (let at = 0; at < size; at += 2 * BLOCK) {
      bytes.fill(content, at, at + BLOCK);
      writeSync(file, bytes, at, BLOCK, at);
    }
    fsyncSync(file);
    closeSync(file);
    const id = newSnapshot();
    await backend.snapshots.create([{ volumeId, snapshotId: id }]);
    taken.push({ id, image: SnapshotImage.of(bytes) });
    ids.push(id);
  }
  return ids as [string, string];
}

test('H34: a list that a request left replaces no snapshot if any part of it is broken', async () => {
  const [first, second] = await takeFarApart();
  await store(second, first);
  const list = join(directory, 'lists', listOf(first, second));
  const ranges = async (): Promise<unknown> =>
    scanAll(fixture.native, (await backend.changes.scan(second, first)).source);
  const expected = await ranges();
  const broken = brokenLists(readFileSync(list));
  assert.ok(broken.length > 90);
  for (const { part, bytes } of broken) {
    writeFileSync(list, bytes);
    await backend.bases.retain(first, second);
    assert.ok(!readFileSync(list).equals(bytes), part);
    assert.deepEqual(await ranges(), expected, part);
  }
  await remove(first, second);
  await assertSoundDelta(second, first);
});

test('H34: a list that a deletion has built replaces no snapshot if any part of it is broken', async () => {
  const [first, second] = await takeFarApart();
  await store(second, first);
  const list = join(directory, 'lists', listOf(first, second));
  const broken = brokenLists(readFileSync(list));
  rmSync(list);
  await backend.stop();
  backend = await open();
  const { native } = fixture;
  const call = native.run.bind(native);
  try {
    for (const { part, bytes } of broken) {
      native.run = async (method, request) => {
        const answer = await call(method, request);
        if (method === 'buildChangeList' && existsSync(list)) writeFileSync(list, bytes);
        return answer;
      };
      await assert.rejects(backend.bases.retain(first, second), { code: 'EIO', path: list }, part);
      assert.ok(!existsSync(list), part);
    }
  } finally {
    native.run = call;
  }
  assert.deepEqual(backend.bases.all(), { usable: [], invalidated: [] });
  await remove(first, second);
  await assertSoundDelta(second, first);
});

test('a stored list takes no more space for being retained', async () => {
  const [first, second] = [await take(), await take()];
  await store(second, first);
  const { ino } = statSync(join(directory, 'lists', `${first}.to.${second}`));
  await remove(first, second);
  assert.equal(statSync(join(directory, 'lists', `${first}.to.${second}`)).ino, ino);
});

test('a newest snapshot is hidden until there is a next one', async () => {
  const [first, second] = [await take(), await take()];
  await remove(second, null);
  assert.deepEqual(backend.bases.all().usable, [{ snapshotId: second, storedBytes: 0n, pending: true }]);
  assert.deepEqual(
    (await backend.list()).snapshots.map(({ id }) => id),
    [first],
  );
  const third = await take();
  await assertSoundDelta(third, second);
  await remove(second, third);
  assert.deepEqual(
    backend.bases.all().usable.map((base) => base.pending),
    [undefined],
  );
  assert.ok(!existsSync(join(directory, 'snapshots', second)), 'its blocks are freed');
  await assertSoundDelta(third, second);
  await assertSoundDelta(third, first);
});

test('a kill between any two steps of a deletion leaves a sound base, or none', async () => {
  const [first, second, third] = await takeListed();
  // After the list is retained.
  await backend.bases.retain(second, third);
  await backend.start();
  await assertSoundDelta(third, second);
  // After the lists are joined. The next run begins the deletion anew.
  await backend.bases.retain(second, third);
  await backend.changes.join(second, third);
  await backend.start();
  await assertSoundDelta(third, second);
  await assertSoundDelta(third, first);
  // After the snapshot's file is gone, and its lists are not.
  await backend.bases.retain(second, third);
  await backend.snapshots.delete(second);
  await backend.start();
  await remove(second, third);
  assert.deepEqual(await usable(), [second]);
  await assertSoundDelta(third, second);
  // While a newest one becomes hidden, and while it is completed.
  await backend.bases.retain(third, null);
  await backend.start();
  await backend.snapshots.delete(third);
  const fourth = await take();
  await backend.bases.retain(third, fourth);
  await backend.start();
  await assertSoundDelta(fourth, third);
  await backend.snapshots.delete(third);
  for (const base of [second, third]) await assertSoundDelta(fourth, base);
  const unfinished = [
    join(directory, 'lists', `${first}.to.${fourth}.0123.tmp`),
    join(directory, 'bases', `${first}.hidden.tmp`),
  ];
  for (const path of unfinished) writeFileSync(path, '');
  await backend.start();
  assert.ok(!unfinished.some((path) => existsSync(path)));
});

test('a base that is dropped leaves the older ones usable', async () => {
  const ids = [await take(), await take(), await take(), await take()] as [string, string, string, string];
  const [first, second, third, last] = ids;
  await remove(first, second);
  await remove(second, third);
  await remove(third, last);
  assert.deepEqual(names(), [`${first}.to.${second}`, `${second}.to.${third}`, `${third}.to.${last}`].sort());
  await backend.bases.drop(second);
  assert.deepEqual(names(), [`${first}.to.${third}`, `${third}.to.${last}`].sort());
  for (const base of [first, third]) await assertSoundDelta(last, base);
  await refused(backend.changes.scan(last, second), 'FAILED_PRECONDITION');
  await backend.bases.drop(third);
  assert.deepEqual(names(), [`${first}.to.${last}`]);
  await assertSoundDelta(last, first);
  await backend.bases.drop(first);
  assert.deepEqual(names(), []);
});

/**
 * Runs a piece of work, and `change` as soon as that many native calls of the work have begun or ended. False: there
 * were not so many.
 */
async function changeDuring(work: () => Promise<void>, change: () => Promise<void>, after: number): Promise<boolean> {
  const { native } = fixture;
  const call = native.run.bind(native);
  let passed = 0;
  const pass = async (): Promise<void> => {
    passed += 1;
    if (passed !== after) return;
    native.run = call;
    await change();
  };
  native.run = async (...args) => {
    // Callers that come meanwhile share what it opens.
    if (args[0] === 'openDirectories') return call(...args);
    await pass();
    try {
      return await call(...args);
    } finally {
      await pass();
    }
  };
  try {
    await work();
  } finally {
    native.run = call;
  }
  return passed >= after;
}

for (const change of ['completed', 'dropped'] as const) {
  test(`a base stays usable while the next one, which its lists lead through, is ${change}`, async () => {
    for (const look of ['list', 'scan'] as const) {
      for (let after = 1, isDone = false; !isDone; after += 1) {
        await newSubject();
        const [first, second] = [await take(), await take()];
        await remove(first, second);
        if (change === 'completed') await remove(second, null);
        const last = await take();
        if (change === 'dropped') await remove(second, last);
        const scan = async (): Promise<void> => {
          try {
            await assertSoundDelta(last, first);
          } catch (thrown) {
            // Lists may be joined while they are read: a stream asks again.
            assert.ok(['ENOENT', 'LIST_INVALID'].includes(String(errorCode(thrown))));
            await assertSoundDelta(last, first);
          }
        };
        const list = async (): Promise<void> => assert.ok((await usable()).includes(first));
        const next = async (): Promise<void> =>
          change === 'dropped' ? backend.bases.drop(second) : remove(second, last);
        try {
          isDone = !(await changeDuring(look === 'list' ? list : scan, next, after));
        } catch (thrown) {
          throw new Error(`${look}, after ${after} beginnings and ends of calls`, { cause: thrown });
        }
      }
    }
  });
}

test('a damaged list invalidates its base and those before it, with the reason', async () => {
  const [first, second, last] = [await take(), await take(), await take()];
  await remove(first, second);
  await remove(second, last);
  const path = join(directory, 'lists', `${second}.to.${last}`);
  damage(path);
  await refused(afterRefusal(last, second), 'NOT_FOUND', /its stored change list is damaged/);
  await refused(backend.changes.scan(last, second), 'NOT_FOUND', /its stored change list is damaged/);
  await refused(backend.changes.scan(last, first), 'NOT_FOUND', new RegExp(`snapshot ${second}.*damaged`));
  assert.deepEqual(backend.bases.all().usable, []);
  for (const id of [first, second]) await backend.bases.drop(id);
  assert.deepEqual(backend.bases.all(), { usable: [], invalidated: [] });
});

/** What is scanned instead when a stored list was refused, as the plugin asks for it. */
async function afterRefusal(targetId: string, baseId: string): Promise<SnapshotScan | null> {
  const scan = await backend.changes.scan(targetId, baseId);
  const failure = await scanAll(fixture.native, scan.source).then(
    () => assert.fail('no list is refused'),
    (thrown: unknown) => thrown as SystemError,
  );
  assert.equal(failure.code, 'LIST_INVALID');
  let refusals = 0;
  try {
    return await scan.instead(failure, () => {
      refusals += 1;
    });
  } finally {
    assert.equal(refusals, 1);
  }
}

test('a list that cannot be read this time stays, and so does the base that depends on it', async () => {
  const [first, second] = [await take(), await take()];
  await remove(first, second);
  const path = join(directory, 'lists', `${first}.to.${second}`);
  const scan = await backend.changes.scan(second, first);
  for (const [code, at] of [
    ['EMFILE', path],
    ['EIO', path],
    ['ENOENT', directory],
  ] as const) {
    const failure = new SystemError(code, 'open', at, code);
    assert.equal(await scan.instead(failure, assert.fail), null);
  }
  await assertSoundDelta(second, first);
});

test('a chain of lists from deleted snapshots that does not fit together gives no list', async () => {
  const [first, second, last] = [await take(), await take(), await take()];
  await remove(first, second);
  await remove(second, last);
  const other = join(directory, 'lists', `${second}.to.${last}`);
  const own = join(directory, 'lists', `${first}.to.${second}`);
  writeFileSync(other, readFileSync(own));
  for (const base of [first, second]) {
    const { source } = await backend.changes.scan(last, base);
    await assert.rejects(scanAll(fixture.native, source), { code: 'LIST_INVALID' });
  }
  rmSync(own);
  await refused(afterRefusal(last, first), 'NOT_FOUND', /change list is damaged/);
  await refused(backend.changes.scan(last, first), 'NOT_FOUND', /change list is damaged/);
});

test('a list that a request needs beyond the retained ones is made for it, once', async () => {
  const [first, second] = [await take(), await take()];
  await remove(first, second);
  await take();
  const last = await take();
  // Nothing has made the lists of the live snapshots.
  await Promise.all([assertSoundDelta(last, first), assertSoundDelta(last, first)]);
  assert.ok(names().includes(`${second}.to.${last}`));
  await remove(second, last);
  await assertSoundDelta(last, first);
});

test('a pool without change lists retains no base, and refuses those that it retained before', async () => {
  const [first, second, third] = [await take(), await take(), await take()];
  await remove(first, second);
  await backend.stop();
  backend = await open(false);
  assert.deepEqual(await backend.bases.retain(second, third), {
    unretained: 'change lists are off (BLOCKDELTA_CHANGE_LISTS)',
  });
  await refused(backend.changes.scan(third, first), 'FAILED_PRECONDITION', /change lists are off/);
  await backend.stop();
  backend = await open();
  await assertSoundDelta(third, first);
});

test('a pool that runs low frees hidden snapshots, the oldest first, and says so', async () => {
  const older = await take();
  await remove(older, null);
  const otherVolume = newVolume();
  const newer = newSnapshot();
  await backend.volumes.create(otherVolume, BigInt(SIZE));
  await backend.snapshots.create([{ volumeId: otherVolume, snapshotId: newer }]);
  await remove(newer, null);
  const target = await take();
  const filler = join(directory, 'filler');
  // A pool of 1 GiB keeps a quarter free for writers.
  writeFileSync(filler, Buffer.alloc(800 << 20, 1), { flush: true });
  while (events.length < 2) await delay(20);
  assert.match(events[0]?.message ?? '', new RegExp(`bytes free.*${older}.*full one`));
  assert.match(events[1]?.message ?? '', new RegExp(newer));
  await refused(backend.changes.scan(target, older), 'NOT_FOUND', /running out of space/);
  const { usable: left, invalidated } = backend.bases.all();
  assert.deepEqual([left.length, invalidated.length], [0, 2]);
  const another = await take();
  await remove(target, another);
  const unretained = await backend.bases.retain(another, null);
  assert.ok(unretained !== null && 'unretained' in unretained, 'a low pool hides no snapshot');
  rmSync(filler);
});

/** Three snapshots of the volume, each but the first with its list. */
async function takeListed(): Promise<[string, string, string]> {
  const [first, middle, last] = [await take(), await take(), await take()];
  await store(middle, first);
  await store(last, middle);
  return [first, middle, last];
}

/** The lists that answer the request; null: it is answered from extents. */
async function answeredBy(targetId: string, baseId: string): Promise<string[] | null> {
  const { source } = await backend.changes.scan(targetId, baseId);
  return source.kind === 'lists' ? source.paths.map((path) => basename(path)) : null;
}

const listOf = (baseId: string, targetId: string): string => `${baseId}.to.${targetId}`;

test('the lists on both sides of a snapshot are joined before it is deleted', async () => {
  const [first, middle, last] = await takeListed();
  const both = [listOf(first, middle), listOf(middle, last)];
  assert.deepEqual(await answeredBy(last, first), both);
  await backend.changes.join(middle, last);
  assert.deepEqual(await answeredBy(last, first), [listOf(first, last)]);
  await backend.snapshots.delete(middle);
  assert.deepEqual(await answeredBy(last, first), [listOf(first, last)]);
  assert.deepEqual(names(), [listOf(first, last)], 'nothing was retained of it');
});

test('a deletion that stops after the lists were joined leaves every request answered', async () => {
  const [first, middle, last] = await takeListed();
  await backend.changes.join(middle, last);
  assert.deepEqual(await answeredBy(middle, first), [listOf(first, middle)]);
  assert.deepEqual(await answeredBy(last, middle), [listOf(middle, last)]);
  const found = lists();
  await backend.changes.join(middle, last);
  assert.deepEqual(lists(), found);
});

test('lists that are missing or damaged are not joined, and nothing is left of the attempt', async () => {
  const [first, middle, last] = await takeListed();
  const path = join(directory, 'lists', listOf(first, middle));
  damage(path);
  const found = lists();
  await backend.changes.join(middle, last);
  assert.deepEqual(lists(), found);
  assert.deepEqual(await answeredBy(last, middle), [listOf(middle, last)]);
  assert.equal((await afterRefusal(middle, first))?.storedLists, 0);
  await backend.changes.join(middle, last);
  assert.deepEqual(await answeredBy(last, middle), [listOf(middle, last)]);
  assert.equal(await answeredBy(last, first), null);
});

test('a start removes what a kill has left of joining lists, and of a deletion', async () => {
  const [first, middle, last] = await takeListed();
  const left = `${listOf(first, last)}.0123.tmp`;
  writeFileSync(join(directory, 'lists', left), '');
  await backend.snapshots.delete(last);
  writeFileSync(join(directory, 'lists', `${last}.map`), '');
  writeFileSync(join(directory, 'lists', listOf(middle, last)), '');
  await backend.stop();
  backend = await open();
  assert.deepEqual(names(), [listOf(first, middle)]);
  assert.deepEqual(await answeredBy(middle, first), [listOf(first, middle)]);
});

/** Takes a snapshot of a volume whose every other block holds data: one extent each. */
async function takeOfMany(): Promise<string> {
  const file = openSync(join(directory, 'volumes', volumeId), 'r+');
  for (let at = 0; at < SIZE; at += 2 * BLOCK) writeSync(file, Buffer.alloc(BLOCK, taken.length + 1), 0, BLOCK, at);
  fsyncSync(file);
  closeSync(file);
  const id = newSnapshot();
  await backend.snapshots.create([{ volumeId, snapshotId: id }]);
  return id;
}

test('a list that is given up, or whose snapshot is deleted meanwhile, leaves nothing', async () => {
  const [first, middle] = [await takeOfMany(), await takeOfMany()];
  const { native } = fixture;
  const call = native.run.bind(native);
  // As of a volume with far more extents.
  native.run = (method, request) =>
    call(method, method === 'buildChangeList' ? ({ ...(request as object), maxExtents: 1 } as never) : request);
  try {
    for (const end of ['abandon', 'delete'] as const) {
      const list = await backend.changes.begin(middle, first);
      assert.ok(list !== null && !(await list.step()));
      assert.ok(lists().some((name) => name.endsWith('.tmp')));
      if (end === 'abandon') await list.abandon();
      else {
        await backend.snapshots.delete(middle);
        await assert.rejects(list.step());
      }
      assert.deepEqual(lists(), []);
    }
  } finally {
    native.run = call;
  }
});
