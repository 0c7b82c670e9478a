/** What can happen in a world, and what each delta has to say afterwards. */
import assert from 'node:assert/strict';
import { differing, type Gate } from './memory-pool.js';
import { BLOCKS, isRefusal, Plugin, type PoolKind, VOLUMES, type World } from './world.js';

export interface Operation {
  readonly name: string;
  /** Resolves when it has ended. Throws if it says something wrong. */
  run(plugin: Plugin): Promise<void>;
  /** Whether it is a call of the plugin, which a kill can interrupt and another one can meet. */
  readonly isCall: boolean;
}

const SNAPSHOTS = 4;

const event = (name: string, change: (world: World) => void): Operation => ({
  name,
  isCall: false,
  run: async ({ world }) => change(world),
});

const call = (name: string, run: (plugin: Plugin) => Promise<unknown>): Operation => ({
  name,
  isCall: true,
  run: async (plugin) => void (await run(plugin)),
});

export function operationsIn(world: World): Operation[] {
  const { disk, rows, taken, volumes } = world;
  const found: Operation[] = [];
  for (const [id, blocks] of volumes) {
    for (const at of blocks.keys()) {
      found.push(event(`write ${id}${at}`, (on) => on.write(id, at)));
      if (blocks[at] !== 0) found.push(event(`discard ${id}${at}`, (on) => on.discard(id, at)));
    }
    if (blocks.length < BLOCKS) found.push(event(`grow ${id}`, (on) => on.grow(id)));
    if (taken.size < SNAPSHOTS) found.push(event(`snapshot ${id}`, (on) => void on.take(id)));
    found.push(event(`delete ${id}`, (on) => on.volumes.delete(id)));
  }
  const [, other] = VOLUMES;
  const source = [...volumes.values()][0];
  // The id of a volume that had snapshots is never used again.
  const isFree = !volumes.has(other) && [...taken.values()].every(({ volumeId }) => volumeId !== other);
  if (isFree && source !== undefined) {
    found.push(event(`clone to ${other}`, (on) => on.restore(other, source)));
  }
  for (const [id, row] of rows.snapshots) {
    if (row.state !== 'ready') continue;
    const content = disk.snapshots.get(id)?.blocks;
    if (isFree && content !== undefined)
      found.push(event(`restore ${id} to ${other}`, (on) => on.restore(other, content)));
    found.push(call(`delete ${id}`, (on) => on.deleteSnapshot(id)));
    found.push(call(`list ${id}`, (on) => listChanges(on, id)));
    found.push(event(`touch ${id}`, (on) => touch(on, id)));
    found.push(event(`forget ${id}`, (on) => forget(on, id)));
  }
  for (const [id, base] of rows.bases) {
    if (base.invalidated !== null) continue;
    found.push(call(`drop ${id}`, (on) => drop(on, id)));
    if (disk.hidden.has(id)) {
      found.push(call(`give up ${id}`, (on) => giveUp(on, id)));
      found.push(event(`spoil ${id}`, (on) => spoil(on, id)));
    }
    found.push(event(`forget base ${id}`, (on) => forget(on, id)));
  }
  for (const name of disk.lists.keys()) {
    found.push(event(`damage ${name}`, (on) => damage(on, name)));
    found.push(event(`lose ${name}`, (on) => lose(on, name)));
  }
  found.push(...deltasIn(world));
  return found;
}

/** The operation of that name, which is possible in the world. */
export function operationIn(world: World, name: string): Operation {
  const found = operationsIn(world).find((operation) => operation.name === name);
  assert.ok(found !== undefined, name);
  return found;
}

/** All deltas that can be asked for, whether there is a base or not. */
export function deltasIn({ taken }: World): Operation[] {
  return [...taken].flatMap(([targetId, target]) =>
    [...taken]
      .filter(([, base]) => base.volumeId === target.volumeId && base.sequence < target.sequence)
      .map(([baseId]) => call(`delta ${baseId} ${targetId}`, (on) => checkDelta(on, baseId, targetId))),
  );
}

