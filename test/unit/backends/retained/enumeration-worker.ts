/**
 * Enumerates on a thread of its own: the test runner follows every promise of its thread, which takes three times as
 * long as the rules.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { enumerate } from './enumeration.js';
import { interleave } from './interleaving.js';
import { operationsIn } from './operations.js';
import type { PoolKind } from './world.js';

export interface EnumerationRequest {
  kind: PoolKind;
  /** The operations that histories have in common, and how many follow. */
  first: readonly string[];
  length: number;
  /** Operations before two calls at once; null: there are none. */
  before: number | null;
}

export interface EnumerationAnswer {
  said: string[];
  /** The history that ended wrong, and how. */
  failure: string | null;
}

async function run({ kind, first, length, before }: EnumerationRequest): Promise<EnumerationAnswer> {
  const said: string[] = [];
  let pairs = 0;
  let orders = 0;
  const extent = await enumerate(kind, { first, length }, async ({ world, history }, depth) => {
    if (before === null || depth > before) return;
    const calls = operationsIn(world).filter(({ isCall }) => isCall);
    for (const [at, first] of calls.entries()) {
      for (const second of calls.slice(at)) {
        try {
          orders += await interleave(world, [first, second], kind);
          pairs += 1;
        } catch (thrown) {
          const names = [...history, `${first.name} beside ${second.name}`];
          throw new Error(names.join(', '), { cause: thrown });
        }
      }
    }
  });
  const { histories, kills, worlds } = extent;
  said.push(`${histories} histories of ${first.length} and ${length} operations, ${kills} kills, ${worlds} worlds`);
  if (before !== null) said.push(`${pairs} pairs of calls after ${before} operations, ${orders} orders`);
  return { said, failure: null };
}

/** With its causes: the message alone crosses to another thread. */
function whole(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  return thrown.cause === undefined ? thrown.message : `${thrown.message}: ${whole(thrown.cause)}`;
}

parentPort?.postMessage(
  await run(workerData as EnumerationRequest).catch(
    (thrown: unknown): EnumerationAnswer => ({ said: [], failure: whole(thrown) }),
  ),
);
