/**
 * All histories of a small world with copies up to a length: what each operation leaves is a world that others go on from, and
 * equal ones are looked at once. At each point of a call a message may be lost, or arrive after its caller has given up, the
 * router or the node that keeps the copy may be killed, or something else may happen, also by another router. Long histories
 * are random.
 */
import { CsiError } from '../../../../src/base/errors.js';
import { Random } from '../../../../src/tools/random.js';
import { Cluster, type Point } from './cluster.js';
import { check, checkRecovery, finish, type Operation, operationsIn } from './operations.js';
import { World } from './world.js';

export interface Bounds {
  /** The operations that histories have in common, some with `, lost` or `, late` and a message, and how many follow. */
  readonly first: readonly string[];
  readonly length: number;
  /** How many snapshots are taken at most. */
  readonly snapshots: number;
  /** How many operations of a history are disturbed at each of their points, and how many meet something else there. */
  readonly disturbed: number;
  readonly meetings: number;
}

/** Random histories. */
export interface Walks {
  readonly seed: number;
  readonly histories: number;
  readonly length: number;
  readonly snapshots: number;
}

/** Resolves to the extents, in words. */
export async function enumerate(asked: readonly (Bounds | Walks)[]): Promise<string[]> {
  const extents: string[] = [];
  for (const each of asked) extents.push(await extentOf(each));
  return extents;
}

async function extentOf(asked: Bounds | Walks): Promise<string> {
  const enumeration = new Enumeration(asked.snapshots);
  await ('seed' in asked ? enumeration.walk(asked) : enumeration.run(asked));
  const { histories, worlds, losses, kills, meetings } = enumeration.extent;
  const steps = 'seed' in asked ? `${asked.length} random` : `${asked.first.length} and ${asked.length}`;
  return `${steps} operations: ${histories} histories, ${kills} kills, ${losses} lost or late messages, ${meetings} meetings, ${worlds} worlds`;
}

interface Extent {
  histories: number;
  worlds: number;
  losses: number;
  kills: number;
  meetings: number;
}

interface Reached {
  readonly world: World;
  readonly history: readonly string[];
}

/** What happens at a point of a call, or at several. */
interface Disturbance {
  readonly how: string;
  counts(point: Point): 'losses' | 'kills' | 'meetings';
  /** @param passed how many points there were before */
  isAt(point: Point, passed: number): boolean;
  run(cluster: Cluster, point: Point): Promise<void>;
}

/** Messages that change a node. */
const LATE = new Set(['Pull', 'KeepReplica', 'EndReplica', 'DeleteReplica', 'ChooseCopy', 'ReportCopy']);
/** More than most calls have that nothing meets. */
const MANY_POINTS = 20;

class Enumeration {
  readonly extent: Extent = { histories: 0, worlds: 0, losses: 0, kills: 0, meetings: 0 };
  readonly #seen = new Set<string>();
  #next: Reached[] = [];

  constructor(private readonly snapshots: number) {}

  async run({ first, length, disturbed, meetings }: Bounds): Promise<void> {
    let reached: Reached = { world: new World(), history: [] };
    for (const said of first) {
      const [name = '', how, message] = said.split(/, (lost|late) /);
      const operation = operationsIn(reached.world, this.snapshots).find((each) => each.name === name);
      if (operation === undefined) throw new Error(`${name} is not possible after ${reached.history.join(', ')}`);
      reached = await this.#run(reached, operation, how === undefined ? null : lossOfFirst(String(message), how));
    }
    await this.#add(reached);
    for (let depth = 0; depth < length; depth += 1) {
      const frontier = this.#next;
      this.#next = [];
      for (const each of frontier)
        for (const operation of operationsIn(each.world, this.snapshots))
          await this.#explore(each, operation, depth < disturbed, depth < meetings);
    }
  }

  async walk({ seed, histories, length }: Walks): Promise<void> {
    const random = new Random(seed);
    for (let history = 0; history < histories; history += 1) {
      let reached: Reached = { world: new World(), history: [] };
      for (let step = 0; step < length; step += 1) {
        const at = random.below(MANY_POINTS);
        const met = this.#meeting(at, random.below(MANY_POINTS));
        const disturbance = random.pick([null, lossAt(at, 'lost'), lossAt(at, 'late'), killAt(at), met]);
        const operations = operationsIn(reached.world, this.snapshots);
        const calls = operations.filter(({ isCall }) => isCall);
        reached = await this.#run(reached, random.pick(random.below(2) === 0 ? calls : operations), disturbance);
        await this.#add(reached);
      }
    }
  }

