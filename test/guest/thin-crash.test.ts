/**
 * A process that dies, alone or with the whole machine, between any two steps of any change of a thin
 * pool. The next process finds what was answered, finishes or takes back the rest, and leaks nothing.
 * In the long mode only: it takes minutes.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CrashingPool, type Death } from '../support/crashing-pool.js';
import { CHANGES } from '../support/thin-changes.js';
import { guestSkip } from './guest.js';

const longOnly =
  process.env['BLOCKDELTA_TEST_LONG'] === '1' ? false : 'takes minutes: scripts/test --long';
const skip = guestSkip === false ? longOnly : guestSkip;

const DEATHS: readonly Death[] = ['kill', 'power cut'];

let pool: CrashingPool | undefined;
before(async () => {
  if (skip === false) pool = await CrashingPool.make();
});
after(() => pool?.dispose());

for (const [name, make] of Object.entries(CHANGES)) {
  for (const death of DEATHS) {
    test(`${name}: a ${death} after any step loses and leaks nothing`, { skip }, async (t) => {
      const deaths = await pool?.dieEverywhere(make, death);
      assert.ok(deaths !== undefined && deaths > 0);
      t.diagnostic(`${deaths} deaths`);
    });
  }
}

test('what the deaths have left goes, and the pool is as empty as at first', { skip }, async () => {
  await pool?.assertEmptied();
});
