/**
 * What a reflink pool retains of deleted snapshots: each condition of docs/retained-bases.md, on a real file system;
 * and its stored lists around a deletion.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../src/base/errors.js';
import type { PoolEvent } from '../../src/driver/backends/backend.js';
import type { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import { rejectsWith } from '../support/expect-status.js';
import { assertSound } from '../support/metadata-check.js';
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
  await backend.createVolume(volumeId, BigInt(SIZE));
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
  await backend.createSnapshots([{ volumeId, snapshotId: id }]);
  taken.push({ id, image: SnapshotImage.of(bytes) });
  return id;
}

async function store(targetId: string, baseId: string): Promise<void> {
  let progress: object | null = null;
  do progress = await backend.storeChanges(targetId, baseId, progress);
  while (progress !== null);
}

async function remove(id: string, nextId: string | null): Promise<void> {
  await backend.retainBase(id, nextId);
  if (nextId !== null) await backend.joinChanges(id, nextId);
  await backend.deleteSnapshot(id);
}

const imageOf = (id: string): SnapshotImage => {
  const found = taken.find((each) => each.id === id);
  assert.ok(found !== undefined);
  return found.image;
};

async function assertSoundDelta(targetId: string, baseId: string): Promise<void> {
  const delta = await scanAll(fixture.native, await backend.scanSource(targetId, baseId));
  assertSound(imageOf(baseId), imageOf(targetId), delta, `delta from ${baseId}`);
}

/** In a page of entries, which the head does not cover. */
function damage(list: string): void {
  const bytes = readFileSync(list);
  bytes[BLOCK + 60] = (bytes[BLOCK + 60] ?? 0) ^ 1;
  writeFileSync(list, bytes);
}

const names = (): string[] => readdirSync(join(directory, 'bases')).sort();

const usable = async (): Promise<string[]> =>
  (await backend.retainedBases()).usable.map(({ snapshotId }) => snapshotId).sort();

test('what is retained of a snapshot is verified before the snapshot is removed', async () => {
  const [first, second, third] = await takeListed();
  const list = join(directory, 'lists', `${second}.delta`);
  damage(list);
  await remove(first, second);
  assert.ok(!existsSync(list), 'a damaged list is not kept');
  assert.deepEqual(names(), [`${first}.to.${second}`]);
  await assertSoundDelta(third, first);
  await assertSoundDelta(second, first);
});

test('a stored list takes no more space for being retained', async () => {
  const [first, second] = [await take(), await take()];
  await store(second, first);
  const inodeOf = (path: string) => readFileSync(path).toString('hex');
  const before = inodeOf(join(directory, 'lists', `${second}.delta`));
  await remove(first, second);
  assert.equal(inodeOf(join(directory, 'bases', `${first}.to.${second}`)), before);
});

test('a newest snapshot is hidden until there is a next one', async () => {
  const [first, second] = [await take(), await take()];
  await remove(second, null);
  assert.deepEqual((await backend.retainedBases()).usable, [
    { snapshotId: second, storedBytes: 0n, pending: true },
  ]);
  assert.deepEqual(
    (await backend.list()).snapshots.map(({ id }) => id),
    [first],
  );
  const third = await take();
  await assertSoundDelta(third, second);
  await remove(second, third);
  assert.deepEqual(
    (await backend.retainedBases()).usable.map((base) => base.pending),
    [undefined],
  );
  assert.ok(!existsSync(join(directory, 'snapshots', second)), 'its blocks are freed');
  await assertSoundDelta(third, second);
  await assertSoundDelta(third, first);
});

