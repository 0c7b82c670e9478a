/**
 * A small world for the rules of change lists: volumes of a few blocks, their snapshots, a pool and a catalogue in
 * memory, and what can happen to them. What is true is kept apart from what the pool says: the content that every
 * snapshot had when it was taken, and for which volumes something has happened after which a base may be lost.
 */
import { pino } from 'pino';
import { bestEffort, unreported } from '../../../../src/base/best-effort.js';
import { CsiError, StatusCode, SystemError } from '../../../../src/base/errors.js';
import type { Backend, PoolSnapshots, SnapshotChanges } from '../../../../src/driver/backends/backend.js';
import { listName, parseListName } from '../../../../src/driver/backends/retained/list-directory.js';
import { ListRules } from '../../../../src/driver/backends/retained/list-rules.js';
import type { SnapshotRecord } from '../../../../src/driver/catalogue/records.js';
import { lockForDelta } from '../../../../src/driver/metadata/delta-locks.js';
import { heldBefore } from '../../../../src/driver/volumes/held-snapshots.js';
import { OperationLocks, shared, snapshotKey } from '../../../../src/driver/volumes/operation-locks.js';
import { RetainedBases } from '../../../../src/driver/volumes/retained-bases.js';
import { deleteSnapshots, finishDeletion } from '../../../../src/driver/volumes/snapshot-sets.js';
import { MemoryCatalogue, Rows } from './memory-catalogue.js';
import { Disk, differing, type Gate, MemoryListStore } from './memory-pool.js';

export const VOLUMES = ['v', 'w'] as const;
export const BLOCKS = 3;
const POOL = 'p';

interface Taken {
  readonly volumeId: string;
  readonly sequence: number;
  readonly blocks: readonly number[];
}

export class World {
  /** Content of the volumes; a volume may have fewer blocks than it can grow to. */
  volumes = new Map<string, readonly number[]>();
  /** All snapshots that were ever taken, as they were. */
  taken = new Map<string, Taken>();
  /** Volumes of which a base may be lost: a list was damaged, space ran out, a limit was reached. */
  excused = new Set<string>();
  /** Bases that a limit has removed. */
  dropped = new Set<string>();
  disk = new Disk();
  rows = new Rows();
  #content = 0;

  copy(): World {
    const copy = Object.assign(new World(), {
      volumes: new Map(this.volumes),
      taken: new Map(this.taken),
      excused: new Set(this.excused),
      dropped: new Set(this.dropped),
      disk: this.disk.copy(),
      rows: this.rows.copy(),
    });
    copy.#content = this.#content;
    return copy;
  }

  write(volumeId: string, block: number): void {
    this.#content += 1;
    this.#set(volumeId, block, this.#content);
  }

  discard(volumeId: string, block: number): void {
    this.#set(volumeId, block, 0);
  }

  grow(volumeId: string): void {
    this.volumes.set(volumeId, [...(this.volumes.get(volumeId) ?? []), 0]);
  }

