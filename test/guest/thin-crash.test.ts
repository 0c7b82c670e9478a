/**
 * A process that dies, alone or with the whole machine, before any step of any change of a thin pool. The next
 * process finds what was confirmed, completes or rolls back the rest, and leaks nothing. A nightly run goes
 * through all steps. Of a plain one, a kill has each kind of step once, and a power cut every third step.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { kindOf, Steps } from '../faults/steps.js';
import { CrashingPool } from '../support/crashing-pool.js';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { CHANGES } from '../support/thin-changes.js';
import { Workspace } from '../support/workspace.js';
import { guestTest, isGuest } from './guest.js';

const STRIDE = isNightly ? 1 : 3;
const random = seededRandom('deaths in changes of a thin pool');

let pool: CrashingPool;
let steps: Steps;
let workspace: Workspace;
before(async () => {
  if (!isGuest) return;
  pool = await CrashingPool.make();
  workspace = new Workspace('steps');
  steps = await Steps.listen(workspace.path('socket'), { pool: pool.directory });
});
after(async () => {
  if (!isGuest) return;
  await steps.close();
  await pool.dispose();
  workspace.dispose();
});

const killed = new Set<string>();
const tally = { steps: 0, kills: 0, changes: 0 };

/** In a plain run those whose kind no change before has had. */
function chosen(names: readonly string[]): readonly string[] {
  if (isNightly) return names;
  return names.filter((name) => {
    const isFirst = !killed.has(kindOf(name));
    killed.add(kindOf(name));
    return isFirst;
  });
}

for (const [name, make] of Object.entries(CHANGES)) {
  guestTest(`${name}: a kill before any step loses and leaks nothing`, async () => {
    const done = await pool.killEverywhere(make, steps, chosen);
    assert.ok(done.steps > 0);
    tally.steps += done.steps;
    tally.kills += done.kills;
    tally.changes += 1;
  });

  guestTest(`${name}: a power cut after any step loses and leaks nothing`, async (t) => {
    const cuts = await pool.dieEverywhere(make, 1 + random.below(STRIDE), STRIDE);
    t.diagnostic(`${cuts} power cuts`);
  });
}

guestTest(
  'leftovers of all crashes are removed, and the pool is as empty as at the beginning',
  async (t) => {
    await pool.assertEmptied();
    t.diagnostic(
      `${tally.kills} of ${tally.steps} steps of ${tally.changes} operations were killed`,
    );
  },
);
