/**
 * The rules of change lists in every history of a small world, with a kill at every access of the last operation, and
 * with every two calls at once in every order: each delta lists every block that differs, or is refused; and none is
 * refused that was promised. docs/engineering/soundness.md has the argument.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { isNightly } from '../../../support/nightly.js';
import { worldAfter } from './enumeration.js';
import type { EnumerationAnswer, EnumerationRequest } from './enumeration-worker.js';
import { interleave } from './interleaving.js';
import { operationIn } from './operations.js';
import type { World } from './world.js';

/** Three snapshots that differ from each other and from the volume: what happens to bases needs so many. */
const SNAPSHOTS = ['v0', 'v1', 'v0'].flatMap((block) => ['snapshot v', `write ${block}`]);
/** Histories, with the operations before two calls at once. */
const EXTENTS = isNightly
  ? [{ first: [], length: 7, before: 3 }]
  : [
      { first: [], length: 4, before: 2 },
      { first: SNAPSHOTS, length: 3, before: null },
    ];

for (const kind of ['reflink', 'thin'] as const) {
  test(`every delta is sound after each history in a ${kind} pool`, async (t) => {
    for (const extent of EXTENTS) {
      const workerData: EnumerationRequest = { kind, ...extent };
      const worker = new Worker(new URL('./enumeration-worker.js', import.meta.url), { workerData });
      const ended = Promise.all([once(worker, 'message'), once(worker, 'exit')]);
      const [[answer]] = (await ended) as [[EnumerationAnswer], unknown];
      for (const line of answer.said) t.diagnostic(line);
      assert.equal(answer.failure, null);
    }
  });
}

/** s0 is deleted and retained, its list leads to s1, and nothing has made the list from there to s2. */
const beforeTheList = (): Promise<World> =>
  worldAfter('reflink', ['snapshot v', 'snapshot v', 'write v0', 'snapshot v', 'delete s0']);

test('a request and a deletion never make one list at the same time', async (t) => {
  const world = await beforeTheList();
  world.disk.sharesNames = true;
  const calls = ['delta s0 s2', 'delete s1'].map((name) => operationIn(world, name));
  t.diagnostic(`${await interleave(world, calls, 'reflink')} orders`);
});

test('a request and the deletions that wait for it do not wait in a circle', async (t) => {
  const world = await beforeTheList();
  const calls = ['delta s0 s2', 'delete s1', 'delete s2'].map((name) => operationIn(world, name));
  t.diagnostic(`${await interleave(world, calls, 'reflink')} orders`);
});
