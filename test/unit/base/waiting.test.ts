/** The parts that wait for others: polling, time-outs, shared answers, queues and turns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { bestEffort, logLeftover } from '../../../src/base/best-effort.js';
import { CsiError } from '../../../src/base/errors.js';
import { FairTurns, type Held, type Turn } from '../../../src/base/fair-turns.js';
import { pollUntil } from '../../../src/base/poll.js';
import { SingleFlight } from '../../../src/base/single-flight.js';
import { withTimeout } from '../../../src/base/timeout.js';
import { Recent } from '../../../src/driver/plugin/recent.js';
import { SerialQueue } from '../../../src/driver/serial-queue.js';

const HOUR_MS = 3_600_000;
const never = new Promise<string>(() => undefined);
const broken = async (): Promise<never> => {
  throw new Error('broken');
};

/** An operation that says how often it was asked for, once it is let go. */
function counted(letGo: Promise<unknown> = Promise.resolve()) {
  let asked = 0;
  return async (): Promise<number> => {
    asked += 1;
    const mine = asked;
    await letGo;
    return mine;
  };
}

test('polling ends with the first answer that is neither null nor false, and with a failure', async () => {
  const soon = { intervalMs: 1, timeoutMs: HOUR_MS };
  const answers = [null, false, 0, 7];
  assert.equal(await pollUntil(async () => answers.shift() ?? null, soon), 0);
  assert.deepEqual(answers, [7]);
  await assert.rejects(pollUntil(broken, soon), /^Error: broken$/);
});

test('polling gives null when the time is up, after one probe at least', async () => {
  for (const [timeoutMs, isMore] of [
    [0, false],
    [20, true],
  ] as const) {
    let probes = 0;
    const probe = (): boolean => {
      probes += 1;
      return false;
    };
    assert.equal(await pollUntil(probe, { intervalMs: 1, timeoutMs }), null);
    assert.equal(probes > 1, isMore);
  }
});

test('an aborted signal ends the polling with its reason, also during a pause', async () => {
  const controller = new AbortController();
  const reason = new Error('cancelled');
  const probe = (): null => {
    setImmediate(() => controller.abort(reason));
    return null;
  };
  const options = { intervalMs: HOUR_MS, timeoutMs: HOUR_MS, signal: controller.signal };
  await assert.rejects(pollUntil(probe, options), reason);
});

test('an operation in time gives its own result, a late one what onTimeout returns or throws', async () => {
  const late = (): never => assert.fail('called although the operation was in time');
  assert.equal(await withTimeout(Promise.resolve('done'), HOUR_MS, late), 'done');
  await assert.rejects(withTimeout(broken(), HOUR_MS, late), /^Error: broken$/);
  assert.equal(await withTimeout(never, 1, () => 'late'), 'late');
  await assert.rejects(withTimeout(never, 1, broken), /^Error: broken$/);
  const letGo = new AbortController();
  const failsLater = new Promise<string>((_, reject) => {
    letGo.signal.addEventListener('abort', () => reject(new Error('unheard')));
  });
  assert.equal(await withTimeout(failsLater, 1, () => 'late'), 'late');
  letGo.abort();
  await turn();
});

test('an aborted signal ends a wait as its time-out does', async () => {
  const controller = new AbortController();
  const waiting = withTimeout(never, HOUR_MS, () => 'late', controller.signal);
  controller.abort();
  assert.equal(await waiting, 'late');
  assert.equal(await withTimeout(never, HOUR_MS, () => 'late', controller.signal), 'late');
});

test('a cleanup that fails is told with what stays, and hides nothing', async () => {
  const logged: object[] = [];
  const leftover = { stays: 'a file', removedBy: 'the next start' };
  const onFailure = logLeftover({ warn: (line: object) => logged.push(line) }, leftover);
  await bestEffort(async () => undefined, onFailure);
  assert.deepEqual(logged, []);
  await bestEffort(broken, onFailure);
  assert.deepEqual(logged, [
    {
      ...leftover,
      err: CsiError.internal('internal error; the plugin log names the cause', { cause: new Error('broken') }),
    },
  ]);
});

test('a recent answer is shared, an older one asked for again once for all, a failure not kept', async () => {
  const young = new Recent(HOUR_MS, counted());
  assert.deepEqual([await young.get(), await young.get()], [1, 1]);
  const old = new Recent(1, counted());
  await old.get();
  await delay(5);
  assert.deepEqual(await Promise.all([old.get(), old.get()]), [2, 2]);
  const attempts = [broken, async () => 'works'];
  const failing = new Recent<string>(HOUR_MS, () => (attempts.shift() ?? broken)());
  await assert.rejects(failing.get(), /broken/);
  assert.equal(await failing.get(), 'works');
});

