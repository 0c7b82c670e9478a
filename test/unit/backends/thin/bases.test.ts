/** What a thin pool retains as lists, and when a bookmark goes: the order of steps, with lists in memory. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Step } from '../../../../src/driver/backends/thin/bookmarks/retained-steps.js';
import { ThinBases } from '../../../../src/driver/backends/thin/bookmarks/thin-bases.js';
import type {
  BookmarkRecord,
  DeviceRecord,
} from '../../../../src/driver/backends/thin/ledger/ledger.js';
import { rejectsWith } from '../../../support/expect-status.js';

/** The pool has snapshots s1, s2, … of one volume; the time of each is its number. */
const timeOf = (id: string): number => Number(id.slice(1));

let snapshots: Map<string, DeviceRecord>;
let bookmarks: Map<string, BookmarkRecord>;
let lists: Step[];
/** What was done to lists and bookmarks. */
let done: string[];
let bases: ThinBases;
/** Called when a call of what the bases stand on begins, and when it ends. */
let onCall: () => Promise<void>;

beforeEach(begin);

function begin(): void {
  onCall = async () => undefined;
  snapshots = new Map(['s1', 's2', 's3', 's4'].map((id) => [id, deviceOf(id)]));
  bookmarks = new Map();
  lists = [];
  done = [];
  const ledger = {
    device: async (id: string) => snapshots.get(id) ?? null,
    devices: async () => [...snapshots.values()],
    bookmark: async (id: string) => bookmarks.get(id) ?? null,
    bookmarks: async () => [...bookmarks.values()],
    insertBookmark: async (record: BookmarkRecord) => {
      bookmarks.set(record.snapshotId, record);
    },
  };
  const metadata = {
    device: async (id: number) => ({ root: 1n, transactionId: BigInt(id), creationTime: id }),
  };
  const steps = {
    all: async () => lists,
    targetTime: async ({ targetId }: Step) => timeOf(targetId),
    build: async (base: { id: string }, target: { id: string }) => {
      assert.ok(
        snapshots.has(base.id) || bookmarks.has(base.id),
        `the bookmark ${base.id} is gone`,
      );
      done.push(`list ${base.id}-${target.id}`);
      return addList(base.id, target.id);
    },
    join: async (older: Step, newer: Step) => {
      addList(older.baseId, newer.targetId);
    },
    remove: async (step: Step) => {
      lists = lists.filter((each) => each !== step);
    },
  };
  const files = {
    drop: async (id: string) => {
      done.push(`no bookmark ${id}`);
      bookmarks.delete(id);
    },
    source: async (id: string) => ({ path: `bookmark of ${id}` }),
    list: async () => ({ usable: [...bookmarks.values()], invalidated: [] }),
  };
  const parts = { ledger, metadata, steps, bookmarks: files };
  const watched = Object.entries(parts).map(([name, part]) => [name, withCalls(part)]);
  bases = new ThinBases({ ...Object.fromEntries(watched), poolName: 'default' });
}

type Calls = Record<string, (...args: never[]) => Promise<unknown>>;

function withCalls(part: Calls): Calls {
  const watched = Object.entries(part).map(([name, call]) => [
    name,
    async (...args: never[]) => {
      await onCall();
      const found = await call(...args);
      await onCall();
      return found;
    },
  ]);
  return Object.fromEntries(watched);
}

function deviceOf(objectId: string): DeviceRecord {
  const common = { kind: 'snapshot', state: 'live', sizeBytes: 1n << 20n, open: false } as const;
  const deviceId = timeOf(objectId);
  return { ...common, objectId, lineage: 'vol-1', deviceId, madeAt: BigInt(deviceId) };
}

function addList(baseId: string, targetId: string): Step {
  const step = { baseId, targetId, path: `${baseId}.to.${targetId}`, storedBytes: 4096n };
  lists.push(step);
  return step;
}

function addBookmark(snapshotId: string, invalidReason: string | null = null): void {
  const creationTime = timeOf(snapshotId);
  const common = { lineage: 'vol-1', sizeBytes: 1n << 20n, storedBytes: 8n };
  bookmarks.set(snapshotId, { snapshotId, creationTime, invalidReason, ...common });
}

async function pathsFrom(baseId: string): Promise<readonly string[]> {
  const source = await bases.source(deviceOf('s4'), baseId);
  return source?.paths ?? [];
}

