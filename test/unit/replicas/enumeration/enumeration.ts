/**
 * All histories of a small world up to a length: what each operation leaves is a world that others go on from, and equal ones are
 * looked at once. At each point of a call the node that pulls may be killed, a message be lost, or something else happen.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { CsiError } from '../../../../src/base/errors.js';
import { Cluster, type Point, type Visit } from './cluster.js';
import { check, meetingsIn, type Operation, operationIn, operationsIn, pullsIn } from './operations.js';
import { World } from './world.js';

interface Extent {
  histories: number;
  worlds: number;
  kills: number;
  losses: number;
  meetings: number;
}

export interface Bounds {
  /** The operations that histories have in common, and how many follow. */
  readonly first: readonly string[];
  readonly length: number;
  /** Calls after fewer operations meet what else can happen at each of their points. */
  readonly meetings: number;
  /** What they meet, by the first word; null: everything. */
  readonly met: readonly string[] | null;
}

interface Reached {
  readonly world: World;
  readonly history: readonly string[];
}

/** How often a pull may be asked for before it has to be there: once more for each thing that was going on. */
const ATTEMPTS = 3;

/** Resolves to the extents, in words. */
export async function enumerate(asked: readonly Bounds[]): Promise<string[]> {
  const extents: string[] = [];
  for (const bounds of asked) extents.push(await extentOf(bounds));
  return extents;
}

