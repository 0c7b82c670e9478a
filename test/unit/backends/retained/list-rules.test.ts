/** The rules of change lists one by one, on a pool in memory: what is kept, in which order, and what is told when something is lost. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { listName } from '../../../../src/driver/backends/retained/list-directory.js';
import { ListGraph } from '../../../../src/driver/backends/retained/list-graph.js';
import { ListRules, MAX_LISTS } from '../../../../src/driver/backends/retained/list-rules.js';
import { refused } from '../../../support/refusal.js';
import { Disk, MemoryListStore } from './memory-pool.js';

let disk: Disk;
let accesses: string[];
let store: MemoryListStore;
let rules: ListRules;

beforeEach(() => begin('reflink'));

/** A pool with snapshots s1 to s4 of one volume. */
async function begin(kind: 'reflink' | 'thin'): Promise<void> {
  disk = new Disk();
  accesses = [];
  for (const id of ['s1', 's2', 's3', 's4']) disk.snapshots.set(id, { identity: id, blocks: [] });
  store = new MemoryListStore(disk, async (access) => void accesses.push(access), kind);
  rules = new ListRules(store, 'default');
  await rules.load();
}

/** As a deletion of the snapshot ends. */
async function remove(id: string, nextId: string | null): Promise<void> {
  await rules.retain(id, nextId);
  if (nextId !== null) await rules.bridge(id, nextId);
  if (store.kind === 'reflink' && rules.needsHeld(id)) return;
  await store.removeSnapshot(id);
  await rules.removed(id);
}

async function listsFrom(baseId: string, targetId = 's4'): Promise<string[] | null> {
  return (await rules.listsFor(targetId, baseId))?.map(listName) ?? null;
}

const usable = (): string[] =>
  rules
    .all()
    .usable.map(({ snapshotId }) => snapshotId)
    .sort();

test('what is held of a snapshot goes after the list in its place is there, and stays if there is none', async () => {
  await remove('s4', null);
  assert.deepEqual([...disk.hidden], ['s4']);
  assert.ok(rules.needsHeld('s4'));
  disk.snapshots.set('s5', { identity: 's5', blocks: [] });
  accesses = [];
  await remove('s4', 's5');
  const done = accesses.filter((access) => /^(rename|forget|remove)/.test(access));
  assert.deepEqual([...new Set(done)], ['rename s4.to.s5.1', 'remove s4', 'forget s4']);
  assert.deepEqual([...disk.hidden], []);
});

test('a bookmark is no end of a list, and a snapshot before a bookmark is held', async () => {
  await begin('thin');
  await remove('s4', null);
  await remove('s3', 's4');
  assert.deepEqual([...disk.hidden], ['s4', 's3']);
  assert.deepEqual([...disk.lists.keys()], []);
});

test('the list that is retained is read before the snapshot goes, and made again if it is damaged', async () => {
  rules.made(await store.build('s1', 's2'));
  disk.lists.set('s1.to.s2', { base: 's1', target: 's2', blocks: [], isDamaged: true });
  await remove('s1', 's2');
  assert.equal(disk.lists.get('s1.to.s2')?.isDamaged, false);
  const [read, gone] = ['read s1.to.s2', 'remove s1'].map((access) => accesses.lastIndexOf(access));
  assert.ok((read ?? 0) < (gone ?? 0));
});

test('a loss of what is held breaks the lists that lead to it, and no others', async () => {
  await remove('s1', 's2');
  await remove('s2', null);
  await remove('s3', 's4');
  assert.deepEqual(await listsFrom('s1'), ['s1.to.s2', 's2.to.s4']);
  disk.lists.delete('s2.to.s4');
  await rules.load();
  rules.lost('s2', 'of a test');
  await refused(listsFrom('s1'), 'NOT_FOUND', /snapshot s2 .* of a test/);
  assert.deepEqual(await listsFrom('s3'), ['s3.to.s4']);
  assert.deepEqual(usable(), ['s3']);
});

test('a list that was refused is not skipped: its base is lost, and those before it, with the reason', async () => {
  await remove('s1', 's2');
  await remove('s2', 's3');
  await remove('s3', 's4');
  await rules.discard({ baseId: 's2', targetId: 's3' });
  await refused(listsFrom('s1'), 'NOT_FOUND', /snapshot s2 comes after it .*list is damaged/);
  assert.deepEqual(usable(), ['s3']);
  await rules.load();
  await refused(listsFrom('s2'), 'NOT_FOUND', /list is damaged/);
});

test('lists that end at a base that is dropped are joined with its own', async () => {
  await remove('s1', 's2');
  await remove('s2', 's3');
  await remove('s3', 's4');
  await rules.drop('s2');
  assert.deepEqual([...disk.lists.keys()].sort(), ['s1.to.s3', 's3.to.s4']);
  assert.deepEqual(await listsFrom('s1'), ['s1.to.s3', 's3.to.s4']);
  assert.deepEqual(usable(), ['s1', 's3']);
});

test('a deletion leaves of the lists of a snapshot only the one to the next snapshot', async () => {
  await remove('s1', 's2');
  assert.deepEqual(await listsFrom('s1', 's3'), ['s1.to.s2', 's2.to.s3']);
  assert.deepEqual(await listsFrom('s1', 's4'), ['s1.to.s2', 's2.to.s4']);
  await remove('s2', 's3');
  assert.deepEqual([...disk.lists.keys()].sort(), ['s1.to.s2', 's2.to.s3']);
  assert.deepEqual(await listsFrom('s1', 's4'), ['s1.to.s2', 's2.to.s3', 's3.to.s4']);
});

test('a deletion joins the lists around it, and removes those that lead to it', async () => {
  for (const [baseId, targetId] of [
    ['s1', 's2'],
    ['s2', 's3'],
    ['s3', 's4'],
  ] as const)
    rules.made(await store.build(baseId, targetId));
  await rules.bridge('s2', 's3');
  await store.removeSnapshot('s2');
  await rules.removed('s2');
  assert.deepEqual([...disk.lists.keys()].sort(), ['s1.to.s3', 's3.to.s4']);
  assert.deepEqual(await listsFrom('s1'), ['s1.to.s3', 's3.to.s4']);
});

test('a list is made once for requests that need it at the same time', async () => {
  await remove('s1', 's2');
  accesses = [];
  const both = await Promise.all([listsFrom('s1'), listsFrom('s1')]);
  assert.deepEqual(both, [
    ['s1.to.s2', 's2.to.s4'],
    ['s1.to.s2', 's2.to.s4'],
  ]);
  assert.equal(accesses.filter((access) => access.startsWith('rename')).length, 1);
});

test('more lists than native code opens at once are refused', async () => {
  await remove('s1', 's2');
  for (let at = 0; at <= MAX_LISTS; at += 1) {
    const [baseId, targetId] = [at === 0 ? 's2' : `x${at}`, at === MAX_LISTS ? 's4' : `x${at + 1}`];
    rules.made({ baseId, targetId, storedBytes: 1n });
  }
  await refused(listsFrom('s1'), 'FAILED_PRECONDITION', /1026 lists .* at most 1024 .*full backup/);
});

test('names of files that lead in a circle are of no use, and end no process', async () => {
  const graph = new ListGraph();
  for (const [baseId, targetId] of [
    ['s1', 's2'],
    ['s2', 's1'],
  ] as const) {
    graph.add({ baseId, targetId, storedBytes: 1n });
    graph.setDeleted(baseId);
  }
  assert.deepEqual([...graph.withChain(['s1', 's2'])], []);
  assert.equal(graph.chain('s1'), null);
});
