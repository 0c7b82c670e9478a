/** What is opened for several callers at once is closed once, in every order of their coming, giving up and ending. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedOpening } from '../../../../src/driver/backends/reflink/shared-opening.js';

const CALLERS = 3;

interface Resource {
  closed: number;
  close(): void;
}

interface PendingOpening {
  succeed(): void;
  fail(): void;
}

type Stage = 'away' | 'waiting' | 'gave up' | 'working' | 'ending' | 'ended';

interface Caller {
  stage: Stage;
  giveUp(): void;
  end(): void;
}

/** One run, whose next step the test chooses among those that are possible. */
class Run {
  readonly order: string[] = [];
  readonly opened: Resource[] = [];
  readonly #pending: PendingOpening[] = [];
  readonly #callers: Caller[] = Array.from({ length: CALLERS }, () => ({
    stage: 'away',
    giveUp: () => undefined,
    end: () => undefined,
  }));
  readonly #calls: Promise<void>[] = [];
  readonly #shared = new SharedOpening<Resource>(
    () =>
      new Promise((resolve, reject) => {
        assert.equal(this.#pending.length, 0, 'two openings at once');
        this.#pending.push({
          succeed: () => {
            const resource = {
              closed: 0,
              close: () => {
                resource.closed += 1;
              },
            };
            this.opened.push(resource);
            resolve(resource);
          },
          fail: () => reject(new Error('no such directory')),
        });
      }),
  );

  get choices(): [string, () => void][] {
    const found: [string, () => void][] = [];
    for (const [number, caller] of this.#callers.entries()) {
      if (caller.stage === 'away') found.push([`${number} comes`, () => this.#come(caller)]);
      if (caller.stage === 'waiting') found.push([`${number} gives up`, () => caller.giveUp()]);
      if (caller.stage === 'working') found.push([`${number} ends`, () => caller.end()]);
    }
    const settle = (how: 'succeed' | 'fail') => (): void => this.#pending.pop()?.[how]();
    if (this.#pending.length > 0) {
      found.push(['it opens', settle('succeed')], ['it cannot be opened', settle('fail')]);
    }
    return found;
  }

  async assertDone(): Promise<void> {
    await Promise.all(this.#calls);
    assert.deepEqual(
      this.opened.map(({ closed }) => closed),
      this.opened.map(() => 1),
      'each is closed once',
    );
  }

  #come(caller: Caller): void {
    caller.stage = 'waiting';
    const patience = new Promise<never>((_resolve, reject) => {
      caller.giveUp = () => {
        caller.stage = 'gave up';
        reject(new Error('it does not answer'));
      };
    });
    const call = this.#shared.use(
      (resource) => Promise.race([resource, patience]),
      async (resource) => {
        assert.equal(resource.closed, 0, 'open at the beginning of the work');
        caller.stage = 'working';
        await new Promise<void>((resolve) => {
          caller.end = () => {
            caller.stage = 'ending';
            resolve();
          };
        });
        assert.equal(resource.closed, 0, 'open at the end of the work');
      },
    );
    this.#calls.push(
      call.catch((thrown: unknown) => {
        if (thrown instanceof assert.AssertionError) throw thrown;
      }),
    );
  }
}

/** Between two steps: all that follows has happened, or hardly anything. */
const PACES: Readonly<Record<string, () => Promise<void>>> = {
  'each step settles before the next': () => new Promise((resolve) => setImmediate(resolve)),
  'steps follow at once': async () => undefined,
};

for (const [pace, pause] of Object.entries(PACES)) {
  test(`what three callers open is closed once and never used afterwards, in every order: ${pace}`, async () => {
    let path: { taken: number; of: number }[] = [];
    let orders = 0;
    do {
      const run = new Run();
      for (let step = 0; ; step += 1) {
        const { choices } = run;
        if (choices.length === 0) {
          await new Promise((resolve) => setImmediate(resolve));
          if (run.choices.length === 0) break;
          step -= 1;
          continue;
        }
        path[step] ??= { taken: 0, of: choices.length };
        const choice = choices[path[step]?.taken ?? 0];
        assert.ok(choice, 'a repeated order has the same choices');
        run.order.push(choice[0]);
        choice[1]();
        await pause();
      }
      try {
        await run.assertDone();
      } catch (thrown) {
        throw new Error(run.order.join(', '), { cause: thrown });
      }
      orders += 1;
      while (path.length > 0 && isLast(path.at(-1))) path = path.slice(0, -1);
      const last = path.at(-1);
      if (last !== undefined) last.taken += 1;
    } while (path.length > 0);
    console.log(`# ${orders} orders`);
    assert.ok(orders > 1000, `only ${orders} orders`);
  });
}

function isLast(choice: { taken: number; of: number } | undefined): boolean {
  return choice !== undefined && choice.taken + 1 >= choice.of;
}
