/** Work that is repeated: the waits between its rounds, its pauses and its end. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Periodic } from '../../../src/base/periodic.js';

const WAIT_MS = 10;

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => mock.timers.reset());

/** Lets this time pass, and what becomes due go on. */
async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  await turn();
}

/** A round lasts until `end`. */
class Rounds {
  begun = 0;
  readonly periodic = new Periodic(WAIT_MS, () => {
    this.begun += 1;
    return new Promise<number | null>((resolve) => {
      this.#end = resolve;
    });
  });
  #end: (next: number | null) => void = () => undefined;

  async end(next: number | null): Promise<void> {
    this.#end(next);
    await turn();
  }

  /** The next round begins after exactly this time. */
  async assertNextAfter(ms: number): Promise<void> {
    const { begun } = this;
    await pass(ms - 1);
    assert.equal(this.begun, begun);
    await pass(1);
    assert.equal(this.begun, begun + 1);
  }

  async assertNoneFollows(): Promise<void> {
    const { begun } = this;
    await pass(100 * WAIT_MS);
    assert.equal(this.begun, begun);
  }
}

/** Whether the promise is settled by now. */
async function hasEnded(promise: Promise<void>): Promise<boolean> {
  let ended = false;
  void promise.then(() => {
    ended = true;
  });
  await turn();
  return ended;
}

test('work that names no wait is repeated at the same interval', async () => {
  let begun = 0;
  const periodic = new Periodic(WAIT_MS, async () => {
    begun += 1;
  });
  periodic.start();
  for (const count of [1, 2, 3]) {
    await pass(WAIT_MS);
    assert.equal(begun, count);
  }
  await periodic.stop();
});

test('a round begins after the end of the one before and the wait that it named, however often start is called', async () => {
  const rounds = new Rounds();
  const { periodic } = rounds;
  periodic.start();
  periodic.start();
  await rounds.assertNextAfter(WAIT_MS);
  periodic.start();
  for (const wait of [5, 50, WAIT_MS]) {
    await rounds.assertNoneFollows();
    await rounds.end(wait);
    periodic.start();
    await rounds.assertNextAfter(wait);
  }
});

test('a round that asks for a pause is the last one until the next start', async () => {
  const rounds = new Rounds();
  rounds.periodic.start();
  await rounds.assertNextAfter(WAIT_MS);
  await rounds.end(null);
  await rounds.assertNoneFollows();
  rounds.periodic.start();
  await rounds.assertNextAfter(WAIT_MS);
  // What is started for may have happened after the round looked for it.
  rounds.periodic.start();
  await rounds.end(null);
  await rounds.assertNextAfter(WAIT_MS);
  await rounds.end(null);
  await rounds.assertNoneFollows();
});

for (const end of ['pause', 'stop'] as const) {
  test(`${end} waits for the round under way, and no other follows`, async () => {
    const rounds = new Rounds();
    const { periodic } = rounds;
    periodic.start();
    await rounds.assertNextAfter(WAIT_MS);
    const ending = periodic[end]();
    assert.equal(await hasEnded(ending), false);
    assert.equal(periodic.isStopped, true);
    await rounds.end(5);
    assert.equal(await hasEnded(ending), true);
    await rounds.assertNoneFollows();
  });

  test(`${end} ends a wait at once`, async () => {
    const rounds = new Rounds();
    rounds.periodic.start();
    assert.equal(await hasEnded(rounds.periodic[end]()), true);
    await rounds.assertNoneFollows();
  });
}

test('a start after a pause begins anew, also while the last round is under way; after a stop it does nothing', async () => {
  const rounds = new Rounds();
  const { periodic } = rounds;
  periodic.start();
  await periodic.pause();
  periodic.start();
  assert.equal(periodic.isStopped, false);
  await rounds.assertNextAfter(WAIT_MS);
  const pausing = periodic.pause();
  periodic.start();
  await rounds.end(5);
  await pausing;
  await rounds.assertNextAfter(5);
  await rounds.end(5);
  await periodic.stop();
  periodic.start();
  assert.equal(periodic.isStopped, true);
  await rounds.assertNoneFollows();
});
