/** What a start removes that a killed run left, and when it does not. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { newVolume } from '../../../backend/harness.js';
import { PlainPool } from './plain-pool.js';

let pool: PlainPool;
let left: string;

beforeEach(async () => {
  pool = new PlainPool();
  await pool.backend.start();
  left = `${newVolume()}.tmp`;
});
afterEach(() => pool.backend.stop());

test('a pool that is not the right one keeps what a killed run left there', async () => {
  const { backend } = pool;
  writeFileSync(pool.path('volumes', left), 'half a clone');
  const refusal = new Error('another pool');
  let uuid = '';
  const start = backend.start('existing', async (found) => {
    uuid = found;
    throw refusal;
  });
  await assert.rejects(start, refusal);
  assert.ok(uuid !== '' && readFileSync(pool.path('pool-id'), 'utf8').startsWith(uuid));
  assert.ok(existsSync(pool.path('volumes', left)));
  assert.deepEqual(await backend.start(), [left]);
  assert.ok(!existsSync(pool.path('volumes', left)));
});

test('what cannot be removed is reported, and the pool is served', async () => {
  const { backend, events } = pool;
  mkdirSync(pool.path('volumes', left));
  assert.deepEqual(await backend.start(), []);
  assert.deepEqual(
    events.map(({ level }) => level),
    ['warn'],
  );
  assert.match(
    events[0]?.message ?? '',
    /^pool 'default': the temporary files of a killed run were not all removed: .*; the next start tries again$/,
  );
  await backend.check();
});
