/**
 * Operations of the table with a step that is held for longer than any timeout of the plugin, and nothing in the pool
 * answers meanwhile if that is where the step is. Callers come and go, none before the one before it has gone: a probe,
 * statistics, a scrape, and the same call again. When the step is let go, two wait: the same call, which needs what it
 * holds, and one that needs nothing but the pool.
 *
 * No test waits for a timeout: the plugin's clock is put forward until a caller has his answer.
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { StatusName } from '../../src/base/errors.js';
import { scrape } from '../support/metrics-text.js';
import { statusOf } from '../support/refusal.js';
import { type Attempt, type Choice, FaultTally, type Operation, onePerKind } from './faults.js';
import type { Scene } from './scene.js';
import { callOf } from './steps.js';

/** What each caller may be told. */
export const TOLD: readonly StatusName[] = ['OK', 'ABORTED', 'DEADLINE_EXCEEDED', 'FAILED_PRECONDITION'];
/** What a probe may be told while the plugin starts; UNAVAILABLE as long as nobody serves the socket. */
const TOLD_AT_START: readonly StatusName[] = ['OK', 'FAILED_PRECONDITION', 'UNAVAILABLE'];

/** Longer than the deadlines of calls, which are longer than what the plugin waits for by itself. */
const LONGEST_SECONDS = 120;
/** For that long the plugin refuses what took too long. */
export const REFUSED_SECONDS = 3600;
/** The longest that the clock stands between two seconds that it is put forward. */
const MAX_PAUSE_MS = 200;
/** Between two seconds that the clock is put forward while a probe waits. */
const PROBE_PAUSE_MS = 30;

export class StallTally extends FaultTally {
  readonly #answers = new Map<string, number>();

  count(caller: string, status: StatusName): void {
    const answer = `${caller} ${status}`;
    this.#answers.set(answer, (this.#answers.get(answer) ?? 0) + 1);
  }

  override toString(): string {
    const answers = [...this.#answers].sort().map(([answer, count]) => `${answer} ${count}`);
    const { operations, failed } = this;
    return `${operations} operations, ${failed} steps held, 6 callers each: ${answers.join(', ')}`;
  }
}

/** One step of each system call of the operation. */
export const onePerCall: Choice = (operation, steps) => onePerKind(callOf)(operation, steps);

/** The operation, with steps that are held instead of failing. */
export function stalled(operation: Operation, tally: StallTally): Operation {
  let visits: Visits;
  return {
    ...operation,
    onlyKills: false,
    prepare: async (scene) => {
      const attempt = await operation.prepare(scene);
      visits = new Visits(scene, attempt, tally);
      return { ...attempt, call: () => visits.call() };
    },
    failuresAt: (_scene, step) => [
      {
        what: 'held',
        fault: {
          step,
          does: 'wait',
          stalls: / <(pool|host)>/.exec(step)?.[1],
          until: () => (operation.isStart === true ? visits.runAtStart() : visits.run()),
        },
        judge: (answer) => visits.judge(answer),
      },
    ],
  };
}

/** Callers that come and go while a step of the first call is held. */
class Visits {
  #first: Promise<unknown> | undefined;
  /** Until all have their answers. Rejects if somebody was told what nobody may be. */
  #all: Promise<void> | undefined;

  constructor(
    private readonly scene: Scene,
    private readonly attempt: Attempt,
    private readonly tally: StallTally,
  ) {}

  /** The first one ends when all have ended. */
  async call(): Promise<unknown> {
    const answer = this.attempt.call();
    this.#first ??= answer;
    try {
      return await answer;
    } finally {
      if (this.#first === answer) await this.#all?.catch(() => undefined);
    }
  }

  /** Resolves when the step may go on. */
  async run(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#all = this.#run(resolve);
      this.#all.catch(() => resolve());
    });
  }

  /** Nobody but probes comes to a start, which waits for as long as it must. */
  async runAtStart(): Promise<void> {
    this.#all = this.#probe();
    await this.#all.catch(() => undefined);
  }

  async judge(answer: Promise<unknown>): Promise<void> {
    await this.#all;
    await this.#tell('held', answer);
    this.scene.assertLives();
    this.scene.steps.putForward(REFUSED_SECONDS);
  }