  #set(volumeId: string, block: number, content: number): void {
    const blocks = [...(this.volumes.get(volumeId) ?? [])];
    blocks[block] = content;
    this.volumes.set(volumeId, blocks);
  }

  take(volumeId: string): string {
    const sequence = this.taken.size;
    const id = `s${sequence}`;
    const blocks = this.volumes.get(volumeId) ?? [];
    this.taken.set(id, { volumeId, sequence, blocks });
    this.disk.snapshots.set(id, { identity: id, blocks });
    this.rows.snapshots.set(id, rowOf(id, volumeId, sequence, blocks.length));
    return id;
  }

  /** Content of a snapshot or a volume in another volume. */
  restore(volumeId: string, blocks: readonly number[]): void {
    this.volumes.set(volumeId, blocks);
  }

  /** Equal for worlds in which the same can happen, if the first two blocks of every volume change places or not. */
  class(): string {
    const [as, exchanged] = [this.digest(), this.digest([1, 0, 2])];
    return as < exchanged ? as : exchanged;
  }

  /** All that matters of the world: contents of a block are told apart by the order in which they appear there. */
  digest(places: readonly number[] = [0, 1, 2]): string {
    const seen = places.map(() => new Map<number, number>([[0, 0]]));
    const named = (blocks: readonly number[]): string =>
      places
        .filter((at) => at < blocks.length)
        .map((at) => {
          const names = seen[at] as Map<number, number>;
          const content = blocks[at] as number;
          if (!names.has(content)) names.set(content, names.size);
          return names.get(content);
        })
        .join('');
    const { disk, rows } = this;
    const parts = [
      [...this.taken].map(([id, { volumeId, blocks }]) => `${id}${volumeId}${named(blocks)}`),
      [...this.volumes].map(([id, blocks]) => `${id}${named(blocks)}`),
      [...this.excused].sort(),
      [...this.dropped].sort(),
      [...disk.snapshots]
        .map(([id, { identity, isSpoiled }]) => `${id}=${identity}${isSpoiled === true ? '!' : ''}`)
        .sort(),
      [...disk.lists]
        .map(([name, { base, target, blocks, isDamaged }]) => {
          const listed = blocks.map((at) => places.indexOf(at)).sort();
          return [name, base, target, listed.join(''), isDamaged ? '!' : ''].join(' ');
        })
        .sort(),
      [...disk.temporary.keys()].sort(),
      [...disk.hidden].sort(),
      [...disk.losses].map(String).sort(),
      [...rows.snapshots].map(([id, { state }]) => `${id}${state}`).sort(),
      [...rows.bases].map(([id, { invalidated }]) => `${id}${invalidated?.reason ?? ''}`).sort(),
    ];
    return parts.map((part) => part.join(',')).join('|');
  }
}

/** How a pool holds its newest snapshot: the snapshot itself, or a bookmark, to which no list can be made. */
export type PoolKind = 'reflink' | 'thin';

const logger = pino({ level: 'silent' });
/** One of its own for each call: those that a kill interrupts listen for ever. */
const never = (): AbortSignal => new AbortController().signal;
const LIMITS = { perVolume: 16, ageMs: 1e12, poolBytes: 1n << 60n };

/** The plugin as it runs on a world. */
export class Plugin {
  readonly store: MemoryListStore;
  readonly rules: ListRules;
  /** Whether no other call runs, so that a refusal has no good reason. */
  isAlone = true;
  readonly #deps;
  readonly #backend: Backend;

  constructor(
    readonly world: World,
    gate: Gate,
    kind: PoolKind,
  ) {
    this.store = new MemoryListStore(world.disk, gate, kind);
    this.rules = new ListRules(this.store, POOL);
    const catalogue = new MemoryCatalogue(world.rows, gate, (id) => world.volumes.has(id));
    const locks = new OperationLocks();
    this.#backend = this.#backendOf();
    const limits = LIMITS;
    const retainedBases = new RetainedBases({ catalogue, locks, logger, limits } as never);
    const registry = { owning: () => this.#backend };
    this.#deps = {
      catalogue,
      locks,
      registry,
      retainedBases,
      backendOf: () => this.#backend,
    } as never as Parameters<typeof deleteSnapshots>[0] & Parameters<typeof lockForDelta>[0];
  }