/** Every byte that differs is listed, or the call refuses; and it refuses nothing that was promised. */
async function checkDelta(plugin: Plugin, baseId: string, targetId: string): Promise<void> {
  const { world } = plugin;
  const [base, target] = [world.taken.get(baseId), world.taken.get(targetId)];
  assert.ok(base !== undefined && target !== undefined);
  const isPromised =
    plugin.isAlone && world.rows.snapshots.get(targetId)?.state === 'ready' && !world.dropped.has(baseId);
  let found: Set<number>;
  try {
    found = await plugin.delta(baseId, targetId);
  } catch (thrown) {
    if (!isRefusal(thrown)) throw thrown;
    assert.ok(!isPromised || world.excused.has(base.volumeId), `${baseId} to ${targetId} is refused: ${thrown}`);
    return;
  }
  for (const block of differing(base.blocks, target.blocks))
    assert.ok(found.has(block), `the delta from ${baseId} to ${targetId} misses block ${block}`);
}

/** Bases of the volume may be lost from now on. */
function excuse(world: World, snapshotId: string): void {
  const volumeId = world.taken.get(snapshotId)?.volumeId;
  if (volumeId !== undefined) world.excused.add(volumeId);
}

/** What differs from a snapshot that exists can be found again. */
function excuseIfDeleted(world: World, baseId: string): void {
  if (world.rows.snapshots.get(baseId)?.state !== 'ready') excuse(world, baseId);
}

/** What was held until the list is there goes. */
async function listChanges(plugin: Plugin, targetId: string): Promise<void> {
  const { isAlone, rules } = plugin;
  await plugin.listChanges(targetId);
  if (!isAlone) return;
  for (const id of rules.held.keys())
    assert.ok(!rules.isStored(id, targetId), `${id} is held although its list is there`);
}

/** The limits remove the oldest base first, so nothing older leads to one that is held when it goes. */
async function drop(plugin: Plugin, id: string): Promise<void> {
  const { world } = plugin;
  if (world.disk.hidden.has(id)) excuse(world, id);
  world.dropped.add(id);
  await plugin.dropBase(id);
}

async function giveUp(plugin: Plugin, id: string): Promise<void> {
  excuse(plugin.world, id);
  await plugin.giveUp(id);
}

/** Somebody has made the file writable and frozen it again; its content is the same. */
function touch(world: World, id: string): void {
  const found = world.disk.snapshots.get(id);
  if (found !== undefined) world.disk.snapshots.set(id, { ...found, identity: `${found.identity}'` });
  excuse(world, id);
}

/** Somebody has put what the volume holds now in the place of what is held of a deleted snapshot. */
function spoil(world: World, id: string): void {
  const found = world.disk.snapshots.get(id);
  const blocks = world.volumes.get(world.taken.get(id)?.volumeId ?? '');
  if (found === undefined || blocks === undefined) return;
  world.disk.snapshots.set(id, { ...found, blocks, isSpoiled: true });
  excuse(world, id);
}

/** As a catalogue that was restored from an older day. */
function forget(world: World, id: string): void {
  world.rows.snapshots.delete(id);
  world.rows.bases.delete(id);
  excuse(world, id);
}

function damage(world: World, name: string): void {
  const list = world.disk.lists.get(name);
  if (list !== undefined) world.disk.lists.set(name, { ...list, isDamaged: true });
  excuseIfDeleted(world, name.slice(0, 2));
}

function lose(world: World, name: string): void {
  world.disk.lists.delete(name);
  excuseIfDeleted(world, name.slice(0, 2));
}

export const open: Gate = async () => undefined;

/** What the rules know of a world: the same whether they have seen it happen or read it at a start. */
export function knowledgeOf({ rules, world }: Plugin): string {
  const { usable, invalidated } = rules.all();
  const pairs = deltasIn(world).map(({ name }) => name.split(' ') as [string, string, string]);
  const needed = pairs.map(([, base, target]) => `${base}${target}${rules.neededFor(target, base)}`);
  const ids = [usable.map(String), usable.map(({ snapshotId, pending }) => `${snapshotId}${pending ?? ''}`).sort()];
  return JSON.stringify([ids[1], invalidated.map(({ snapshotId }) => snapshotId).sort(), needed]);
}

export async function started(world: World, kind: PoolKind, gate: Gate = open): Promise<Plugin> {
  const plugin = new Plugin(world, gate, kind);
  await plugin.rules.load();
  return plugin;
}