  async #explore(from: Reached, operation: Operation, isDisturbed: boolean, isMet: boolean): Promise<void> {
    const points: Point[] = [];
    const note = { isAt: (point: Point) => points.push(point) < 0 };
    const disturb = async (disturbance: Disturbance): Promise<void> =>
      this.#add(await this.#run(from, operation, disturbance));
    await disturb({ ...lossOf('lost'), ...note });
    if (!operation.isCall || !isDisturbed) return;
    for (const [at, { kind, message }] of points.entries()) {
      await disturb(lossAt(at, 'lost'));
      if (kind !== 'request') continue;
      await disturb(killAt(at));
      const canBeLate = from.world.late === null && LATE.has(message?.rpc ?? '');
      if (canBeLate) await disturb(lossAt(at, 'late'));
      for (let index = 0; isMet; index += 1) {
        const met = this.#meeting(at, index);
        const reached = await this.#run(from, operation, met);
        if (met.how === NOTHING) break;
        await this.#add(reached);
      }
    }
  }

  /** Something else happens there, to its end. */
  #meeting(at: number, index: number): Disturbance {
    const { snapshots } = this;
    return {
      how: NOTHING,
      counts: () => 'meetings',
      isAt: (_, passed) => passed === at,
      async run(cluster) {
        const met = operationsIn(cluster.look(), snapshots)[index];
        if (met === undefined) return;
        Object.assign(this, { how: `met by ${met.name}` });
        await met.run(cluster, 1).catch(() => undefined);
        await cluster.rest(1);
      },
    };
  }

  async #run(from: Reached, operation: Operation, disturbance: Disturbance | null): Promise<Reached> {
    let passed = 0;
    const disturbed: Point[] = [];
    const cluster: Cluster = new Cluster(from.world.copy(), async (point) => {
      passed += 1;
      if (disturbance?.isAt(point, passed - 1) !== true) return;
      disturbed.push(point);
      await disturbance.run(cluster, point);
    });
    // A call of a router that is killed never ends.
    void operation.run(cluster, 0).catch(() => undefined);
    await cluster.rest();
    const world = cluster.look().copy();
    await cluster.dispose();
    const [where] = disturbed;
    if (disturbance !== null && where !== undefined) this.extent[disturbance.counts(where)] += 1;
    const said = where === undefined ? '' : `, ${disturbance?.how} ${saidOf(where)}`;
    const reached = { world, history: [...from.history, `${operation.name}${said}`] };
    await explained(reached, async () => check(from.world, world));
    return reached;
  }

  async #add(reached: Reached): Promise<void> {
    this.extent.histories += 1;
    const equal = reached.world.digest();
    if (this.#seen.has(equal)) return;
    this.#seen.add(equal);
    this.extent.worlds += 1;
    this.#next.push(reached);
    const cluster = new Cluster(reached.world.copy(), async () => undefined);
    await explained(reached, () => checkRecovery(cluster));
    await explained(reached, () => finish(cluster));
    await cluster.dispose();
  }
}

const NOTHING = 'met by nothing';

const saidOf = ({ kind, name }: Point): string =>
  ({ request: name, answer: `the answer to ${name}`, change: `the node at the ${name}` })[kind];

/** Of a message, or of the node that is about to make a change. A message that is late may be the only one. */
const lossOf = (how: string) => ({
  how,
  counts: ({ kind }: Point) => (kind === 'change' ? ('kills' as const) : ('losses' as const)),
  async run({ world }: Cluster, { kind, message }: Point): Promise<void> {
    if (how === 'late' && message !== undefined) world.late ??= message;
    throw CsiError.unavailable(`${kind} is lost`);
  },
});

const lossAt = (at: number, how: string): Disturbance => ({ ...lossOf(how), isAt: (_, passed) => passed === at });

function lossOfFirst(name: string, how: string): Disturbance {
  const lost = new Set<Point>();
  const isAt = (point: Point): boolean => point.name === name && lost.size === 0 && lost.add(point).size === 1;
  return { ...lossOf(how), isAt };
}

/** The router goes no further. What it has asked of nodes goes on. */
const killAt = (at: number): Disturbance => ({
  how: 'the router is killed at',
  counts: () => 'kills',
  isAt: ({ kind }, passed) => passed >= at && kind !== 'change',
  run: () => new Promise(() => undefined),
});

async function explained({ history }: Reached, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (thrown) {
    throw new Error(history.join(', '), { cause: thrown });
  }
}