  async start(): Promise<void> {
    this.store.sweep();
    await this.rules.load();
    for (const row of [...this.world.rows.snapshots.values()]) {
      if (row.state === 'deleting') await finishDeletion(this.#deps, { group: null, members: [row] });
    }
    await this.#deps.retainedBases.review(this.#backend);
  }

  async deleteSnapshot(id: string): Promise<void> {
    const row = this.world.rows.snapshots.get(id);
    if (row === undefined) return;
    await deleteSnapshots(this.#deps, { group: null, members: [row] }, [], never());
  }

  /** As the maker of lists does after a snapshot was taken. */
  async listChanges(targetId: string): Promise<void> {
    const { catalogue, locks, retainedBases } = this.#deps;
    const target = await catalogue.snapshotById(targetId);
    if (target?.state !== 'ready') return;
    const base = await heldBefore(catalogue, this.#backend, target);
    if (base === null) return;
    const keys = [targetId, base.snapshotId].map((id) => shared(snapshotKey(id)));
    await locks.run(keys, async () => {
      await this.rules.examine(base.snapshotId);
      if (this.rules.isGone(base.snapshotId)) return;
      if (this.rules.isStored(base.snapshotId, targetId)) return;
      this.rules.made(await this.store.build(base.snapshotId, targetId));
    });
    await retainedBases.completePending(this.#backend, target);
  }

  async dropBase(id: string): Promise<void> {
    const { catalogue, locks } = this.#deps;
    await locks.run([snapshotKey(id)], async () => {
      await catalogue.invalidateRetainedBase(id, 'a limit', 0n);
      await this.rules.drop(id);
    });
  }

  async giveUp(id: string): Promise<void> {
    await this.rules.giveUp(id, () => this.store.giveUp(id));
  }

  /** The blocks that a delta lists. Throws as the plugin refuses it. */
  async delta(baseId: string, targetId: string): Promise<Set<number>> {
    const found = new Set<number>();
    const release = await lockForDelta(this.#deps, { targetId, baseId }, never());
    try {
      const base = await this.#deps.catalogue.snapshotById(baseId);
      const retained = await this.#deps.catalogue.retainedBaseById(baseId);
      const isThere = base?.state === 'ready' || (base === null && retained?.invalidated === null);
      const target = await this.#deps.catalogue.snapshotById(targetId);
      if (!isThere || target?.state !== 'ready') throw CsiError.notFound('no such snapshot');
      await this.#scan(baseId, targetId, found);
    } finally {
      release();
    }
    return found;
  }

  async #scan(baseId: string, targetId: string, found: Set<number>): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      const names = await this.#source(baseId, targetId);
      try {
        for (const block of await this.#read(names, baseId, targetId)) found.add(block);
        return;
      } catch (thrown) {
        if (!(thrown instanceof SystemError) || attempt === 3) throw thrown;
        const ends = parseListName(thrown.path);
        if (ends !== null) await bestEffort(() => this.rules.discard(ends), unreported);
      }
    }
  }

  async #source(baseId: string, targetId: string): Promise<string[]> {
    await this.rules.examineFor(targetId, baseId);
    const lists = await this.rules.listsFor(targetId, baseId);
    return lists?.map(listName) ?? [];
  }

  /** Without lists, from the snapshots themselves. */
  async #read(names: string[], baseId: string, targetId: string): Promise<number[]> {
    const { snapshots } = this.world.disk;
    const [base, target] = [snapshots.get(baseId), snapshots.get(targetId)];
    if (target === undefined) throw CsiError.failedPrecondition(`snapshot ${targetId} is lost`);
    if (names.length === 0) {
      if (base === undefined) throw CsiError.failedPrecondition(`snapshot ${baseId} is lost`);
      return differing(base.blocks, target.blocks);
    }
    const blocks: number[] = [];
    let from = this.rules.isGone(baseId) ? null : (base?.identity ?? null);
    for (const name of names) {
      const list = await this.store.scan(name, from);
      blocks.push(...list.blocks);
      from = list.target;
    }
    if (from === target.identity) return blocks;
    throw new SystemError('LIST_INVALID', 'scan', names.at(-1) ?? '', 'not of this target');
  }

  #backendOf(): Backend {
    const { rules, store } = this;
    const changes: Pick<SnapshotChanges, 'neededFor' | 'join'> = {
      neededFor: (targetId, baseId) => rules.neededFor(targetId, baseId),
      join: (snapshotId, nextId) => rules.bridge(snapshotId, nextId),
    };
    const snapshots: Pick<PoolSnapshots, 'delete'> = {
      delete: async (id) => {
        if (store.kind === 'reflink' && rules.needsHeld(id)) return;
        await store.removeSnapshot(id);
        await rules.removed(id);
      },
    };
    const backend = { pool: POOL, check: async () => undefined, bases: rules, changes, snapshots };
    return backend as unknown as Backend;
  }
}

/** Whether the plugin has refused, rather than failed. */
export function isRefusal(thrown: unknown): boolean {
  return CsiError.from(thrown).code !== StatusCode.INTERNAL;
}

export const isAborted = (thrown: unknown): boolean => thrown instanceof CsiError && thrown.code === StatusCode.ABORTED;

function rowOf(snapshotId: string, volumeId: string, sequence: number, size: number): SnapshotRecord {
  return {
    snapshotId,
    name: snapshotId,
    groupSnapshotId: null,
    volumeId,
    pool: POOL,
    sizeBytes: BigInt(size),
    state: 'ready',
    creationTimeNs: 1n,
    parameters: {},
    pristine: false,
    awaitsCopy: false,
    sequence: BigInt(sequence),
  };
}
