/**
 * A process that dies, alone or with the whole machine, before any step of any change of a thin pool. The next
 * process finds what was confirmed, completes or rolls back the rest, and leaks nothing. A nightly run has both
 * deaths at all steps; a plain one has one of them at each kind of step, and one in each change.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { kindOf, Steps } from '../faults/steps.js';
import { isNightly } from '../support/nightly.js';
import { Workspace } from '../support/workspace.js';
import { CrashingPool } from './crashing-pool.js';
import { guestTest, isGuest } from './guest.js';
import { CHANGES } from './thin-changes.js';

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

const traces = new Map<string, readonly string[]>();
const seen = new Set<string>();
const tally = { deaths: 0, died: 0 };

async function trace(): Promise<Map<string, readonly string[]>> {
  const found = await pool.traces(Object.values(CHANGES), steps);
  return new Map(Object.keys(CHANGES).map((name, index) => [name, found[index] ?? []]));
}

/** Those whose kind no change before had, or the one in the middle. */
function thinned(names: readonly string[]): readonly string[] {
  const first = names.filter((step) => !seen.has(kindOf(step)) && seen.add(kindOf(step)));
  return first.length > 0 ? first : names.slice(names.length >> 1).slice(0, 1);
}

guestTest('the steps of every change are found', async () => {
  for (const [name, names] of await trace()) {
    assert.ok(names.length > 0, name);
    traces.set(name, names);
  }
});

for (const [name, make] of Object.entries(CHANGES)) {
  guestTest(`${name}: no death before any step loses or leaks anything`, async () => {
    const names = traces.get(name) ?? [];
    for (const step of isNightly ? names : thinned(names)) {
      for (const cutsPower of isNightly ? [false, true] : [tally.deaths % 2 === 1]) {
        const death = { number: tally.deaths, cutsPower, takesBack: (tally.deaths & 2) === 0 };
        try {
          await pool.dieBefore(step, make, steps, death);
        } catch (thrown) {
          throw new Error(`${cutsPower ? 'the power' : 'life'} ended before ${step}`, {
            cause: thrown,
          });
        }
        tally.deaths += 1;
      }
      tally.died += 1;
    }
  });
}

guestTest(
  'leftovers of all crashes are removed, and the pool is as empty as at the beginning',
  async (t) => {
    if (isNightly) {
      for (const [name, names] of await trace()) {
        assert.deepEqual([...names].sort(), [...(traces.get(name) ?? [])].sort(), name);
      }
    }
    await pool.assertEmptied();
    const all = [...traces.values()].flat().length;
    const changes = `${traces.size} operations`;
    t.diagnostic(`${tally.died} of ${all} steps of ${changes} were killed`);
  },
);