test('a bookmark goes after the list that takes its place is there, and stays if there is none', async () => {
  snapshots.delete('s1');
  addBookmark('s1');
  await bases.retain('s1', 's2');
  assert.deepEqual(done, ['list s1-s2', 'no bookmark s1']);
  snapshots.delete('s3');
  addBookmark('s3', 'of a test');
  done = [];
  assert.deepEqual(await bases.retain('s3', 's4'), { snapshotId: 's3', storedBytes: 0n });
  assert.deepEqual(done, []);
});

for (const look of ['list', 'source'] as const) {
  test(`${look}: a base stays usable while the bookmark that its lists lead to becomes a list`, async () => {
    for (let after = 1, isReached = true; isReached; after += 1) {
      begin();
      for (const id of ['s1', 's2']) snapshots.delete(id);
      addList('s1', 's2');
      addBookmark('s2');
      let passed = 0;
      isReached = false;
      onCall = async () => {
        passed += 1;
        if (passed !== after) return;
        isReached = true;
        onCall = async () => undefined;
        await bases.retain('s2', 's4');
      };
      if (look === 'source') assert.deepEqual(await pathsFrom('s1'), ['s1.to.s2', 's2.to.s4']);
      else {
        const usable = (await bases.list()).usable.map(({ snapshotId }) => snapshotId);
        assert.deepEqual(
          usable.sort(),
          ['s1', 's2'],
          `after ${after} beginnings and ends of calls`,
        );
      }
    }
  });
}

test('a lost bookmark breaks the lists that lead to it, and no others', async () => {
  for (const id of ['s1', 's2', 's3']) snapshots.delete(id);
  addList('s1', 's2');
  addList('s3', 's4');
  addBookmark('s2');
  assert.deepEqual(await pathsFrom('s1'), ['s1.to.s2', 's2.to.s4']);
  lists.pop();
  addBookmark('s2', 'of a test');
  await rejectsWith(pathsFrom('s1'), 'NOT_FOUND', /snapshot s2 .* of a test/);
  assert.deepEqual(await pathsFrom('s3'), ['s3.to.s4']);
});

test('a list that was refused is not skipped: its base is lost, with the reason', async () => {
  for (const id of ['s1', 's2', 's3']) snapshots.delete(id);
  for (const [base, target] of [
    ['s1', 's2'],
    ['s2', 's3'],
    ['s3', 's4'],
  ] as const)
    addList(base, target);
  await bases.discard('s2.to.s3');
  await rejectsWith(pathsFrom('s1'), 'NOT_FOUND', /stored change list is damaged/);
  assert.match(bookmarks.get('s2')?.invalidReason ?? '', /damaged/);
  assert.deepEqual(await pathsFrom('s3'), ['s3.to.s4']);
});

test('lists that end at a base that is dropped are joined with its own', async () => {
  for (const id of ['s1', 's2']) snapshots.delete(id);
  addList('s1', 's2');
  addList('s2', 's4');
  await bases.drop('s2');
  assert.deepEqual(await pathsFrom('s1'), ['s1.to.s4']);
});

test('dropping a base keeps older ones usable for each later snapshot, and joins no more lists than that needs', async () => {
  for (const id of ['s1', 's2', 's4']) snapshots.delete(id);
  addList('s1', 's2');
  // As deltas to s6 and s5 have left them, and one to s4, which is only a base by now.
  for (const targetId of ['s6', 's5', 's4']) addList('s2', targetId);
  for (const id of ['s5', 's6']) snapshots.set(id, deviceOf(id));
  addList('s4', 's6');
  await bases.drop('s2');
  const paths = lists.map(({ path }) => path).sort();
  assert.deepEqual(paths, ['s1.to.s4', 's1.to.s5', 's4.to.s6']);
  assert.deepEqual((await bases.source(deviceOf('s5'), 's1'))?.paths, ['s1.to.s5']);
  assert.deepEqual((await bases.source(deviceOf('s6'), 's1'))?.paths, ['s1.to.s4', 's4.to.s6']);
});

test('a list to a later snapshot is none to one that it passes, and the base is not lost', async () => {
  snapshots.delete('s2');
  addList('s2', 's4');
  const refused = bases.source(deviceOf('s3'), 's2');
  await rejectsWith(refused, 'FAILED_PRECONDITION', /of another volume or not later/);
  assert.deepEqual(await pathsFrom('s2'), ['s2.to.s4']);
});
