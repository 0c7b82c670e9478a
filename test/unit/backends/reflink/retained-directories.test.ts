/** What a pool says and does when something else is in the place of its directories of lists and of bases. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { refused } from '../../../support/refusal.js';
import { PlainPool } from './plain-pool.js';

let pool: PlainPool;
/** The first one has a list to the second one and will be deleted; the last one is deleted and hidden. */
let first: string;
let second: string;
let last: string;

beforeEach(async () => {
  pool = new PlainPool();
  const { backend } = pool;
  await backend.start();
  [first, second, last] = [pool.snapshot(), pool.snapshot(), pool.snapshot()];
  await backend.bases.retain(first, second);
  await pool.remove(last, null);
});
afterEach(() => pool.backend.stop());

/** In the place of the directory until it is repaired. Whatever is tried meanwhile, no snapshot changes. */
async function replaced(
  name: string,
  put: (path: string, saved: string) => void,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const [path, saved] = [pool.path(name), pool.path('saved')];
  const found = readdirSync(pool.path('snapshots'));
  renameSync(path, saved);
  put(path, saved);
  await meanwhile();
  assert.deepEqual(readdirSync(pool.path('snapshots')), found);
  rmSync(path);
  renameSync(saved, path);
}

const said = (name: string, what: string): RegExp =>
  new RegExp(
    `^${pool.path(name)} of pool 'default' should be a directory and is ${what}: .*; remove .* put the directory back`,
  );

for (const name of ['lists', 'bases'] as const) {
  test(`H33: a file in the place of ${name} is named, and nothing changes before it is gone`, async () => {
    const { backend } = pool;
    const calls = {
      check: () => backend.check(),
      retain: () => backend.bases.retain(second, name === 'lists' ? first : null),
      delete: () => (name === 'lists' ? backend.snapshots.delete(first) : backend.check()),
      drop: () => backend.bases.drop(last),
      start: () => backend.stop().then(() => backend.start()),
    };
    await replaced(
      name,
      (path) => writeFileSync(path, ''),
      async () => {
        for (const call of Object.values(calls))
          await refused(call(), 'FAILED_PRECONDITION', said(name, 'a regular file'));
      },
    );
    await backend.start();
    await backend.check();
    await pool.remove(first, second);
    await backend.bases.drop(last);
    for (const id of [first, last]) assert.ok(!existsSync(pool.path('snapshots', id)));
  });

  test(`H33: a link in the place of ${name} is not followed`, async () => {
    const { backend } = pool;
    await replaced(
      name,
      (path, saved) => symlinkSync(saved, path),
      () => refused(backend.check(), 'FAILED_PRECONDITION', said(name, 'none')),
    );
    await backend.check();
  });
}
