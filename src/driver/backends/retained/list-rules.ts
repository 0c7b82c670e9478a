/**
 * The rules of a pool's change lists: which are retained of deleted snapshots, how they are joined, and which of them
 * answer a request. The one place for both kinds of pool; docs/soundness.md has the argument.
 *
 * Every list is a fact about two frozen snapshots. Lists that follow each other from a base to a target contain
 * together every byte that differs between the two: a byte in none of them is equal in each step. So a list may be
 * kept, joined with the one that follows it, or removed at any time, and no order of events makes an answer wrong; the
 * rules only see to it that enough lists stay. Whoever reads a list verifies it and that it begins where the one before
 * it ends.
 *
 * Callers hold the locks of the snapshots that they name: exclusively of the one that they delete or drop, shared of
 * all others. Knows no volumes, no limits and no files.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import { SingleFlight } from '../../../base/single-flight.js';
import { SerialQueue } from '../../serial-queue.js';
import type { OnEvent, PoolBases, RetainedBase, RetainedBases, Unretained } from '../backend.js';
import { invalidatedBase } from '../lost-objects.js';
import { type HeldSnapshot, ListGraph, type StoredList } from './list-graph.js';
import type { ListStore } from './list-store.js';

/** As many as native code opens at once. */
export const MAX_LISTS = 1024;

export class ListRules implements PoolBases {
  #graph = new ListGraph();
  readonly #building = new SingleFlight<string, StoredList>();
  /** What removes bases takes turns: a list that one joins may end at the base that the next one removes. */
  readonly #removals: SerialQueue;

  constructor(
    private readonly store: ListStore,
    private readonly pool: string,
    private readonly onEvent?: OnEvent,
  ) {
    this.#removals = new SerialQueue(`the retained bases of pool '${pool}'`);
  }

  /** Reads what the pool has. Before anything else, and again when the pool was away. */
  async load(): Promise<void> {
    const { lists, snapshots, held, losses } = await this.store.load();
    const graph = new ListGraph();
    for (const list of lists) {
      const { baseId, targetId } = list;
      // A deletion of the target was killed before it removed the list.
      const leadsNowhere = snapshots.has(baseId) && !snapshots.has(targetId) && !held.has(targetId);
      if (leadsNowhere) await this.store.remove(list);
      else graph.add(list);
      if (!snapshots.has(baseId)) graph.setDeleted(baseId);
    }
    for (const [id, found] of held) graph.setHeld(id, found);
    for (const [id, loss] of losses) graph.setLost(id, loss);
    for (const { targetId } of lists) {
      if (!snapshots.has(targetId) && graph.to(targetId).length > 0) graph.setDeleted(targetId);
    }
    this.#graph = graph;
  }

  /** See PoolBases. */
  async retain(
    snapshotId: string,
    nextId: string | null,
  ): Promise<RetainedBase | Unretained | null> {
    const graph = this.#graph;
    await this.examine(snapshotId);
    if (await this.store.has(snapshotId)) {
      const canList = nextId !== null && (await this.store.canEnd(nextId));
      const refused = canList ? await this.#list(snapshotId, nextId) : await this.#hold(snapshotId);
      if (refused !== null) return refused;
      graph.setDeleted(snapshotId);
    }
    return graph.isDeleted(snapshotId) ? this.#baseOf(snapshotId) : null;
  }

  /** Whether the snapshot is deleted, and nothing is held of it. */
  isGone(snapshotId: string): boolean {
    const graph = this.#graph;
    return graph.isDeleted(snapshotId) && graph.held(snapshotId) === null;
  }

  /** Whether what is held of the snapshot is all that is retained of it. */
  needsHeld(snapshotId: string): boolean {
    return this.#graph.held(snapshotId) !== null && this.#graph.from(snapshotId).length === 0;
  }

  /**
   * Before a snapshot is removed: joins the lists from snapshots that exist to this one with that to the next, so that
   * deltas across the gap need no scan. Passes over lists that are damaged. A failure changes nothing.
   */
  async bridge(snapshotId: string, nextId: string): Promise<void> {
    const graph = this.#graph;
    const onward = graph.list(snapshotId, nextId);
    if (onward === undefined || (await this.store.lacksRoom()) !== null) return;
    for (const list of graph.to(snapshotId)) {
      if (graph.isDeleted(list.baseId) || graph.list(list.baseId, nextId) !== undefined) continue;
      await this.#joinWithAll(list, [onward]);
    }
  }

  /** After the snapshot was removed. */
  async removed(snapshotId: string): Promise<void> {
    const graph = this.#graph;
    await this.#removeUseless(snapshotId);
    if (!graph.isDeleted(snapshotId)) {
      for (const list of graph.from(snapshotId)) await this.#remove(list);
    } else if (graph.held(snapshotId) !== null && graph.from(snapshotId).length > 0) {
      await this.store.forget(snapshotId);
      graph.setFreed(snapshotId);
    }
    if (graph.to(snapshotId).length > 0) graph.setDeleted(snapshotId);
  }

