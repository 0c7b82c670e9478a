/**
 * A pool in memory for the rules of change lists: snapshots of a few blocks, lists of blocks, and a gate before each
 * access, at which a test stops the process or decides who goes first.
 *
 * Stands in for the storage alone. Lists are made, verified and chained as native code does it: by the identity of the
 * snapshots that they were made from.
 */
import { CsiError, SystemError } from '../../../../src/base/errors.js';
import { listName, parseListName } from '../../../../src/driver/backends/retained/list-directory.js';
import type { HeldSnapshot, StoredList } from '../../../../src/driver/backends/retained/list-graph.js';
import type { ListStore, StoredHistory } from '../../../../src/driver/backends/retained/list-store.js';

/** Resolves when the access may happen. */
export type Gate = (access: string) => Promise<void>;

/** A snapshot's content never changes; its identity does when somebody has touched the file. */
export interface Frozen {
  readonly identity: string;
  readonly blocks: readonly number[];
  /** Its removal has begun: no list can be made from it any more. */
  readonly isMutable?: true;
  /** Somebody has exchanged what is held of it: what is there now is not the snapshot. */
  readonly isSpoiled?: true;
}

export interface ListData {
  /** Identities of the two snapshots. */
  readonly base: string;
  readonly target: string;
  readonly blocks: readonly number[];
  readonly isDamaged: boolean;
}

/** What is on the disk. Values are never changed, so a copy of the maps is a copy of all. */
export class Disk {
  snapshots = new Map<string, Frozen>();
  lists = new Map<string, ListData>();
  temporary = new Map<string, ListData>();
  hidden = new Set<string>();
  losses = new Map<string, string>();
  /** As if two who make one list wrote to one temporary file. */
  sharesNames = false;

  copy(): Disk {
    return Object.assign(new Disk(), {
      snapshots: new Map(this.snapshots),
      lists: new Map(this.lists),
      temporary: new Map(this.temporary),
      hidden: new Set(this.hidden),
      losses: new Map(this.losses),
      sharesNames: this.sharesNames,
    });
  }
}

export const FREED = 'its blocks were freed';
const DAMAGED = 'its list is damaged';

export class MemoryListStore implements ListStore {
  #made = 0;

  constructor(
    private readonly disk: Disk,
    private readonly gate: Gate,
    /** In a thin pool the newest snapshot is held as a bookmark, to which no list can be made. */
    readonly kind: 'reflink' | 'thin' = 'reflink',
  ) {}

  async load(): Promise<StoredHistory> {
    const { snapshots, lists, hidden, losses } = this.disk;
    return {
      lists: [...lists.keys()].flatMap((name) => listOf(name) ?? []),
      snapshots: new Set([...snapshots.keys()].filter((id) => !hidden.has(id))),
      held: new Map([...hidden].filter((id) => snapshots.has(id)).map((id) => [id, heldOf(id)])),
      losses: new Map(losses),
    };
  }

  async lacksRoom(): Promise<null> {
    return null;
  }

  async has(snapshotId: string): Promise<boolean> {
    await this.gate(`look at ${snapshotId}`);
    return this.disk.snapshots.has(snapshotId);
  }

  async canEnd(snapshotId: string): Promise<boolean> {
    if (this.kind === 'thin' && this.disk.hidden.has(snapshotId)) return false;
    return this.has(snapshotId);
  }