  async #probe(): Promise<void> {
    const statuses = new Set<StatusName>();
    for (let flown = 0; flown < LONGEST_SECONDS; ) {
      let isAnswered = false;
      const answer = statusOf(this.scene.probeAnew()).finally(() => {
        isAnswered = true;
      });
      // Where the plugin is not blocked, its wait for the start looks at the clock again and again.
      for (; !isAnswered && flown < LONGEST_SECONDS; flown += 1) {
        this.scene.steps.putForward(1);
        this.scene.assertLives();
        await Promise.race([answer, delay(PROBE_PAUSE_MS)]);
      }
      const status = await answer;
      assert.ok(TOLD_AT_START.includes(status), `a probe is told ${status}`);
      statuses.add(status);
    }
    for (const status of statuses) this.tally.count('probes', status);
  }

  async #run(letGo: () => void): Promise<void> {
    const again = (): Promise<unknown> => (this.attempt.ask ?? this.attempt.call)();
    const come = async ([caller, ask]: Caller): Promise<void> => {
      const answer = ask();
      await flyUntilEnded(this.scene, caller, answer);
      await this.#tell(caller, answer);
    };
    for (const caller of callersOf(this.scene)) await come(caller);
    await this.#scrape();
    await come(['again', again]);
    if (this.attempt.ask === undefined) {
      await flyUntilEnded(this.scene, 'the call', this.#first as Promise<unknown>);
    }
    const { controller, identity } = this.scene.client;
    const last = [again(), controller.GetCapacity({})];
    // They have come when this one is answered.
    await identity.GetPluginInfo({});
    letGo();
    for (const answer of last) await this.#tell('at the end', answer);
  }

  /**
   * By a clock that runs ahead, a request on its way to the plugin may exceed the limit of time that its listener has for it,
   * and is lost: then the clock runs slower for the next one.
   */
  async #scrape(): Promise<void> {
    for (let pauseMs = 0; pauseMs < MAX_PAUSE_MS; pauseMs = 2 * pauseMs + 1) {
      const answered = scrape(this.scene.metricsUrl).then(
        () => true,
        () => false,
      );
      await flyUntilEnded(this.scene, 'scrape', answered, pauseMs);
      if (!(await answered)) continue;
      this.tally.count('scrape', 'OK');
      return;
    }
    assert.fail('no scrape was answered, however slowly the clock ran');
  }

  async #tell(caller: string, answer: Promise<unknown>): Promise<void> {
    const status = await statusOf(answer);
    const why = await answer.then(() => '', String);
    assert.ok(TOLD.includes(status), `${caller}: ${why}`);
    this.tally.count(caller, status);
  }
}

type Caller = readonly [name: string, ask: () => Promise<unknown>];

/** Whom a step that is held does not concern. */
export function callersOf(scene: Scene): Caller[] {
  const { identity, node, controller } = scene.client;
  const [resident] = scene.residents;
  const statistics = (): Promise<unknown> => {
    if (resident === undefined) return controller.GetCapacity({});
    const { id, targetPath } = resident.volume;
    return node.NodeGetVolumeStats({ volume_id: id, volume_path: targetPath });
  };
  return [
    ['probe', () => identity.Probe({})],
    ['statistics', statistics],
  ];
}

/** Puts the plugin's clock forward until the call has ended. Fails if that is not before everybody has waited for too long. */
export async function flyUntilEnded(scene: Scene, what: string, call: Promise<unknown>, pauseMs = 0): Promise<void> {
  let hasEnded = false;
  const end = (): void => {
    hasEnded = true;
  };
  call.then(end, end);
  for (let flown = 0; !hasEnded; flown += 1) {
    assert.ok(flown < LONGEST_SECONDS, `${what} has no answer after ${LONGEST_SECONDS} s`);
    scene.steps.putForward(1);
    // Wakes the event loop up, so that it sees what time it is, and shows that nothing blocks it.
    await scene.client.identity.GetPluginInfo({});
    if (pauseMs > 0) await delay(pauseMs);
  }
}
