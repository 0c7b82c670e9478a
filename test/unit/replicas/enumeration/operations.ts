/** What can happen in a world, and what has to hold afterwards. */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type { Cluster, Round } from './cluster.js';
import { BLOCKS, nameOf, type Rows, type World } from './world.js';

export interface Operation {
  readonly name: string;
  /** Resolves when it has ended. May reject as a call does. */
  run(cluster: Cluster): Promise<void>;
  /** Whether it is a call that something can meet at each of its points. */
  readonly isCall: boolean;
  /** Whether it has to succeed if nothing meets it. */
  readonly isPromised: boolean;
}

const SNAPSHOTS = 3;
const HOUR_MS = 3_600_000;

const event = (name: string, change: (world: World) => void): Operation => ({
  name,
  isCall: false,
  isPromised: false,
  run: async ({ world }) => change(world),
});

const call = (name: string, run: (cluster: Cluster) => Promise<void>, isPromised = false): Operation => ({
  name,
  isCall: true,
  isPromised,
  run,
});

const round = (name: string, of: Round): Operation => call(name, (cluster) => cluster.keep(of), true);

export function operationsIn(world: World): Operation[] {
  const { source, rows, backup } = world;
  const { volume, snapshots, origin } = source;
  const found: Operation[] = [];
  for (const at of volume.keys()) {
    found.push(event(`write ${at}`, (on) => on.write(at)));
    if (volume[at] !== 0) found.push(event(`discard ${at}`, (on) => on.discard(at)));
  }
  if (volume.length < BLOCKS) found.push(event('grow', (on) => on.grow()));
  if (snapshots.size < SNAPSHOTS) found.push(event('snapshot', (on) => on.take()));
  found.push(...meetingsIn(world));
  // One of the two: in truth a handle stands for one content, whatever catalogue has it.
  if (backup === null && origin === 0 && rows.size > 0)
    found.push(
      exchange,
      event('back up', (on) => backUp(on)),
    );
  if (backup !== null) found.push(...[false, true].map(restore));
  if (world.lacksRows) found.push(call('confirm', confirm, true));
  return found;
}

/** All snapshots that can be brought, or are there. */
export function pullsIn({ source, rows }: World): Operation[] {
  const ids = new Set([...source.snapshots.keys(), ...rows.keys()]);
  return [...ids].flatMap((id) => {
    const isPromised = source.snapshots.get(id)?.state === 'ready' || rows.get(id)?.nextOffset === null;
    return isPromised ? [call(`pull ${nameOf(id)}`, (cluster) => cluster.bring(id), true)] : [];
  });
}

/** What can meet a pull. */
export function meetingsIn(world: World): Operation[] {
  const { source, rows, sessions } = world;
  const found = pullsIn(world);
  for (const [id, { state }] of source.snapshots) {
    if (state !== 'ready') continue;
    found.push(event(`delete and retain ${nameOf(id)}`, (on) => on.delete(id, 'retained')));
    found.push(event(`delete ${nameOf(id)}`, (on) => on.delete(id, 'gone')));
  }
  for (const [id, { nextOffset }] of rows)
    if (nextOffset === null) found.push(call(`clone ${nameOf(id)}`, (cluster) => cluster.clone(id), !world.lacksRows));
  if (rows.size > 0) {
    found.push(round('keep for two hours', { laterMs: 2 * HOUR_MS, isFull: false }));
    found.push(round('keep for eight days', { laterMs: 8 * 24 * HOUR_MS, isFull: false }));
    found.push(round('free later', { laterMs: HOUR_MS / 2, isFull: true }));
    found.push(round('free now', { laterMs: 0, isFull: true }));
  }
  if (sessions.size > 0) found.push({ ...event('end transfers', () => undefined), run: (on) => on.restartSource() });
  return found;
}

/** The operation of that name, which is possible in the world; `piece of` a snapshot is a pull that ends after one. */
export function operationIn(world: World, name: string): Operation {
  const pieces = [...world.source.snapshots.keys()].map((id) =>
    call(`piece of ${nameOf(id)}`, (cluster) => cluster.bringPiece(id)),
  );
  const found = [...operationsIn(world), ...pieces].find((operation) => operation.name === name);
  assert.ok(found !== undefined, name);
  return found;
}

const exchange: Operation = {
  ...event('exchange the source', () => undefined),
  run: async (cluster) => {
    await cluster.restartSource();
    cluster.world.exchangeSource();
  },
};

/** As the catalogue does it: a backup knows nothing of what is being pulled. */
function backUp(world: World): void {
  world.backup = new Map([...world.rows].filter(([, { nextOffset }]) => nextOffset === null));
}

/** The node that pulls starts with the rows of an earlier day. */
const restore = (lacksRows: boolean): Operation => ({
  ...event(lacksRows ? 'restore, and volumes are missing' : 'restore', () => undefined),
  run: async (cluster) => {
    const { world } = cluster;
    world.rows = world.backup as Rows;
    world.backup = null;
    world.lacksRows = lacksRows;
    await cluster.settle();
  },
});

async function confirm(cluster: Cluster): Promise<void> {
  cluster.world.lacksRows = false;
  await cluster.settle();
}

/** What holds whenever the nodes rest. */
export function check({ world, offences }: Cluster): void {
  assert.deepEqual(offences, []);
  const { rows, disk, lacksRows } = world;
  for (const [id, row] of rows) {
    const stored = disk.get(id);
    if (row.nextOffset !== null) continue;
    if (stored?.isComplete === true) {
      const was = world.truthOf(row);
      assert.ok(isDeepStrictEqual(stored.blocks, was), `the replica of ${nameOf(id)} has ${stored.blocks}, not ${was}`);
    } else if (!lacksRows) assert.fail(`${nameOf(id)} has a row that is complete, and no replica that is`);
  }
  if (lacksRows) return;
  for (const id of disk.keys()) assert.ok(rows.has(id), `${nameOf(id)} has a replica and no row`);
}
