/**
 * A process that dies, alone or with the whole machine, between any two steps of any change of a thin
 * pool. The next process finds what was confirmed, completes or rolls back the rest, and leaks nothing.
 * A few steps of each change are drawn; the long mode goes through all.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { CrashingPool, type Death } from '../support/crashing-pool.js';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { CHANGES } from '../support/thin-changes.js';
import { guestTest, isGuest } from './guest.js';

const STRIDE = isNightly ? 1 : 2;
const random = seededRandom('deaths in changes of a thin pool');
const DEATHS: readonly Death[] = ['kill', 'power cut'];

let pool: CrashingPool | undefined;
before(async () => {
  if (isGuest) pool = await CrashingPool.make();
});
after(() => pool?.dispose());

for (const [name, make] of Object.entries(CHANGES)) {
  for (const death of DEATHS) {
    guestTest(`${name}: a ${death} after any step loses and leaks nothing`, async (t) => {
      const deaths = await pool?.dieEverywhere(make, death, 1 + random.below(STRIDE), STRIDE);
      assert.ok(deaths !== undefined);
      t.diagnostic(`${deaths} deaths`);
    });
  }
}

guestTest(
  'leftovers of all crashes are removed, and the pool is as empty as at the beginning',
  async () => {
    await pool?.assertEmptied();
  },
);
