/**
 * Every order of the steps of several actors: each is run from its beginning again, as far as the order that is tried says. An actor
 * takes a step when it is its turn, and dies where the order ends it.
 */

/** Which actor takes each step, or dies instead of taking it. */
export type Order = readonly { readonly actor: number; readonly dies: boolean }[];

interface Waiting {
  go(): void;
}

/** Passed to an actor: each `step()` resolves when it is its turn. */
export type Step = () => Promise<void>;

export class Interleaving {
  readonly #waiting = new Map<number, Waiting>();
  #running = 0;
  #idle: (() => void) | null = null;

  /** Starts an actor. */
  start(actor: number, work: (step: Step) => Promise<void>): void {
    this.#running += 1;
    const step: Step = () =>
      new Promise((resolve) => {
        this.#waiting.set(actor, { go: resolve });
        this.#pause();
      });
    void work(step).finally(() => this.#pause());
  }

  /** Resolves when each actor waits for its turn, or has ended. Returns those that wait. */
  async settled(): Promise<number[]> {
    if (this.#running > 0) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
      });
    }
    return [...this.#waiting.keys()].sort();
  }

  /** Lets an actor take its step. One that dies never takes it, nor another one. */
  turn(actor: number, dies: boolean): void {
    const waiting = this.#waiting.get(actor);
    this.#waiting.delete(actor);
    if (dies || waiting === undefined) return;
    this.#running += 1;
    waiting.go();
  }

  #pause(): void {
    this.#running -= 1;
    if (this.#running > 0) return;
    const idle = this.#idle;
    this.#idle = null;
    idle?.();
  }
}

/**
 * Runs every order, at most `deaths` of the actors dying.
 *
 * @param run starts the actors anew, and resolves to the judgement of how they have ended
 * @returns how many orders there were
 */
export async function everyOrder(
  deaths: number,
  run: (interleaving: Interleaving) => (order: Order) => Promise<void>,
): Promise<number> {
  let orders = 0;
  const path: { choices: { actor: number; dies: boolean }[]; at: number }[] = [];
  do {
    const interleaving = new Interleaving();
    const judge = run(interleaving);
    const order: { actor: number; dies: boolean }[] = [];
    for (;;) {
      const waiting = await interleaving.settled();
      if (waiting.length === 0) break;
      const depth = order.length;
      let level = path[depth];
      if (level === undefined) {
        const mayDie = order.filter(({ dies }) => dies).length < deaths;
        const choices = waiting.flatMap((actor) => [
          { actor, dies: false },
          ...(mayDie ? [{ actor, dies: true }] : []),
        ]);
        level = { choices, at: 0 };
        path.push(level);
      }
      const choice = level.choices[level.at] as { actor: number; dies: boolean };
      order.push(choice);
      interleaving.turn(choice.actor, choice.dies);
    }
    orders += 1;
    await judge(order);
    // The next order differs in its last step that has another choice.
    while (path.length > 0) {
      const last = path.at(-1) as { choices: unknown[]; at: number };
      last.at += 1;
      if (last.at < last.choices.length) break;
      path.pop();
    }
  } while (path.length > 0);
  return orders;
}
