/** Stored change lists of a reflink pool around the deletion of a snapshot, also of one that stops half way. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { ReflinkBackend } from '../../src/backends/reflink/reflink-backend.js';
import { NativePool } from '../../src/native/pool.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';
import { newSnapshot, newVolume } from './harness.js';

const SIZE = 1n << 20n;
const BLOCK = 4096;
const options = { skip: skipUnlessRoot };

let workspace: Workspace;
let native: NativePool | undefined;
let directory: string;
let backend: ReflinkBackend;
/** Of one volume, in the order in which they were taken. */
let ids: [string, string, string];

beforeEach(async () => {
  if (skipUnlessRoot !== false) return;
  await backend?.stop();
  workspace?.dispose();
  workspace = new Workspace('reflink-lists');
  native ??= new NativePool(1);
  directory = makePoolFileSystem(workspace, 'xfs', 1024);
  const policy = { overcommitPercent: 100n, reservePercent: 0n, changeLists: true };
  const where = { pool: 'default', directory, embeddedPoolBytes: null, owner: 'lists' };
  backend = new ReflinkBackend(native, { ...where, ...policy });
  await backend.start();
  const volumeId = newVolume();
  await backend.createVolume(volumeId, SIZE);
  ids = [newSnapshot(), newSnapshot(), newSnapshot()];
  let before: string | null = null;
  for (const [index, snapshotId] of ids.entries()) {
    const file = readFileSync(join(directory, 'volumes', volumeId));
    file.fill(index + 1, index * BLOCK, (index + 1) * BLOCK);
    writeFileSync(join(directory, 'volumes', volumeId), file, { flag: 'r+', flush: true });
    await backend.createSnapshots([{ volumeId, snapshotId }]);
    if (before !== null) await store(snapshotId, before);
    before = snapshotId;
  }
});

after(async () => {
  await backend?.stop();
  await native?.close();
  workspace?.dispose();
});

async function store(targetId: string, baseId: string): Promise<void> {
  let progress: object | null = null;
  do progress = await backend.storeChanges(targetId, baseId, progress);
  while (progress !== null);
}

/** The snapshots whose lists answer the request; null: it is answered from extents. */
async function answeredBy(targetId: string, baseId: string): Promise<string[] | null> {
  const source = await backend.scanSource(targetId, baseId);
  if (source.kind !== 'lists') return null;
  return source.paths.map((path) => basename(path, '.delta'));
}

const names = (): string[] => readdirSync(join(directory, 'lists')).sort();

test('the lists on both sides of a snapshot are joined before it is deleted', options, async () => {
  const [first, middle, last] = ids;
  assert.deepEqual(await answeredBy(last, first), [middle, last]);
  await backend.joinChanges(middle, last);
  assert.deepEqual(await answeredBy(last, first), [last]);
  await backend.deleteSnapshot(middle);
  assert.deepEqual(await answeredBy(last, first), [last]);
});

test(
  'a deletion that stops after the lists were joined leaves every request answered',
  options,
  async () => {
    const [first, middle, last] = ids;
    await backend.joinChanges(middle, last);
    assert.deepEqual(await answeredBy(middle, first), [middle]);
    assert.equal(await answeredBy(last, middle), null);
    const found = names();
    await backend.joinChanges(middle, last);
    assert.deepEqual(names(), found);
    await store(last, middle);
    assert.deepEqual(await answeredBy(last, middle), [last]);
  },
);

test(
  'lists that are missing or damaged are not joined, and nothing is left of the attempt',
  options,
  async () => {
    const [first, middle, last] = ids;
    const path = join(directory, 'lists', `${middle}.delta`);
    const bytes = readFileSync(path);
    const damaged = Buffer.from(bytes);
    damaged[BLOCK + 100] = (damaged[BLOCK + 100] ?? 0) ^ 1;
    writeFileSync(path, damaged);
    const found = names();
    await backend.joinChanges(middle, last);
    assert.deepEqual(names(), found);
    assert.deepEqual(await answeredBy(last, middle), [last]);
    await backend.discardChanges(path);
    await backend.joinChanges(middle, last);
    assert.deepEqual(await answeredBy(last, middle), [last]);
    assert.equal(await answeredBy(last, first), null);
  },
);

test('a start removes what a kill has left of joining lists', options, async () => {
  const left = `${ids[2]}.delta.joined.tmp`;
  writeFileSync(join(directory, 'lists', left), '');
  await backend.sweep();
  assert.equal(names().includes(left), false);
  assert.deepEqual(await answeredBy(ids[2], ids[0]), [ids[1], ids[2]]);
});
