/**
 * All histories of a small world up to a length: what each operation leaves is a world that others go on from, and
 * equal ones are looked at once.
 */
import assert from 'node:assert/strict';
import { deltasIn, knowledgeOf, type Operation, operationIn, operationsIn, started } from './operations.js';
import { type Plugin, type PoolKind, World } from './world.js';

export interface Extent {
  histories: number;
  worlds: number;
  kills: number;
}

interface Reached {
  world: World;
  history: readonly string[];
}

/** One with a volume, after these operations. */
export async function worldAfter(kind: PoolKind, operations: readonly string[]): Promise<World> {
  const world = new World();
  world.volumes.set('v', [0, 0]);
  for (const name of operations) await operationIn(world, name).run(await started(world, kind));
  return world;
}

/**
 * Histories of `length` operations after the first ones, each with a kill at each access of its last one, and all
 * deltas at the end.
 */
export async function enumerate(
  kind: PoolKind,
  { first, length }: { first: readonly string[]; length: number },
  onWorld: (reached: Reached, depth: number) => Promise<void> = async () => undefined,
): Promise<Extent> {
  const extent = { histories: 0, worlds: 1, kills: 0 };
  const start = await worldAfter(kind, first);
  const seen = new Set([start.class()]);
  let frontier: Reached[] = [{ world: start, history: first }];
  for (let depth = 0; depth <= length; depth += 1) {
    const next: Reached[] = [];
    const add = (world: World, history: readonly string[]): void => {
      extent.histories += 1;
      const equal = world.class();
      if (seen.has(equal)) return;
      seen.add(equal);
      extent.worlds += 1;
      next.push({ world, history });
    };
    for (const reached of frontier) {
      await onWorld(reached, depth);
      const operations = depth < length ? operationsIn(reached.world) : deltasIn(reached.world);
      for (const operation of operations) {
        const history = [...reached.history, operation.name];
        try {
          add(await after(reached.world, operation, kind), history);
          if (!operation.isCall || operation.name.startsWith('delta')) continue;
          for (let access = 1; ; access += 1) {
            const world = await killedAt(reached.world, operation, kind, access);
            if (world === null) break;
            extent.kills += 1;
            add(world, [...history, `kill at ${access}`]);
          }
        } catch (thrown) {
          throw new Error(`${kind}: ${history.join(', ')}`, { cause: thrown });
        }
      }
    }
    frontier = depth < length ? next : [];
  }
  return extent;
}

async function after(from: World, operation: Operation, kind: PoolKind): Promise<World> {
  const world = from.copy();
  const plugin = await started(world, kind);
  await operation.run(plugin);
  if (operation.isCall) await assertKnowsAll(plugin, kind, operation.name);
  return world;
}

async function assertKnowsAll(plugin: Plugin, kind: PoolKind, name: string): Promise<void> {
  const found = knowledgeOf(await started(plugin.world.copy(), kind));
  assert.equal(knowledgeOf(plugin), found, `what is known after ${name} is not what a start reads`);
}

/** After a kill at that access and the next start; null: the operation had not so many. */
async function killedAt(from: World, operation: Operation, kind: PoolKind, access: number): Promise<World | null> {
  const world = from.copy();
  let passed = 0;
  let isStarted = false;
  let kill = (): void => undefined;
  const killed = new Promise<'killed'>((resolve) => {
    kill = () => resolve('killed');
  });
  const gate = async (): Promise<void> => {
    if (!isStarted) return;
    passed += 1;
    if (passed < access) return;
    kill();
    await new Promise(() => undefined);
  };
  const plugin = await started(world, kind, gate);
  isStarted = true;
  const ended = await Promise.race([operation.run(plugin).then(() => 'ended' as const), killed]);
  if (ended === 'ended') return null;
  await (await started(world, kind)).start();
  return world;
}
