/**
 * What the rules of change lists need of a pool's storage. Every method may be killed anywhere and called again.
 * What a method stores is durable when it resolves.
 */
import type { Unretained } from '../backend.js';
import type { HeldSnapshot, StoredList } from './list-graph.js';

/** What a pool has at its start. */
export interface StoredHistory {
  lists: readonly StoredList[];
  /** Snapshots that exist and are not deleted. */
  snapshots: ReadonlySet<string>;
  held: ReadonlyMap<string, HeldSnapshot>;
  /** Why no delta can begin at a deleted snapshot, as a clause that follows "because". */
  losses: ReadonlyMap<string, string>;
}

export interface ListStore {
  load(): Promise<StoredHistory>;
  /** Why no list can be made now, as a clause that follows "because"; null: one can. */
  lacksRoom(): Promise<string | null>;
  /** Whether a list can be made from the snapshot: it exists, or is held. */
  has(snapshotId: string): Promise<boolean>;
  /** Whether a list can be made to the snapshot. */
  canEnd(snapshotId: string): Promise<boolean>;
  /**
   * Makes a list, reads it in full, and replaces one that is there. Others may make the same one at the same time.
   * Rejects if one of the snapshots is gone, and with NOT_FOUND if what is held of the base is no longer sound.
   */
  build(baseId: string, targetId: string): Promise<StoredList>;
  /** Reads the list in full. False: it is damaged, or not of these snapshots, which both must be there. */
  isSound(list: StoredList): Promise<boolean>;
  /** One list of two that follow each other. LIST_INVALID if one is damaged or they do not fit. Both stay. */
  join(older: StoredList, newer: StoredList): Promise<StoredList>;
  remove(list: StoredList): Promise<void>;
  /** Records that the list of a deleted snapshot is lost, and removes it. Resolves to the clause that says so. */
  lose(list: StoredList): Promise<string>;
  /** Keeps what a list can be made from when the snapshot is deleted. Rejects if it may have changed since it was taken. */
  hold(snapshotId: string): Promise<HeldSnapshot | Unretained>;
  /** Why what is held is not what was held, or cannot be read, as a clause that follows "because"; null: it is. */
  spoiled(snapshotId: string, held: HeldSnapshot): Promise<string | null>;
  /** Frees what is held, and records why. */
  loseHeld(snapshotId: string, loss: string): Promise<void>;
  /** Removes what is held or recorded of a deleted snapshot. */
  forget(snapshotId: string): Promise<void>;
}
