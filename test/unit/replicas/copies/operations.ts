/** What can happen in a world with copies, and what has to hold afterwards. */
import assert from 'node:assert/strict';
import type { Cluster } from './cluster.js';
import { HOLDERS, type Node, OWNER, type Rows, type World } from './world.js';

export interface Operation {
  readonly name: string;
  /** Whether it is a call, at each point of which messages are lost and processes killed. */
  readonly isCall: boolean;
  /** Resolves when the caller has an answer. May reject as a call does. */
  run(cluster: Cluster, router: number): Promise<void>;
}

const [FIRST] = HOLDERS;
/** Rounds that all that is left to do takes, if nothing fails. */
const ROUNDS = 4;

const event = (name: string, change: (world: World) => unknown): Operation => ({
  name,
  isCall: false,
  run: async (cluster) => cluster.change(change),
});

const call = (name: string, run: Operation['run']): Operation => ({ name, isCall: true, run });

/** @param snapshots how many may ever be taken */
export function operationsIn(world: World, snapshots: number): Operation[] {
  const { owner, isRetired, lacksRows, backup, late } = world;
  const found: Operation[] = [call('round', (cluster, router) => cluster.round(router))];
  const isReached = owner.reach === 'connected' && !isRetired;
  for (let index = 0; index < snapshots; index += 1) {
    const name = `s${index}`;
    const isKnown = owner.rows.snapshots.some((row) => row['name'] === name);
    if (isReached && (isKnown || (index === world.taken && !lacksRows)))
      found.push(call(`take ${name}`, (cluster, router) => cluster.take(router, name)));
  }
  if (isReached || isRetired)
    for (const [index, id] of world.snapshotIds.entries())
      found.push(call(`delete s${index}`, (cluster, router) => cluster.delete(router, id)));
  if (late !== null) found.push(call('deliver', (cluster) => cluster.deliver()));
  for (const id of world.nodes.keys()) found.push(...reaches(id, world.node(id)));
  for (const id of HOLDERS) {
    const { isFull, replicas } = world.node(id);
    found.push(
      event(isFull ? `${id} has room` : `${id} is full`, (on) => Object.assign(on.node(id), { isFull: !isFull })),
    );
    if (replicas.size === 0) continue;
    found.push(call(`${id} frees`, (cluster) => cluster.keep(id)));
    found.push({ name: `${id} forgets`, isCall: false, run: (cluster) => cluster.forget(id) });
  }
  if (isRetired) found.push(event('unretire', (on) => Object.assign(on, { isRetired: false })));
  else if (!isReached) found.push(event('retire', (on) => Object.assign(on, { isRetired: true })));
  if (world.taken === 0) return found;
  if (backup !== owner.rows) found.push(event('back up', (on) => Object.assign(on, { backup: on.owner.rows })));
  if (backup !== null) found.push(event('restore', restore));
  if (lacksRows) found.push(event('confirm', (on) => Object.assign(on, { lacksRows: false })));
  if (world.foreign === null) found.push(event('reinstall', reinstall));
  if (owner.snapshots.size > 0)
    found.push(event('the pool is lost', (on) => Object.assign(on.owner, { snapshots: new Set() })));
  if (world.node(FIRST).replicas.size > 0) found.push(event(`${FIRST} is destroyed`, destroy));
  return found;
}

function reaches(id: string, { reach }: Node): Operation[] {
  const to = (name: string, next: Node['reach']) =>
    event(`${id} ${name}`, (on) => Object.assign(on.node(id), { reach: next }));
  if (reach === 'connected') return [to('goes', 'away')];
  const returns = to('returns', 'connected');
  return reach === 'away' && id !== OWNER ? [returns, to('stays away', 'away for long')] : [returns];
}

function promisesIn({ copies }: Rows): string[] {
  return copies.map((row) => String(row['promise_id']));
}