async function extentOf(bounds: Bounds): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'lists-'));
  try {
    const { histories, worlds, kills, losses, meetings } = await new Enumeration(directory).run(bounds);
    const counts = `${histories} histories, ${kills} kills, ${losses} lost messages, ${meetings} meetings, ${worlds} worlds`;
    return `${bounds.first.length} and ${bounds.length} operations: ${counts}`;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

class Enumeration {
  readonly extent: Extent = { histories: 0, worlds: 1, kills: 0, losses: 0, meetings: 0 };
  readonly #seen = new Set<string>();
  #next: Reached[] = [];
  #isMet = (_: Operation): boolean => true;

  /** @param directory for lists of transfers */
  constructor(private readonly directory: string) {}

  async run({ first, length, meetings, met }: Bounds): Promise<Extent> {
    if (met !== null) this.#isMet = ({ name }) => met.includes(name.split(' ')[0] ?? '');
    let world = new World();
    for (const name of first) world = (await this.#run(world, operationIn(world, name))).world;
    this.#seen.add(world.digest());
    let frontier: Reached[] = [{ world, history: first }];
    for (let depth = 0; depth <= length; depth += 1) {
      this.#next = [];
      for (const reached of frontier) {
        const operations = depth < length ? operationsIn(reached.world) : pullsIn(reached.world);
        for (const operation of operations) await this.#explore(reached, operation, depth < length, depth < meetings);
      }
      frontier = this.#next;
    }
    return this.extent;
  }

  async #explore(from: Reached, operation: Operation, isDisturbed: boolean, isMet: boolean): Promise<void> {
    let history = [...from.history, operation.name];
    try {
      const { world, points } = await this.#run(from.world, operation);
      this.#add(world, history);
      if (!operation.isCall || !isDisturbed) return;
      for (const [at, { kind, name }] of points.entries()) {
        history = [...from.history, `${operation.name} at ${kind} ${at} (${name})`];
        if (kind === 'change') await this.#kill(from, operation, at, history);
        else await this.#lose(from, operation, at, history);
        if (isMet && kind !== 'answer') await this.#meet(from, operation, at, history);
      }
    } catch (thrown) {
      throw new Error(history.join(', '), { cause: thrown });
    }
  }

  #add(world: World, history: readonly string[]): void {
    this.extent.histories += 1;
    const equal = world.digest();
    if (this.#seen.has(equal)) return;
    this.#seen.add(equal);
    this.extent.worlds += 1;
    this.#next.push({ world, history });
  }

  /** Nothing meets the operation. */
  async #run(from: World, operation: Operation): Promise<{ world: World; points: Point[] }> {
    const points: Point[] = [];
    const visit: Visit = async (point) => void points.push(point);
    const world = await this.#with(from, visit, (cluster) => succeed(cluster, operation));
    return { world, points };
  }

  /** The node that pulls is killed before that change, perhaps with the power, and again at each change of its start. */
  async #kill(from: Reached, operation: Operation, at: number, history: readonly string[]): Promise<void> {
    const killed = await this.#killedAt(from.world, operation, at);
    const cut = killed.copy();
    cut.cutPower();
    for (const left of killed.digest() === cut.digest() ? [killed] : [killed, cut]) {
      const { world, points } = await this.#run(left, START);
      this.#add(world, history);
      for (const again of points.keys()) {
        const half = await this.#killedAt(left, START, again);
        this.#add((await this.#run(half, START)).world, history);
      }
    }
  }

  async #killedAt(from: World, operation: Operation, at: number): Promise<World> {
    this.extent.kills += 1;
    let kill = (): void => undefined;
    const killed = new Promise<'killed'>((resolve) => {
      kill = () => resolve('killed');
    });
    let passed = 0;
    const visit: Visit = async () => {
      passed += 1;
      if (passed <= at) return;
      kill();
      await new Promise(() => undefined);
    };
    const world = from.copy();
    const cluster = new Cluster(world, visit, this.directory);
    const running = succeed(cluster, operation).catch((thrown: unknown) => thrown);
    assert.equal(await Promise.race([running, killed]), 'killed');
    const left = world.copy();
    await cluster.dispose();
    return left;
  }

  /** The message is lost, and the call is made again. */
  async #lose(from: Reached, operation: Operation, at: number, history: readonly string[]): Promise<void> {
    this.extent.losses += 1;
    let passed = 0;
    const visit: Visit = async () => {
      passed += 1;
      if (passed === at + 1) throw CsiError.unavailable('the message is lost');
    };
    await this.#with(from.world, visit, async (cluster) => {
      await operation.run(cluster).catch(() => undefined);
      await cluster.rest();
      check(cluster);
      this.#add(cluster.world.copy(), history);
      await succeed(cluster, operation);
    });
  }

  /** At that point something else happens, until it ends or waits for the operation; then the two go on in turns. */
  async #meet(from: Reached, operation: Operation, at: number, history: readonly string[]): Promise<void> {
    for (let index = 0; ; index += 1) {
      let passed = 0;
      let met: Operation | undefined;
      let meeting: Promise<unknown> = Promise.resolve();
      const run = async (cluster: Cluster): Promise<void> => {
        onPoint = async () => {
          const next = meetingsIn(cluster.world).filter(this.#isMet)[index];
          meeting = next?.run(cluster).catch(() => undefined) ?? meeting;
          await cluster.rest();
          met = next;
        };
        await operation.run(cluster).catch(() => undefined);
        await meeting;
      };
      let onPoint = async (): Promise<void> => undefined;
      const visit: Visit = async () => {
        passed += 1;
        if (passed === at + 1) await onPoint();
        else if (met !== undefined) await turn();
      };
      try {
        const world = await this.#with(from.world, visit, run);
        if (met === undefined) return;
        this.extent.meetings += 1;
        this.#add(world, [...history, `met by ${met.name}`]);
      } catch (thrown) {
        throw new Error(`met by ${met?.name}`, { cause: thrown });
      }
    }
  }

  async #with(from: World, visit: Visit, run: (cluster: Cluster) => Promise<unknown>): Promise<World> {
    const world = from.copy();
    world.clockMs += 1;
    const cluster = new Cluster(world, visit, this.directory);
    await Promise.race([run(cluster), cluster.stuck]);
    await cluster.rest();
    check(cluster);
    const left = world.copy();
    await cluster.dispose();
    return left;
  }
}

const START: Operation = { name: 'start', isCall: true, isPromised: true, run: (cluster) => cluster.settle() };

/** If nothing fails, it succeeds soon. */
async function succeed(cluster: Cluster, operation: Operation): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await operation.run(cluster);
      return;
    } catch (thrown) {
      if (!operation.isPromised) return;
      if (attempt === ATTEMPTS) throw thrown;
    }
  }
}