test('a kill between any two steps of a deletion leaves a sound base, or none', async () => {
  const [first, second, third] = await takeListed();
  // After the list is retained.
  await backend.retainBase(second, third);
  await backend.sweep();
  await assertSoundDelta(third, second);
  // After the lists are joined.
  await backend.joinChanges(second, third);
  await backend.sweep();
  await assertSoundDelta(third, second);
  await assertSoundDelta(third, first);
  // After the snapshot's file is gone, and its lists are not.
  await backend.deleteSnapshot(second);
  await backend.sweep();
  await remove(second, third);
  assert.deepEqual(await usable(), [second]);
  await assertSoundDelta(third, second);
  // While a newest one becomes hidden, and while it is completed.
  await backend.retainBase(third, null);
  await backend.sweep();
  await backend.deleteSnapshot(third);
  const fourth = await take();
  await backend.retainBase(third, fourth);
  await backend.sweep();
  await assertSoundDelta(fourth, third);
  await backend.deleteSnapshot(third);
  for (const base of [second, third]) await assertSoundDelta(fourth, base);
  const unfinished = join(directory, 'bases', `${first}.to.${fourth}.tmp`);
  writeFileSync(unfinished, '');
  await backend.sweep();
  assert.ok(!existsSync(unfinished));
});

test('a base that is dropped leaves the older ones usable', async () => {
  const ids = [await take(), await take(), await take(), await take()] as [
    string,
    string,
    string,
    string,
  ];
  const [first, second, third, last] = ids;
  await remove(first, second);
  await remove(second, third);
  await remove(third, last);
  assert.deepEqual(
    names(),
    [`${first}.to.${second}`, `${second}.to.${third}`, `${third}.to.${last}`].sort(),
  );
  await backend.dropBase(second);
  assert.deepEqual(names(), [`${first}.to.${third}`, `${third}.to.${last}`].sort());
  for (const base of [first, third]) await assertSoundDelta(last, base);
  await rejectsWith(backend.scanSource(last, second), 'FAILED_PRECONDITION');
  await backend.dropBase(third);
  assert.deepEqual(names(), [`${first}.to.${last}`]);
  await assertSoundDelta(last, first);
  await backend.dropBase(first);
  assert.deepEqual(names(), []);
});

/**
 * Runs a piece of work, and `change` as soon as that many native calls of the work have begun or ended. False: there
 * were not so many.
 */
async function changeDuring(
  work: () => Promise<void>,
  change: () => Promise<void>,
  after: number,
): Promise<boolean> {
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
          change === 'dropped' ? backend.dropBase(second) : remove(second, last);
        try {
          isDone = !(await changeDuring(look === 'list' ? list : scan, next, after));
        } catch (thrown) {
          throw new Error(`${look}, after ${after} beginnings and ends of calls`, {
            cause: thrown,
          });
        }
      }
    }
  });
}

test('a damaged list invalidates its base and those before it, with the reason', async () => {
  const [first, second, last] = [await take(), await take(), await take()];
  await remove(first, second);
  await remove(second, last);
  const path = join(directory, 'bases', `${second}.to.${last}`);
  damage(path);
  const source = await backend.scanSource(last, second);
  await assert.rejects(scanAll(fixture.native, source), { code: 'LIST_INVALID' });
  await backend.discardChanges(path);
  await rejectsWith(
    backend.scanSource(last, second),
    'NOT_FOUND',
    /its stored change list is damaged/,
  );
  await rejectsWith(
    backend.scanSource(last, first),
    'NOT_FOUND',
    new RegExp(`snapshot ${second}.*damaged`),
  );
  assert.deepEqual((await backend.retainedBases()).usable, []);
  for (const id of [first, second]) await backend.dropBase(id);
  assert.deepEqual(await backend.retainedBases(), { usable: [], invalidated: [] });
});