function restore(world: World): void {
  const { owner, backup } = world;
  if (backup === null) return;
  const known = new Set(promisesIn(backup));
  world.forgotten = new Set([...world.forgotten, ...promisesIn(owner.rows).filter((each) => !known.has(each))]);
  owner.rows = backup;
  world.backup = null;
  world.told = new Set();
  world.catalogues += 1;
  world.lacksRows = [...owner.snapshots].some((id) => world.rowOf(id) === undefined);
}

function reinstall(world: World): void {
  world.forgotten = new Set([...world.forgotten, ...promisesIn(world.owner.rows)]);
  world.owner.exchange(9);
  world.catalogues += 1;
  Object.assign(world, { backup: null, lacksRows: false, foreign: new Set(world.snapshotIds), told: new Set() });
}

function destroy(world: World): void {
  const node = world.node(FIRST);
  world.destroyed = new Set([...world.destroyed, ...node.replicas.keys()]);
  node.exchange(1);
}

/** What holds after each operation, by what was there before. */
export function check(before: World, after: World): void {
  for (const id of after.snapshotIds) {
    if (after.deleted.has(id) || after.destroyed.has(id)) continue;
    const copies = [...after.copiesOf(id).keys()];
    assert.ok(copies.length > 0 || before.copiesOf(id).size === 0, `the last copy of ${id} is gone`);
    const row = after.rowOf(id);
    const isReady = row?.['state'] === 'ready' && row['awaits_copy'] === 0n;
    assert.ok(copies.length > 0 || !isReady, `${id} is ready without a copy`);
  }
}

/** Whom recovery names, by what is true. */
export async function checkRecovery(cluster: Cluster): Promise<void> {
  const { world } = cluster;
  const { owner, isRetired, lacksRows, foreign } = world;
  for (const id of world.snapshotIds) {
    const isLost = world.rowOf(id) === undefined ? lacksRows || foreign?.has(id) === true : !owner.snapshots.has(id);
    const isServed = isRetired || (owner.reach === 'connected' && isLost);
    const isKept = (holder: string): boolean =>
      world.node(holder).reach === 'connected' &&
      world.copiesOf(id).has(holder) &&
      world.node(holder).rows.replicas.some((row) => row['snapshot_id'] === id && row['promise_id'] !== null);
    const found = (await cluster.holders(id)).map((node) => node.id);
    assert.deepEqual(found, isServed ? HOLDERS.filter(isKept) : [], `recovery of ${id}`);
  }
}

/** All nodes answer and have room: what is left to do is done, and once users have repeated their deletions nothing is left. */
export async function finish(cluster: Cluster): Promise<void> {
  const { world } = cluster;
  world.late = null;
  Object.assign(world, { isRetired: false, lacksRows: false });
  for (const node of world.nodes.values()) Object.assign(node, { reach: 'connected', isFull: false });
  const left = async (ids: Iterable<string>): Promise<void> => {
    const now = cluster.look();
    const promised = [...ids].flatMap((id) => [...now.copiesOf(id)].map(([node, promise]) => ({ id, node, promise })));
    assert.deepEqual(
      promised.filter(({ promise }) => !world.forgotten.has(promise)),
      [],
      'copies are left',
    );
    for (const { snapshot_id: id, state } of now.owner.rows.copies) {
      const isSettled = state === 'kept' || !world.owner.snapshots.has(String(id));
      assert.ok(isSettled, `a copy of ${id} is not settled`);
    }
  };
  const before = cluster.look().copy();
  await settle(cluster);
  check(before, cluster.look());
  await left(world.told);
  for (const id of world.snapshotIds) await cluster.delete(0, id);
  await settle(cluster);
  await left(world.snapshotIds);
  assert.deepEqual(cluster.look().owner.rows.copies, []);
}

async function settle(cluster: Cluster): Promise<void> {
  for (let round = 0; round < ROUNDS; round += 1) {
    await cluster.round(0);
    await cluster.rest();
  }
}
