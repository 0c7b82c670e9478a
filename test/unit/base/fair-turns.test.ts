/** Whose turn it is: by group, by peer, and without those who have given up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairTurns, type Held, type Turn } from '../../../src/base/fair-turns.js';

const never = new AbortController().signal;
const turnOf = (group: string, peer: object, signal = never): Turn => ({ group, peer, signal });

/** Asks for turns and tells in which order they come; each is ended when the next is asked for. */
class Order {
  readonly seen: string[] = [];
  readonly #turns: FairTurns;
  readonly #held: Held[] = [];

  constructor(turns: FairTurns) {
    this.#turns = turns;
  }

  ask(name: string, turn: Turn): void {
    void this.#turns.begin(turn).then(
      (held) => {
        this.seen.push(name);
        this.#held.push(held);
      },
      () => this.seen.push(`${name} gave up`),
    );
  }

  /** Ends the turns one after the other until nobody has one. */
  async drain(): Promise<void> {
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      const held = this.#held.shift();
      if (held === undefined) return;
      this.#turns.end(held);
    }
  }
}

test('groups come in turn, however many of one group wait', async () => {
  const order = new Order(new FairTurns(1));
  for (let index = 0; index < 6; index += 1) order.ask('a', turnOf('a', {}));
  for (let index = 0; index < 3; index += 1) order.ask('b', turnOf('b', {}));
  await order.drain();
  assert.equal(order.seen.slice(0, 6).join(''), 'ababab');
});

test('a peer that asks for one turn has it after two more at most, however many another asks for', async () => {
  const order = new Order(new FairTurns(1));
  const greedy = {};
  for (let index = 0; index < 50; index += 1) order.ask('greedy', turnOf('', greedy));
  order.ask('modest', turnOf('', {}));
  await order.drain();
  assert.equal(order.seen.length, 51);
  assert.ok(order.seen.indexOf('modest') <= 2, order.seen.slice(0, 5).join());
});

test('a peer that has had turns gets more of them, however many new peers come', async () => {
  const turns = new FairTurns(1);
  const known = {};
  // It has used its place for a while, which no new peer has.
  const first = await turns.begin(turnOf('', known));
  await new Promise((resolve) => setTimeout(resolve, 5));
  const seen: string[] = [];
  let held: Held | null = first;
  const ask = (name: string, peer: object): void => {
    void turns.begin(turnOf('', peer)).then((begun) => {
      seen.push(name);
      held = begun;
    });
  };
  ask('known', known);
  ask('new', {});
  while (held !== null && seen.length < 20) {
    // There is always a new one before the next turn.
    ask('new', {});
    const ended: Held = held;
    held = null;
    turns.end(ended);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(seen.slice(0, 4).includes('known'), seen.join());
});

test('turns of one peer come in the order they were asked for', async () => {
  const order = new Order(new FairTurns(2));
  const peer = {};
  for (let index = 0; index < 9; index += 1) order.ask(String(index), turnOf('', peer));
  await order.drain();
  assert.equal(order.seen.join(''), '012345678');
});

test('who has given up has no turn and holds up nobody', async () => {
  const order = new Order(new FairTurns(1));
  const abort = new AbortController();
  order.ask('first', turnOf('', {}));
  order.ask('second', turnOf('', {}, abort.signal));
  order.ask('third', turnOf('', {}));
  abort.abort();
  order.ask('late', turnOf('', {}, abort.signal));
  await order.drain();
  assert.deepEqual(order.seen.sort(), ['first', 'late gave up', 'second gave up', 'third']);
});
