/** The file of a deleted snapshot, from which deltas go on: what another program did to it is found before it is used. */
import assert from 'node:assert/strict';
import { existsSync, renameSync, rmSync, utimesSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { refused } from '../../../support/refusal.js';
import { PlainPool } from './plain-pool.js';

let pool: PlainPool;

beforeEach(async () => {
  pool = new PlainPool();
  await pool.backend.start();
});
afterEach(() => pool.backend.stop());

const fileOf = (id: string): string => pool.path('snapshots', id);

async function hidden(): Promise<string> {
  const id = pool.snapshot();
  await pool.remove(id, null);
  return id;
}

const CHANGES: Record<string, [change: (id: string) => Promise<unknown>, reason: RegExp]> = {
  'written to': [async (id) => pool.changed.add(id), /was written to after it was taken/],
  removed: [async (id) => rmSync(fileOf(id)), /is gone/],
  touched: [async (id) => utimesSync(fileOf(id), 1, 1), /was changed by another program/],
  'exchanged with another one': [
    async (id) => {
      const other = await hidden();
      renameSync(fileOf(id), pool.path('saved'));
      renameSync(fileOf(other), fileOf(id));
      renameSync(pool.path('saved'), fileOf(other));
    },
    /was changed by another program/,
  ],
};

for (const [what, [change, reason]] of Object.entries(CHANGES)) {
  test(`H34: a hidden base that was ${what} is NOT_FOUND, with the reason, and so is an older one`, async () => {
    const { backend } = pool;
    const older = pool.snapshot();
    const base = pool.snapshot();
    await pool.remove(older, base);
    await pool.remove(base, null);
    await change(base);
    const target = pool.snapshot();
    for (const id of [older, base, base]) await refused(backend.changes.scan(target, id), 'NOT_FOUND', reason);
    const { usable, invalidated } = backend.bases.all([older, base]);
    assert.deepEqual(usable, []);
    for (const found of invalidated) assert.match(found.reason, reason);
    assert.deepEqual(
      pool.events.map(({ level }) => level),
      ['warn'],
    );
    assert.match(pool.events[0]?.message ?? '', reason);
    assert.ok(!existsSync(fileOf(base)));
    await backend.stop();
    await backend.start();
    await refused(backend.changes.scan(target, base), 'NOT_FOUND', /changed by another program/);
    for (const id of [older, base]) await backend.bases.drop(id);
    assert.deepEqual(backend.bases.all([older, base]), { usable: [], invalidated: [] });
  });
}

test('H34: no list is made from a hidden base that was changed, and one that was made stays in use', async () => {
  const { backend } = pool;
  const [unlisted, listed] = [await hidden(), await hidden()];
  const target = pool.snapshot();
  const list = await backend.changes.begin(target, listed);
  await list?.step();
  for (const id of [unlisted, listed]) {
    pool.changed.add(id);
    assert.equal(await backend.changes.begin(target, id), null);
    await pool.remove(id, target);
    assert.ok(!existsSync(fileOf(id)));
  }
  const { source } = await backend.changes.scan(target, listed);
  assert.equal(source.kind, 'lists');
  await refused(backend.changes.scan(target, unlisted), 'NOT_FOUND');
  assert.equal(pool.events.length, 1);
});

test('H34: a snapshot that was changed before its deletion is not hidden', async () => {
  const id = pool.snapshot();
  pool.changed.add(id);
  await refused(pool.backend.bases.retain(id, null), 'FAILED_PRECONDITION', /was written to/);
  await pool.backend.snapshots.delete(id);
  assert.ok(!existsSync(fileOf(id)));
});