  /**
   * Removes what is retained of a deleted snapshot. Lists that end there are joined with the one that begins there
   * first, so that older bases stay usable. One that cannot be joined leads nowhere from then on.
   */
  drop(snapshotId: string): Promise<void> {
    return this.#removals.run(async () => {
      const graph = this.#graph;
      const own = graph.from(snapshotId);
      for (const older of graph.to(snapshotId)) {
        if (await this.#joinWithAll(older, own)) await this.#remove(older);
      }
      await this.#removeUseless(snapshotId);
      for (const list of own) await this.#remove(list);
      await this.store.forget(snapshotId);
      graph.forget(snapshotId);
      if (graph.to(snapshotId).length > 0) graph.setDeleted(snapshotId);
    });
  }

  /** What is retained, usable or not; of these snapshots alone, if there are any. */
  all(snapshotIds?: readonly string[]): RetainedBases {
    const graph = this.#graph;
    const retained = snapshotIds?.filter((id) => graph.isRetained(id)) ?? graph.retained;
    const withChain = graph.withChain(retained);
    const bases: RetainedBases = { usable: [], invalidated: [] };
    for (const snapshotId of retained) {
      if (withChain.has(snapshotId)) bases.usable.push(this.#baseOf(snapshotId));
      else bases.invalidated.push({ snapshotId, reason: graph.reason(snapshotId) });
    }
    return bases;
  }

  /**
   * The snapshot whose lock a delta from a deleted base needs too, because a list is made from it; null: none is. May
   * change until the locks are held.
   */
  neededFor(targetId: string, baseId: string): string | null {
    const graph = this.#graph;
    if (!graph.isDeleted(baseId) || graph.path(baseId, targetId) !== null) return null;
    const endId = graph.chain(baseId)?.endId ?? null;
    return endId === baseId ? null : endId;
  }

  /**
   * Before a delta: what its list would be made from, if it is held, is what was held, or is given up. ABORTED if the
   * delta needs another lock then.
   */
  async examineFor(targetId: string, baseId: string): Promise<void> {
    const needed = this.neededFor(targetId, baseId);
    await this.examine(needed ?? baseId);
    const now = this.neededFor(targetId, baseId);
    if (now === null || now === needed) return;
    throw CsiError.aborted(
      `no delta from the deleted snapshot ${baseId} to ${targetId}: its list has to be made from snapshot ${now} now; try again`,
    );
  }

  /** Gives up what is held of a snapshot and is not what was held. */
  async examine(snapshotId: string): Promise<void> {
    const held = this.#graph.held(snapshotId);
    const loss = held === null ? null : await this.store.spoiled(snapshotId, held);
    if (loss === null) return;
    await this.giveUp(snapshotId, async () => {
      await this.store.loseHeld(snapshotId, loss);
      this.onEvent?.({
        level: 'warn',
        message:
          `pool '${this.pool}': the retained base ${snapshotId} is invalid because ${loss}; the next backup based on it, ` +
          'or on an older deleted snapshot of its volume, has to be a full one',
      });
      return loss;
    });
  }

  /**
   * The lists from a base to a target, oldest first. Makes the last of them if it is missing and the base is deleted,
   * which takes as long as a scan. Null: what the pool has of the base itself answers the request. NOT_FOUND with the
   * reason if nothing is usable that was retained of it; FAILED_PRECONDITION if the list cannot be made.
   */
  async listsFor(targetId: string, baseId: string): Promise<readonly StoredList[] | null> {
    const graph = this.#graph;
    const path = graph.path(baseId, targetId);
    if (path !== null) return bounded(path, targetId, baseId);
    if (!graph.isRetained(baseId)) return null;
    const chain = graph.chain(baseId);
    if (chain === null) throw invalidatedBase(baseId, graph.reason(baseId));
    const { lists, endId } = chain;
    if (endId === baseId) return null;
    const why = await this.store.lacksRoom();
    if (why !== null) {
      throw CsiError.failedPrecondition(
        `no delta to snapshot ${targetId} from the deleted snapshot ${baseId}: the list from snapshot ${endId} is not ` +
          `stored, because ${why}; free some space, or make a full backup`,
      );
    }
    try {
      const last = await this.#building.run(`${endId} ${targetId}`, async () => {
        const list = await this.store.build(endId, targetId);
        graph.add(list);
        return list;
      });
      return bounded([...lists, last], targetId, baseId);
    } catch (thrown) {
      // The snapshot was deleted meanwhile, after others had made its list.
      const made = graph.path(baseId, targetId);
      if (made === null) throw thrown;
      return bounded(made, targetId, baseId);
    }
  }

  /** Records a list that was made elsewhere. */
  made(list: StoredList): void {
    this.#graph.add(list);
  }

  /** Whether that list is stored. */
  isStored(baseId: string, targetId: string): boolean {
    return this.#graph.list(baseId, targetId) !== undefined;
  }

  /** Removes a list that a scan has refused. What begins at it is lost if its base is deleted. */
  discard({ baseId, targetId }: Pick<StoredList, 'baseId' | 'targetId'>): Promise<void> {
    return this.#removals.run(async () => {
      const graph = this.#graph;
      const list = graph.list(baseId, targetId);
      if (list === undefined) return;
      if (await this.store.has(baseId)) return this.#remove(list);
      const loss = await this.store.lose(list);
      graph.remove(list);
      graph.setLost(baseId, loss);
    });
  }

  /** Deleted snapshots that are held: no list begins there yet, or they have not been removed since. */
  get held(): ReadonlyMap<string, HeldSnapshot> {
    return this.#graph.allHeld;
  }

  /**
   * Gives up what is held of a deleted snapshot. Unless its list is stored, no delta can begin there, or before it.
   *
   * @param free frees it and records the loss; resolves to the clause that says so
   */
  giveUp(snapshotId: string, free: () => Promise<string>): Promise<void> {
    return this.#removals.run(async () => {
      const graph = this.#graph;
      if (graph.held(snapshotId) === null) return;
      if (graph.from(snapshotId).length > 0) {
        await this.store.forget(snapshotId);
        graph.setFreed(snapshotId);
      } else {
        graph.setLost(snapshotId, await free());
        await this.#removeUseless(snapshotId);
      }
    });
  }

  /** What is held of a deleted snapshot is no longer sound; null: of any. */
  lost(snapshotId: string | null, loss: string): void {
    const graph = this.#graph;
    for (const id of snapshotId === null ? [...graph.allHeld.keys()] : [snapshotId]) {
      if (graph.held(id) !== null) graph.setLost(id, loss);
    }
  }

  async #hold(snapshotId: string): Promise<Unretained | null> {
    const graph = this.#graph;
    if (graph.held(snapshotId) !== null) return null;
    const held = await this.store.hold(snapshotId);
    if ('unretained' in held) return held;
    graph.setHeld(snapshotId, held);
    return null;
  }

  /** Sees to it that the list to the next snapshot is there and sound, and is the only one from this snapshot. */
  async #list(snapshotId: string, nextId: string): Promise<Unretained | null> {
    const graph = this.#graph;
    const known = graph.list(snapshotId, nextId);
    if (known === undefined || !(await this.store.isSound(known))) {
      const why = await this.store.lacksRoom();
      if (why !== null) return { unretained: why };
      graph.add(await this.store.build(snapshotId, nextId));
    }
    for (const list of graph.from(snapshotId)) {
      if (list.targetId !== nextId) await this.#remove(list);
    }
    return null;
  }

  /** False: a list is damaged. */
  async #joinWithAll(older: StoredList, own: readonly StoredList[]): Promise<boolean> {
    try {
      for (const newer of own) this.#graph.add(await this.store.join(older, newer));
      return own.length > 0;
    } catch (thrown) {
      if (errorCode(thrown) === 'LIST_INVALID') return false;
      throw thrown;
    }
  }

  /** From a snapshot that exists no list is needed to one that does not. */
  async #removeUseless(goneId: string): Promise<void> {
    const graph = this.#graph;
    for (const list of graph.to(goneId)) {
      if (!graph.isDeleted(list.baseId)) await this.#remove(list);
    }
  }

  async #remove(list: StoredList): Promise<void> {
    await this.store.remove(list);
    this.#graph.remove(list);
  }

  #baseOf(snapshotId: string): RetainedBase {
    const graph = this.#graph;
    const lists = graph.from(snapshotId);
    const held = graph.held(snapshotId);
    const stored = lists.reduce((sum, { storedBytes }) => sum + storedBytes, 0n);
    const storedBytes = stored + (held?.storedBytes ?? 0n);
    return held !== null && lists.length === 0
      ? { snapshotId, storedBytes, pending: true }
      : { snapshotId, storedBytes };
  }
}

function bounded(
  lists: readonly StoredList[],
  targetId: string,
  baseId: string,
): readonly StoredList[] {
  if (lists.length <= MAX_LISTS) return lists;
  throw CsiError.failedPrecondition(
    `no delta from snapshot ${baseId} to ${targetId}: ${lists.length} lists lie between them, of which at most ` +
      `${MAX_LISTS} can be joined; make a full backup`,
  );
}
