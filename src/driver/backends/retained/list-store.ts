/**
 * The storage that the rules of change lists need from a pool. The process may be killed anywhere in a method, and the method
 * called again. Everything that a method stores is durable when the method resolves.
 */
import type { Unretained } from '../backend.js';
import type { HeldSnapshot, StoredList } from './list-graph.js';

/** The history that a pool has stored at its start. */
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
  /** Why no list can be made now, as a clause that follows "because"; null if one can. */
  lacksRoom(): Promise<string | null>;
  /** Whether a list can be made from the snapshot: it exists, or is held. */
  has(snapshotId: string): Promise<boolean>;
  /** Whether a list can be made to the snapshot. */
  canEnd(snapshotId: string): Promise<boolean>;
  /**
   * Makes a list, reads it in full, and replaces an existing one. Other callers may make the same list at the same time.
   * Rejects if one of the snapshots is gone, and with NOT_FOUND if what is held of the base is no longer sound.
   */
  build(baseId: string, targetId: string): Promise<StoredList>;
  /** Reads the list in full. False if it is damaged, or not of these snapshots. The pool must have both snapshots. */
  isSound(list: StoredList): Promise<boolean>;
  /** Joins two lists that follow each other into a third. LIST_INVALID if one is damaged or they do not fit. Both stay. */
  join(older: StoredList, newer: StoredList): Promise<StoredList>;
  remove(list: StoredList): Promise<void>;
  /** Records that the list of a deleted snapshot is lost, and removes it. Resolves to the clause that states the loss. */
  lose(list: StoredList): Promise<string>;
  /** Keeps what a list can be made from after the snapshot is deleted. Rejects if the snapshot may have been changed. */
  hold(snapshotId: string): Promise<HeldSnapshot | Unretained>;
  /** Why what is held has changed or cannot be read, as a clause that follows "because"; null if it is as it was. */
  spoiled(snapshotId: string, held: HeldSnapshot): Promise<string | null>;
  /** Frees what is held, and records why. */
  loseHeld(snapshotId: string, loss: string): Promise<void>;
  /** Removes what is held or recorded of a deleted snapshot. */
  forget(snapshotId: string): Promise<void>;
}
