/**
 * Which change lists a pool has and where they lead, in memory: list-rules.ts fills the graph from one look at the pool at
 * its start, and records every change since. No method awaits anything, so each answer is of one moment. Knows ids, not what
 * lists contain.
 */

/** The differences between two snapshots of a volume. Both snapshots are frozen, so the list stays true for ever. */
export interface StoredList {
  readonly baseId: string;
  readonly targetId: string;
  /** Space that the list takes. */
  readonly storedBytes: bigint;
}

/** A deleted snapshot from which the pool can still make a list: its file or its bookmark is kept. */
export interface HeldSnapshot {
  readonly storedBytes: bigint;
  /** When the snapshot was taken, in units of its pool: the oldest snapshot is given up first. */
  readonly takenAt: bigint;
}

/** Lists that follow each other, and the snapshot where they end. */
export interface Chain {
  readonly lists: readonly StoredList[];
  readonly endId: string;
}

export class ListGraph {
  // Arrays, because most snapshots have one list, and a pool has tens of thousands.
  readonly #from = new Map<string, StoredList[]>();
  readonly #to = new Map<string, string[]>();
  readonly #deleted = new Set<string>();
  readonly #held = new Map<string, HeldSnapshot>();
  /** Why no delta can begin at a deleted snapshot, as a clause that follows "because". */
  readonly #losses = new Map<string, string>();

  add(list: StoredList): void {
    const { baseId, targetId } = list;
    const from = this.#from.get(baseId);
    const at = from?.findIndex((other) => other.targetId === targetId) ?? -1;
    if (from === undefined) this.#from.set(baseId, [list]);
    else if (at === -1) from.push(list);
    else from[at] = list;
    const to = this.#to.get(targetId);
    if (to === undefined) this.#to.set(targetId, [baseId]);
    else if (!to.includes(baseId)) to.push(baseId);
  }

  remove({ baseId, targetId }: Pick<StoredList, 'baseId' | 'targetId'>): void {
    const from = this.from(baseId).filter((list) => list.targetId !== targetId);
    if (from.length > 0) this.#from.set(baseId, from);
    else this.#from.delete(baseId);
    const to = this.#to.get(targetId)?.filter((id) => id !== baseId) ?? [];
    if (to.length > 0) this.#to.set(targetId, to);
    else this.#to.delete(targetId);
    // The graph knew this deleted snapshot only because lists led to it.
    if (!this.isRetained(targetId) && !this.#to.has(targetId)) this.#deleted.delete(targetId);
  }

  list(baseId: string, targetId: string): StoredList | undefined {
    return this.#from.get(baseId)?.find((list) => list.targetId === targetId);
  }

  from(baseId: string): StoredList[] {
    return [...(this.#from.get(baseId) ?? [])];
  }

  to(targetId: string): StoredList[] {
    const bases = [...(this.#to.get(targetId) ?? [])];
    return bases.flatMap((baseId) => this.list(baseId, targetId) ?? []);
  }

  leadsTo(targetId: string): boolean {
    return this.#to.has(targetId);
  }

  /** Records that the snapshot is deleted. */
  setDeleted(snapshotId: string): void {
    this.#deleted.add(snapshotId);
  }

  setHeld(snapshotId: string, held: HeldSnapshot): void {
    this.#deleted.add(snapshotId);
    this.#held.set(snapshotId, held);
    this.#losses.delete(snapshotId);
  }

  /** Records that nothing is held of the deleted snapshot any more, and why. */
  setLost(snapshotId: string, loss: string): void {
    this.#deleted.add(snapshotId);
    this.setFreed(snapshotId);
    this.#losses.set(snapshotId, loss);
  }

  setFreed(snapshotId: string): void {
    this.#held.delete(snapshotId);
  }

  forget(snapshotId: string): void {
    this.#deleted.delete(snapshotId);
    this.setFreed(snapshotId);
    this.#losses.delete(snapshotId);
  }

  isDeleted(snapshotId: string): boolean {
    return this.#deleted.has(snapshotId);
  }

  held(snapshotId: string): HeldSnapshot | null {
    return this.#held.get(snapshotId) ?? null;
  }

  /** Whether something was retained of a deleted snapshot, usable or not. */
  isRetained(snapshotId: string): boolean {
    const hasList = this.#deleted.has(snapshotId) && this.#from.has(snapshotId);
    return hasList || this.#held.has(snapshotId) || this.#losses.has(snapshotId);
  }

  get retained(): string[] {
    return [...this.#deleted].filter((id) => this.isRetained(id));
  }

  get allHeld(): ReadonlyMap<string, HeldSnapshot> {
    return this.#held;
  }

  /** The fewest lists from one snapshot to another; null if no lists lead there. */
  path(fromId: string, toId: string): readonly StoredList[] | null {
    return this.#search(fromId, (id) => id === toId)?.lists ?? null;
  }

  /**
   * The lists from a deleted snapshot to the nearest snapshot from which a further list can be made, because that snapshot
   * exists or is held. Null if lists lead to no such snapshot.
   */
  chain(baseId: string): Chain | null {
    return this.#search(baseId, (id) => this.#isEnd(id));
  }

  /** The given snapshots at which a chain begins. Looks at each list once. */
  withChain(snapshotIds: readonly string[]): Set<string> {
    const known = new Map<string, boolean>();
    const leads = (id: string): boolean => {
      const found = known.get(id);
      if (found !== undefined) return found;
      // The lists come from names of files, which may lead in a circle.
      known.set(id, false);
      const isUsable = this.#isEnd(id) || (this.#from.get(id)?.some(({ targetId }) => leads(targetId)) ?? false);
      known.set(id, isUsable);
      return isUsable;
    };
    return new Set(snapshotIds.filter(leads));
  }

  /** Whether a list can be made from the snapshot: it exists or is held. */
  #isEnd(id: string): boolean {
    return !this.#deleted.has(id) || this.#held.has(id);
  }

  /** The loss of the snapshot, or of the snapshot at which its lists end, as a clause that follows "because". */
  reason(snapshotId: string): string {
    let endId = snapshotId;
    this.#search(snapshotId, (id) => {
      endId = id;
      return false;
    });
    const loss = this.#losses.get(endId) ?? 'its change list to the next snapshot is not in the pool';
    if (endId === snapshotId) return loss;
    return `snapshot ${endId} comes after it and is deleted too, and ${loss}`;
  }

  #search(fromId: string, isEnd: (id: string) => boolean): Chain | null {
    const reached = new Map<string, StoredList | null>([[fromId, null]]);
    // A map is walked in the order of insertion, including what is inserted meanwhile.
    for (const id of reached.keys()) {
      if (isEnd(id)) return { lists: wayTo(id, reached), endId: id };
      for (const list of this.from(id)) {
        if (!reached.has(list.targetId)) reached.set(list.targetId, list);
      }
    }
    return null;
  }
}

/** @param reached the list by which each snapshot was reached; null for the first snapshot */
function wayTo(id: string, reached: ReadonlyMap<string, StoredList | null>): StoredList[] {
  const lists: StoredList[] = [];
  for (let by = reached.get(id) ?? null; by !== null; by = reached.get(by.baseId) ?? null) {
    lists.unshift(by);
  }
  return lists;
}
