/**
 * The rules of a pool's change lists: which lists of deleted snapshots are retained, how lists are joined, and which lists
 * answer a request. Both kinds of pool use these rules; docs/engineering/soundness.md has the argument for them.
 *
 * Every list states a fact about two frozen snapshots. Lists that follow each other from a base to a target together contain
 * every byte that differs between the two: a byte that is in no list is equal in each step. So a list may be kept, joined
 * with the next list, or removed at any time, and no order of events makes an answer wrong; the rules only make sure that
 * enough lists stay. Every reader of a list verifies the list, and that the list begins where the previous one ends.
 *
 * Callers hold the locks of the snapshots that they name: the exclusive lock of a snapshot that they delete or drop, shared
 * locks of all others. Knows no volumes, no limits and no files.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import { SingleFlight } from '../../../base/single-flight.js';
import { SerialQueue } from '../../serial-queue.js';
import type { OnEvent, PoolBases, RetainedBase, RetainedBases, Unretained } from '../backend.js';
import { invalidatedBase } from '../lost-objects.js';
import { type HeldSnapshot, ListGraph, type StoredList } from './list-graph.js';
import type { ListStore, StoredHistory } from './list-store.js';

/** The most lists that native code opens at once. */
export const MAX_LISTS = 1024;

export class ListRules implements PoolBases {
  /** What load() has found, until a call needs the graph of it: to make that takes longer than the rest of a start. */
  #loaded: StoredHistory | null = null;
  #built = new ListGraph();
  readonly #building = new SingleFlight<string, StoredList>();
  /** Removals of bases take turns: one removal may join a list that ends at the base that the next one removes. */
  readonly #removals = new SerialQueue();

  constructor(
    private readonly store: ListStore,
    private readonly pool: string,
    private readonly onEvent?: OnEvent,
  ) {}

  get #graph(): ListGraph {
    if (this.#loaded !== null) this.#built = graphOf(this.#loaded);
    this.#loaded = null;
    return this.#built;
  }

  /** Reads what the pool has. Call this at each start of the pool, before anything else. */
  async load(): Promise<void> {
    const found = await this.store.load();
    const { snapshots, held } = found;
    const lists: StoredList[] = [];
    for (const list of found.lists) {
      const { baseId, targetId } = list;
      // The deletion of the target was killed before it removed the list.
      const leadsNowhere = snapshots.has(baseId) && !snapshots.has(targetId) && !held.has(targetId);
      if (leadsNowhere) await this.store.remove(list);
      else lists.push(list);
    }
    this.#loaded = { ...found, lists };
  }