test('callers that come while an operation runs share it and its failure; a later one starts anew', async () => {
  const flights = new SingleFlight<string, number>();
  const gate = new AbortController();
  const opened = new Promise((resolve) => gate.signal.addEventListener('abort', resolve));
  const operation = counted(opened);
  const shared = [flights.run('pool', operation), flights.run('pool', operation)];
  const other = flights.run('other', operation);
  gate.abort();
  assert.deepEqual(await Promise.all([...shared, other]), [1, 1, 2]);
  assert.equal(await flights.run('pool', operation), 3);
  const failing = [flights.run('pool', broken), flights.run('pool', operation)];
  for (const each of failing) await assert.rejects(each, /^Error: broken$/);
  assert.equal(await flights.run('pool', operation), 4);
});

test('a queue runs one piece at a time in order, whatever fails, and idle waits for them all', async () => {
  const queue = new SerialQueue();
  await queue.idle();
  const seen: string[] = [];
  const piece = (name: string) => async (): Promise<string> => {
    seen.push(`${name} starts`);
    await turn();
    seen.push(`${name} ends`);
    return name === 'failing' ? broken() : name;
  };
  const pieces = ['failing', 'second', 'third'].map((name) => queue.run(piece(name)));
  const ended = Promise.allSettled(pieces);
  await queue.idle();
  assert.deepEqual(
    seen,
    ['failing', 'second', 'third'].flatMap((name) => [`${name} starts`, `${name} ends`]),
  );
  const results = (await ended).map((each) => ('value' in each ? each.value : each.reason.message));
  assert.deepEqual(results, ['broken', 'second', 'third']);
});

/** Asks for turns and tells in which order they come. */
class Order {
  readonly seen: string[] = [];
  readonly #turns: FairTurns;
  readonly #held: Held[] = [];

  constructor(turns = 1) {
    this.#turns = new FairTurns(turns);
  }

  ask(name: string, { group = '', peer = {}, signal = new AbortController().signal }: Partial<Turn>) {
    void this.#turns.begin({ group, peer, signal }).then(
      (held) => {
        this.seen.push(name);
        this.#held.push(held);
      },
      () => this.seen.push(`${name} gave up`),
    );
  }

  /** Ends the turns one after the other until nobody has one; `before` each. */
  async drain(before: () => void = () => undefined): Promise<void> {
    for (let turns = 0; turns < 100; turns += 1) {
      await turn();
      before();
      const held = this.#held.shift();
      if (held === undefined) return;
      this.#turns.end(held);
    }
  }
}

test('groups come in turn, however many of one group wait', async () => {
  const order = new Order();
  for (const group of [...'aaaaaabbb']) order.ask(group, { group });
  await order.drain();
  assert.equal(order.seen.slice(0, 6).join(''), 'ababab');
});

test('a peer that asks for one turn has it after two more at most, however many another asks for', async () => {
  const order = new Order();
  const peer = {};
  for (let index = 0; index < 50; index += 1) order.ask('greedy', { peer });
  order.ask('modest', {});
  await order.drain();
  assert.equal(order.seen.length, 51);
  assert.ok(order.seen.indexOf('modest') <= 2, order.seen.slice(0, 5).join());
});

test('a peer that has had turns gets more of them, however many new peers come', async () => {
  const order = new Order();
  const peer = {};
  order.ask('first', { peer });
  await turn();
  // It has used its place for a while, which no new peer has.
  await delay(5);
  order.ask('known', { peer });
  order.ask('new', {});
  await order.drain(() => order.ask('new', {}));
  assert.ok(order.seen.slice(0, 5).includes('known'), order.seen.slice(0, 9).join());
});

test('turns of one peer come in the order they were asked for', async () => {
  const order = new Order(2);
  const peer = {};
  for (const name of [...'012345678']) order.ask(name, { peer });
  await order.drain();
  assert.equal(order.seen.join(''), '012345678');
});

test('a peer that has given up has no turn and holds up nobody', async () => {
  const order = new Order();
  const abort = new AbortController();
  order.ask('first', {});
  order.ask('second', { signal: abort.signal });
  order.ask('third', {});
  abort.abort();
  order.ask('late', { signal: abort.signal });
  await order.drain();
  assert.deepEqual(order.seen.sort(), ['first', 'late gave up', 'second gave up', 'third']);
});
