/**
 * Calls at the same time in every order of their accesses. A call is deterministic: what it does next follows from
 * what the world and the rules were like at each of its accesses. So where two orders have led to the same, with the
 * same behind both calls, one of them is enough.
 */
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { deltasIn, knowledgeOf, type Operation, started } from './operations.js';
import { isRefusal, type Plugin, type PoolKind, type World } from './world.js';

interface Waiting {
  call: number;
  access: string;
  go(): void;
}

const caller = new AsyncLocalStorage<number>();
/** All that follows from an access without another one has happened. */
const quiet = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns how many orders were tried. Throws with the order if one ends wrong. */
export async function interleave(from: World, operations: readonly Operation[], kind: PoolKind): Promise<number> {
  const seen = new Set<string>();
  const names = new Names();
  let orders = 0;
  let choices: Choice[] = [];
  do {
    orders += 1;
    choices = await tryOrder(from, operations, kind, choices, { seen, names });
    while (choices.length > 0 && isLast(choices.at(-1))) choices.pop();
    const last = choices.at(-1);
    if (last !== undefined) last.taken += 1;
  } while (choices.length > 0);
  return orders;
}

/** Which of the waiting accesses goes on. */
interface Choice {
  taken: number;
  /** How many there are to choose from. */
  readonly of: number;
  /** What the world and the rules are like. */
  readonly now: string;
}

const isLast = (choice: Choice | undefined): boolean => choice !== undefined && choice.taken + 1 >= choice.of;

async function tryOrder(
  from: World,
  operations: readonly Operation[],
  kind: PoolKind,
  prefix: readonly Choice[],
  { seen, names }: { seen: Set<string>; names: Names },
): Promise<Choice[]> {
  const world = from.copy();
  const waiting: Waiting[] = [];
  const gate = async (access: string): Promise<void> => {
    const call = caller.getStore();
    // The two steps of a removal count as one here; kills come between them.
    if (call === undefined || access.startsWith('unfreeze ')) return;
    await new Promise<void>((go) => waiting.push({ call, access, go }));
  };
  const plugin = await started(world, kind, gate);
  plugin.isAlone = false;
  const order: string[] = [];
  const pasts = operations.map(() => '');
  const ended = operations.map(() => false);
  const failures: unknown[] = [];
  for (const [call, operation] of operations.entries()) {
    caller.run(call, () => {
      const run = gate('begin').then(() => operation.run(plugin));
      const running = run.catch((thrown: unknown) => {
        if (!isRefusal(thrown)) failures.push(thrown);
      });
      void running.then(() => {
        ended[call] = true;
      });
    });
  }
  const choices = [...prefix];
  try {
    for (let step = 0; ; step += 1) {
      await quiet();
      if (failures.length > 0) throw failures[0];
      if (waiting.length === 0) break;
      let choice = choices[step];
      if (choice === undefined) {
        const now = names.of(`${world.digest()} ${knowledgeOf(plugin)}`);
        const key = `${now} ${pasts.join(' ')}`;
        // What follows from here was tried before.
        if (seen.has(key)) return choices;
        seen.add(key);
        choice = { taken: 0, of: waiting.length, now };
        choices.push(choice);
      }
      const [next] = waiting.splice(choice.taken, 1);
      if (next === undefined) throw new Error('the calls are not deterministic');
      order.push(`${next.call} ${next.access}`);
      pasts[next.call] = names.of(`${pasts[next.call]} ${choice.now}`);
      next.go();
    }
    assert.ok(!ended.includes(false), 'the calls wait for each other');
    await check(plugin, kind);
    return choices;
  } catch (thrown) {
    throw new Error(`in the order: ${order.join('; ')}`, { cause: thrown });
  }
}

async function check(plugin: Plugin, kind: PoolKind): Promise<void> {
  const { world } = plugin;
  const found = knowledgeOf(await started(world.copy(), kind));
  assert.equal(knowledgeOf(plugin), found, 'what is known afterwards is not what a start reads');
  for (const delta of deltasIn(world)) await delta.run(await started(world.copy(), kind));
}

/** Short names for long texts, the same for the same text. */
class Names {
  readonly #known = new Map<string, string>();

  of(text: string): string {
    const known = this.#known.get(text) ?? String(this.#known.size);
    this.#known.set(text, known);
    return known;
  }
}