  /** See PoolBases. */
  async retain(snapshotId: string, nextId: string | null): Promise<RetainedBase | Unretained | null> {
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

  /** Whether the pool retains no list from the deleted snapshot, only what is held of it. */
  needsHeld(snapshotId: string): boolean {
    return this.#graph.held(snapshotId) !== null && this.#graph.from(snapshotId).length === 0;
  }

  /**
   * Call before a snapshot is removed. Joins the lists that lead to it from existing snapshots with the list from it to the
   * next snapshot, so that deltas across the gap need no scan. Skips damaged lists. A failure removes nothing.
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

  /** Call after the snapshot was removed. Removes useless lists, and what is held of it once its list is stored. */
  async removed(snapshotId: string): Promise<void> {
    const graph = this.#graph;
    await this.#removeUseless(snapshotId);
    if (!graph.isDeleted(snapshotId)) {
      for (const list of graph.from(snapshotId)) await this.#remove(list);
    } else if (graph.held(snapshotId) !== null && graph.from(snapshotId).length > 0) {
      await this.store.forget(snapshotId);
      graph.setFreed(snapshotId);
    }
    if (graph.leadsTo(snapshotId)) graph.setDeleted(snapshotId);
  }

  /**
   * Removes what is retained of a deleted snapshot. First joins the lists that end at the snapshot with the list that begins
   * there, so that older bases stay usable. A list that cannot be joined leads nowhere from then on.
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
      if (graph.leadsTo(snapshotId)) graph.setDeleted(snapshotId);
    });
  }

  /** The retained bases, usable or not: all of them, or only those of the given snapshots. */
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
   * The snapshot whose lock a delta from a deleted base needs too, because a list has to be made from that snapshot; null if
   * there is none. The answer may change until the caller holds the locks.
   */
  neededFor(targetId: string, baseId: string): string | null {
    const graph = this.#graph;
    if (!graph.isDeleted(baseId) || graph.path(baseId, targetId) !== null) return null;
    const endId = graph.chain(baseId)?.endId ?? null;
    return endId === baseId ? null : endId;
  }

  /**
   * Call before a delta. If its list would be made from a held snapshot, gives up what is held if that has changed. ABORTED
   * if the delta then needs the lock of another snapshot.
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

  /** Gives up what is held of a snapshot if that has changed or cannot be read. */
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
   * The lists from a base to a target, oldest first. If the base is deleted and the last list is missing, makes that list,
   * which takes as long as a scan. Null if the request has to be answered from the base itself or its bookmark. NOT_FOUND
   * with the reason if nothing that was retained of the base is usable; FAILED_PRECONDITION if the list cannot be made.
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
      // Other callers made the list before the snapshot was deleted.
      const made = graph.path(baseId, targetId);
      if (made === null) throw thrown;
      return bounded(made, targetId, baseId);
    }
  }

  /** Records a list that was made elsewhere. */
  made(list: StoredList): void {
    this.#graph.add(list);
  }

  /** Whether the list is stored. */
  isStored(baseId: string, targetId: string): boolean {
    return this.#graph.list(baseId, targetId) !== undefined;
  }

  /** Removes a list that a scan has refused. If its base is deleted, no delta can begin at the base any more. */
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

  /** Deleted snapshots that are held, because no list begins there yet, or until their removal follows. */
  get held(): ReadonlyMap<string, HeldSnapshot> {
    // A start asks this.
    if (this.#loaded?.held.size === 0) return this.#loaded.held;
    return this.#graph.allHeld;
  }

  /**
   * Gives up what is held of a deleted snapshot. Unless its list is stored, no delta can begin there, or at a base before it.
   *
   * @param free frees what is held and records the loss; resolves to the clause that states the loss
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

  /** Records that what is held of a deleted snapshot is no longer sound; null for all held snapshots. */
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

  /** Makes sure that the list to the next snapshot exists and is sound, and that no other list begins at this snapshot. */
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

  /** False if a list is damaged, or if there is none to join with. */
  async #joinWithAll(older: StoredList, own: readonly StoredList[]): Promise<boolean> {
    try {
      for (const newer of own) this.#graph.add(await this.store.join(older, newer));
      return own.length > 0;
    } catch (thrown) {
      if (errorCode(thrown) === 'LIST_INVALID') return false;
      throw thrown;
    }
  }

  /** Removes the lists from existing snapshots to one that is gone: nobody needs them. */
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

function graphOf({ lists, snapshots, held, losses }: StoredHistory): ListGraph {
  const graph = new ListGraph();
  for (const list of lists) {
    graph.add(list);
    if (!snapshots.has(list.baseId)) graph.setDeleted(list.baseId);
  }
  for (const [id, found] of held) graph.setHeld(id, found);
  for (const [id, loss] of losses) graph.setLost(id, loss);
  for (const { targetId } of lists) if (!snapshots.has(targetId)) graph.setDeleted(targetId);
  return graph;
}

function bounded(lists: readonly StoredList[], targetId: string, baseId: string): readonly StoredList[] {
  if (lists.length <= MAX_LISTS) return lists;
  throw CsiError.failedPrecondition(
    `no delta from snapshot ${baseId} to ${targetId}: ${lists.length} lists lie between them, of which at most ` +
      `${MAX_LISTS} can be joined; make a full backup`,
  );
}