  async build(baseId: string, targetId: string): Promise<StoredList> {
    const name = listName({ baseId, targetId });
    const [base, target] = [await this.#frozen(baseId), await this.#frozen(targetId)];
    if (this.kind === 'thin' && this.disk.hidden.has(targetId))
      throw CsiError.failedPrecondition(`snapshot ${targetId} is only a bookmark`);
    const data = {
      base: base.identity,
      target: target.identity,
      blocks: differing(base.blocks, target.blocks),
      isDamaged: false,
    };
    await this.#store(name, data);
    await this.gate(`read ${name}`);
    if (this.disk.lists.get(name)?.isDamaged === false) return stored(baseId, targetId);
    throw new SystemError('EIO', 'read', name, `${name} cannot be read`);
  }

  async isSound(list: StoredList): Promise<boolean> {
    const [base, target] = [await this.#read(list.baseId), await this.#read(list.targetId)];
    await this.gate(`read ${listName(list)}`);
    const data = this.disk.lists.get(listName(list));
    return (
      data !== undefined &&
      !data.isDamaged &&
      (base.isMutable === true || data.base === base.identity) &&
      data.target === target.identity
    );
  }

  async join(older: StoredList, newer: StoredList): Promise<StoredList> {
    const ends = { baseId: older.baseId, targetId: newer.targetId };
    await this.gate(`read ${listName(older)} and ${listName(newer)}`);
    const [first, second] = [older, newer].map((list) => this.disk.lists.get(listName(list)));
    if (!first || !second || first.isDamaged || second.isDamaged || first.target !== second.base)
      throw new SystemError('LIST_INVALID', 'join', listName(newer), 'lists do not fit');
    const blocks = [...new Set([...first.blocks, ...second.blocks])].sort();
    const data = { base: first.base, target: second.target, blocks, isDamaged: false };
    await this.#store(listName(ends), data);
    return stored(ends.baseId, ends.targetId);
  }

  async remove(list: StoredList): Promise<void> {
    await this.gate(`remove ${listName(list)}`);
    this.disk.lists.delete(listName(list));
  }

  async lose(list: StoredList): Promise<string> {
    await this.gate(`lose ${listName(list)}`);
    this.disk.lists.delete(listName(list));
    this.disk.losses.set(list.baseId, DAMAGED);
    return DAMAGED;
  }

  async hold(snapshotId: string): Promise<HeldSnapshot> {
    await this.gate(`hide ${snapshotId}`);
    this.disk.hidden.add(snapshotId);
    return heldOf(snapshotId);
  }

  async forget(snapshotId: string): Promise<void> {
    const { disk } = this;
    if (this.kind === 'reflink' && disk.hidden.has(snapshotId)) await this.removeSnapshot(snapshotId);
    await this.gate(`forget ${snapshotId}`);
    if (disk.hidden.delete(snapshotId)) disk.snapshots.delete(snapshotId);
    disk.losses.delete(snapshotId);
  }

  async giveUp(snapshotId: string): Promise<string> {
    await this.loseHeld(snapshotId, FREED);
    return FREED;
  }

  async spoiled(snapshotId: string): Promise<string | null> {
    const found = this.disk.snapshots.get(snapshotId);
    return found === undefined || found.isMutable || found.isSpoiled ? 'it was changed' : null;
  }

  async loseHeld(snapshotId: string, loss: string): Promise<void> {
    await this.gate(`lose what is held of ${snapshotId}`);
    this.disk.hidden.delete(snapshotId);
    this.disk.losses.set(snapshotId, loss);
    await this.removeSnapshot(snapshotId);
  }

  /** A bookmark stands for a snapshot after it is gone. */
  async removeSnapshot(snapshotId: string): Promise<void> {
    const { snapshots, hidden } = this.disk;
    const found = snapshots.get(snapshotId);
    if (this.kind === 'reflink' && found !== undefined) {
      await this.gate(`unfreeze ${snapshotId}`);
      snapshots.set(snapshotId, { ...found, identity: `${found.identity}~`, isMutable: true });
    }
    await this.gate(`remove ${snapshotId}`);
    if (this.kind === 'thin' && hidden.has(snapshotId)) return;
    snapshots.delete(snapshotId);
  }

  /** As a start does, before anything is served. */
  sweep(): void {
    this.disk.temporary.clear();
  }

  /** LIST_INVALID if the list cannot be used behind the one that ends at `from`. */
  async scan(name: string, from: string | null): Promise<ListData> {
    await this.gate(`scan ${name}`);
    const data = this.disk.lists.get(name);
    if (data !== undefined && !data.isDamaged && (from === null || data.base === from)) return data;
    throw new SystemError('LIST_INVALID', 'scan', name, `${name} is not used`);
  }

  async #frozen(snapshotId: string): Promise<Frozen> {
    const found = await this.#read(snapshotId);
    if (found.isMutable !== true) return found;
    throw new SystemError('SCAN_MUTABLE', 'scan', snapshotId, `${snapshotId} is not frozen`);
  }

  async #read(snapshotId: string): Promise<Frozen> {
    await this.gate(`read ${snapshotId}`);
    const found = this.disk.snapshots.get(snapshotId);
    if (found !== undefined) return found;
    throw CsiError.failedPrecondition(`snapshot ${snapshotId} is lost`);
  }

  async #store(name: string, data: ListData): Promise<void> {
    this.#made += 1;
    const temporary = `${name}.${this.disk.sharesNames ? '' : this.#made}`;
    await this.gate(`write ${temporary}`);
    this.disk.temporary.set(temporary, data);
    await this.gate(`rename ${temporary}`);
    const written = this.disk.temporary.get(temporary);
    if (written === undefined) throw new SystemError('ENOENT', 'rename', temporary, 'it is gone');
    this.disk.temporary.delete(temporary);
    this.disk.lists.set(name, written);
  }
}

/** Blocks beyond the end of the older one count as zeros. */
export function differing(base: readonly number[], target: readonly number[]): number[] {
  return target.flatMap((content, at) => (content === (base[at] ?? 0) ? [] : [at]));
}

const stored = (baseId: string, targetId: string): StoredList => ({ baseId, targetId, storedBytes: 1n });

function listOf(name: string): StoredList | null {
  const ends = parseListName(name);
  return ends === null ? null : stored(ends.baseId, ends.targetId);
}

/** The number of a snapshot says when it was taken. */
const heldOf = (snapshotId: string): HeldSnapshot => ({ storedBytes: 0n, takenAt: BigInt(snapshotId.slice(1)) });