test('a chain of lists from deleted snapshots that does not fit together gives no list', async () => {
  const [first, second, last] = [await take(), await take(), await take()];
  await remove(first, second);
  await remove(second, last);
  const other = join(directory, 'bases', `${second}.to.${last}`);
  const own = join(directory, 'bases', `${first}.to.${second}`);
  writeFileSync(other, readFileSync(own));
  for (const base of [first, second]) {
    const source = await backend.scanSource(last, base);
    await assert.rejects(scanAll(fixture.native, source), { code: 'LIST_INVALID' });
  }
  rmSync(own);
  await rejectsWith(backend.scanSource(last, first), 'FAILED_PRECONDITION');
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

test('without change lists nothing is retained, and what was retained before is refused for now', async () => {
  const [first, second, third] = [await take(), await take(), await take()];
  await remove(first, second);
  await backend.stop();
  backend = await open(false);
  assert.deepEqual(await backend.retainBase(second, third), {
    unretained: 'change lists are off (BLOCKDELTA_CHANGE_LISTS)',
  });
  await rejectsWith(
    backend.scanSource(third, first),
    'FAILED_PRECONDITION',
    /change lists are off/,
  );
  await backend.stop();
  backend = await open();
  await assertSoundDelta(third, first);
});

test('a pool that runs low frees hidden snapshots, the oldest first, and says so', async () => {
  const older = await take();
  await remove(older, null);
  const otherVolume = newVolume();
  const newer = newSnapshot();
  await backend.createVolume(otherVolume, BigInt(SIZE));
  await backend.createSnapshots([{ volumeId: otherVolume, snapshotId: newer }]);
  await remove(newer, null);
  const target = await take();
  const filler = join(directory, 'filler');
  // A pool of 1 GiB keeps a quarter free for writers.
  writeFileSync(filler, Buffer.alloc(800 << 20, 1), { flush: true });
  while (events.length < 2) await delay(20);
  assert.match(events[0]?.message ?? '', new RegExp(`bytes free.*${older}.*full one`));
  assert.match(events[1]?.message ?? '', new RegExp(newer));
  await rejectsWith(backend.scanSource(target, older), 'NOT_FOUND', /running out of space/);
  const { usable: left, invalidated } = await backend.retainedBases();
  assert.deepEqual([left.length, invalidated.length], [0, 2]);
  const another = await take();
  await remove(target, another);
  const unretained = await backend.retainBase(another, null);
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

const lists = (): string[] => readdirSync(join(directory, 'lists')).sort();

/** The snapshots whose lists answer the request; null: it is answered from extents. */
async function answeredBy(targetId: string, baseId: string): Promise<string[] | null> {
  const source = await backend.scanSource(targetId, baseId);
  if (source.kind !== 'lists') return null;
  return source.paths.map((path) => basename(path, '.delta'));
}

test('the lists on both sides of a snapshot are joined before it is deleted', async () => {
  const [first, middle, last] = await takeListed();
  assert.deepEqual(await answeredBy(last, first), [middle, last]);
  await backend.joinChanges(middle, last);
  assert.deepEqual(await answeredBy(last, first), [last]);
  await backend.deleteSnapshot(middle);
  assert.deepEqual(await answeredBy(last, first), [last]);
});

test('a deletion that stops after the lists were joined leaves every request answered', async () => {
  const [first, middle, last] = await takeListed();
  await backend.joinChanges(middle, last);
  assert.deepEqual(await answeredBy(middle, first), [middle]);
  assert.equal(await answeredBy(last, middle), null);
  const found = lists();
  await backend.joinChanges(middle, last);
  assert.deepEqual(lists(), found);
  await store(last, middle);
  assert.deepEqual(await answeredBy(last, middle), [last]);
});

test('lists that are missing or damaged are not joined, and nothing is left of the attempt', async () => {
  const [first, middle, last] = await takeListed();
  const path = join(directory, 'lists', `${middle}.delta`);
  damage(path);
  const found = lists();
  await backend.joinChanges(middle, last);
  assert.deepEqual(lists(), found);
  assert.deepEqual(await answeredBy(last, middle), [last]);
  await backend.discardChanges(path);
  await backend.joinChanges(middle, last);
  assert.deepEqual(await answeredBy(last, middle), [last]);
  assert.equal(await answeredBy(last, first), null);
});

test('a start removes what a kill has left of joining lists', async () => {
  const [first, middle, last] = await takeListed();
  const left = `${last}.delta.joined.tmp`;
  writeFileSync(join(directory, 'lists', left), '');
  await backend.sweep();
  assert.equal(lists().includes(left), false);
  assert.deepEqual(await answeredBy(last, first), [middle, last]);
});

test('a deletion removes the list that is being made of the snapshot', async () => {
  const [, , last] = await takeListed();
  for (const kind of ['map', 'delta', 'allocated']) {
    writeFileSync(join(directory, 'lists', `${last}.${kind}.tmp`), '');
  }
  await remove(last, null);
  await backend.dropBase(last);
  assert.deepEqual(
    lists().filter((name) => name.startsWith(last)),
    [],
  );
});
