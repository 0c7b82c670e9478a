/**
 * Deltas from deleted snapshots against the bytes, on the real dm-thin: random writes, discards,
 * snapshots, groups, deletions, clones, restores, growth, restarts and power failures. A list that the
 * backend returns must miss nothing. Where it returns none, the base must be invalidated or unknown, or nothing was
 * retained of it or of a snapshot between the two.
 *
 * A few steps for each discard mode; many, from a new seed, in a nightly run.
 */
import assert from 'node:assert/strict';
import { isNightly } from '../support/nightly.js';
import { type Random, seededRandom } from '../support/random.js';
import { refused, statusOf } from '../support/refusal.js';
import {
  PAGES_A_BLOCK,
  poolTest,
  type ThinPoolOnDisks,
  type ThinSnapshot,
  type ThinVolume,
} from './thin-pool-on-disks.js';

const STEPS = isNightly ? 600 : 60;
const MAX_VOLUMES = 3;
const MAX_LIVE = 10;
const MAX_KEPT = 24;
/** Of all snapshots ever taken. */
const MAX_KNOWN = 50;

const FROM_KEPT = 'lists from kept bases';

class RandomLife {
  readonly counts = new Map<string, number>();
  /** In the order in which they were taken. */
  readonly snapshots: ThinSnapshot[] = [];
  readonly live = new Set<ThinSnapshot>();
  /** How many snapshots were taken before each one. */
  readonly #ages = new Map<ThinSnapshot, number>();
  /** Deleted, and nothing was retained of them, or only what had become invalid. */
  readonly #forgotten: ThinSnapshot[] = [];
  /** How often each comes, in relation to the others. */
  readonly #steps: Readonly<Record<string, readonly [weight: number, () => unknown]>> = {
    write: [36, () => this.#write(this.#anyVolume())],
    discard: [12, () => this.#discard(this.#anyVolume())],
    take: [14, async () => this.#add(await this.pool.take(this.#anyVolume()))],
    group: [3, async () => this.#add(await this.pool.take(...this.pool.volumes.values()))],
    delete: [13, () => this.#delete()],
    complete: [6, () => this.#complete()],
    copy: [3, () => this.#copy()],
    grow: [1, () => this.#grow()],
    'restart plugin': [1, () => this.pool.restart()],
    'restart pool': [2, () => this.#restartPool()],
    'power cut': [3, () => this.#powerCut()],
    check: [12, () => this.check()],
  };

  constructor(
    private readonly pool: ThinPoolOnDisks,
    private readonly random: Random,
  ) {}

  async step(): Promise<void> {
    const all = Object.entries(this.#steps).flatMap(([name, [weight, run]]) =>
      Array.from({ length: weight }, () => ({ name, run })),
    );
    const { name, run } = this.random.pick(all);
    this.#count(name);
    await run();
    if (this.live.size > MAX_LIVE) await this.#delete();
    await this.#dropOldest();
  }

  /** Every list to one live snapshot, from live, kept and lost bases of all volumes. */
  async check(): Promise<void> {
    const target = this.#anyTarget();
    if (target === null) return;
    if (this.random.below(3) === 0) {
      const content = await this.pool.contentOf(target);
      assert.ok(content.equals(target.image), 'the target holds what it held');
    }
    const { usable, invalidated } = this.pool.backend.bases.all();
    const usableIds = new Set(usable.map(({ snapshotId }) => snapshotId));
    const invalidatedIds = new Set(invalidated.map(({ snapshotId }) => snapshotId));
    for (const base of this.snapshots.slice(0, this.snapshots.indexOf(target))) {
      const known = this.live.has(base) || usableIds.has(base.id);
      if (base.volumeId === target.volumeId && known) {
        const delta = this.pool.soundDelta(base, target);
        const mayBeRefused = !this.live.has(base) && this.#hasGap(base, target, invalidatedIds);
        if (mayBeRefused && (await statusOf(delta)) === 'FAILED_PRECONDITION') {
          this.#count('refused over a gap');
          continue;
        }
        const list = await delta;
        this.#count(this.live.has(base) ? 'lists from live bases' : FROM_KEPT);
        this.#count('ranges', list.ranges.length);
      } else if (!this.live.has(base)) {
        const refusal = this.pool.backend.changes.scan(target.id, base.id);
        await refused(refusal, invalidatedIds.has(base.id) ? 'NOT_FOUND' : 'FAILED_PRECONDITION');
        this.#count(known ? 'refused over a lineage' : 'refused as invalid');
      }
    }
    this.counts.set('invalid now', invalidated.length);
  }

  #hasGap(base: ThinSnapshot, target: ThinSnapshot, invalidatedIds: Set<string>): boolean {
    const age = (of: ThinSnapshot): number => this.#ages.get(of) ?? 0;
    const lost = this.snapshots.filter(({ id }) => invalidatedIds.has(id));
    return [...lost, ...this.#forgotten].some(
      (snapshot) => snapshot.volumeId === base.volumeId && age(base) <= age(snapshot) && age(snapshot) < age(target),
    );
  }

  toString(): string {
    return [...this.counts].map(([what, count]) => `${what} ${count}`).join(', ');
  }

  #write(volume: ThinVolume): void {
    const blocks = volume.image.tags.length / PAGES_A_BLOCK;
    for (let count = 1 + this.random.below(6); count > 0; count -= 1) {
      // Most of it in few blocks, so that the same ones are written again and again.
      const block = this.random.below(3) === 0 ? this.random.below(blocks) : this.random.below(16);
      const page = this.random.below(PAGES_A_BLOCK);
      if (this.random.below(3) === 0) volume.writeBlock(block);
      else {
        const count = 1 + this.random.below(PAGES_A_BLOCK - page);
        volume.write(block * PAGES_A_BLOCK + page, count);
      }
    }
    if (this.random.below(8) === 0) volume.sync();
  }

  #discard(volume: ThinVolume): void {
    const pages = volume.image.tags.length;
    const page = this.random.below(pages);
    volume.discard(page, 1 + this.random.below(Math.min(pages - page, 5 * PAGES_A_BLOCK)));
  }

  #add(snapshots: readonly ThinSnapshot[]): void {
    for (const snapshot of snapshots) {
      this.#ages.set(snapshot, this.#ages.size);
      this.snapshots.push(snapshot);
      this.live.add(snapshot);
    }
  }

  /** Kept, but for a few; the list from a base that is never written is the same before and after. */
  async #delete(): Promise<void> {
    const any = this.#anyLive();
    if (any === null) return;
    // Of the newest one a bookmark is kept, which is completed later or not; of any other a list.
    const base = this.random.below(3) === 0 ? this.#newest(any) : any;
    const target = this.#next(base);
    const before = target === undefined ? null : await this.pool.soundDelta(base, target);
    this.live.delete(base);
    if (this.random.below(10) === 0) {
      this.#forgotten.push(base);
      await this.pool.backend.snapshots.delete(base.id);
      return;
    }
    await this.pool.retainAndDelete(base, target);
    if (target === undefined || before === null) return;
    const after = await this.pool.soundDelta(base, target);
    assert.deepEqual(after.ranges, before.ranges, 'a kept base says what the living one said');
    this.#count('equal before and after');
  }

  /** Puts lists in place of bookmarks. */
  async #complete(): Promise<void> {
    const { backend } = this.pool;
    for (const { snapshotId, pending } of backend.bases.all().usable) {
      const base = this.snapshots.find(({ id }) => id === snapshotId);
      const next = base === undefined ? undefined : this.#next(base);
      if (pending !== true || base === undefined || next === undefined) continue;
      const before = await this.pool.soundDelta(base, next);
      const retained = await backend.bases.retain(snapshotId, next.id);
      assert.ok(retained !== null && !('pending' in retained), 'the list was made');
      const after = await this.pool.soundDelta(base, next);
      assert.deepEqual(after.ranges, before.ranges, 'a list says what its bookmark said');
      this.#count('bookmarks completed');
    }
  }

  /** The next snapshot of the volume that exists. */
  #next(base: ThinSnapshot): ThinSnapshot | undefined {
    return this.snapshots
      .slice(this.snapshots.indexOf(base) + 1)
      .find((snapshot) => this.live.has(snapshot) && snapshot.volumeId === base.volumeId);
  }

  /** The last one of its volume that exists. */
  #newest(snapshot: ThinSnapshot): ThinSnapshot {
    const next = this.#next(snapshot);
    return next === undefined ? snapshot : this.#newest(next);
  }

  async #copy(): Promise<void> {
    const source = this.#anyLive();
    if (this.pool.volumes.size >= MAX_VOLUMES) await this.pool.remove(this.#anyVolume());
    const volume =
      source === null || this.random.below(2) === 0
        ? await this.pool.clone(this.#anyVolume())
        : await this.pool.restore(source);
    await volume.attach();
  }

  async #grow(): Promise<void> {
    const volume = this.#anyVolume();
    if (volume.image.sizeBytes < 8 << 20) await this.pool.grow(volume, volume.image.sizeBytes * 2);
  }

  async #restartPool(): Promise<void> {
    await this.pool.stop();
    await this.pool.start();
  }

  async #powerCut(): Promise<void> {
    await this.pool.powerCut(() => {
      this.#write(this.#anyVolume());
      if (this.random.below(2) === 0) this.#discard(this.#anyVolume());
    });
  }

  /**
   * Of the lost ones first: where power cuts lose all there is, they would crowd out what can be compared. As
   * volumes/retained-bases.ts does it, a list has taken the place of a bookmark by then if there is a later snapshot.
   */
  async #dropOldest(): Promise<void> {
    const { usable, invalidated } = this.pool.backend.bases.all();
    const ids = [...invalidated, ...usable].map(({ snapshotId }) => snapshotId);
    for (const id of ids.slice(0, Math.max(0, ids.length - MAX_KEPT))) {
      const base = this.snapshots.find((snapshot) => snapshot.id === id);
      const next = base === undefined ? undefined : this.#next(base);
      const isUsable = usable.some(({ snapshotId }) => snapshotId === id);
      if (isUsable && next !== undefined) await this.pool.backend.bases.retain(id, next.id);
      else if (base !== undefined) this.#forgotten.push(base);
      await this.pool.backend.bases.drop(id);
    }
    if (this.snapshots.length > MAX_KNOWN) {
      const held = new Set(ids);
      const known = this.snapshots.filter((snapshot) => this.live.has(snapshot) || held.has(snapshot.id));
      this.snapshots.splice(0, this.snapshots.length, ...known);
    }
  }

  #anyVolume(): ThinVolume {
    return this.random.pick([...this.pool.volumes.values()]);
  }

  /** Mostly the newest, which all bases are older than: few of them survive a power cut. */
  #anyTarget(): ThinSnapshot | null {
    const newest = this.snapshots.findLast((snapshot) => this.live.has(snapshot)) ?? null;
    return this.random.below(3) === 0 ? this.#anyLive() : newest;
  }

  #anyLive(): ThinSnapshot | null {
    return this.live.size === 0 ? null : this.random.pick([...this.live]);
  }

  #count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }
}

for (const passDiscards of isNightly ? [false, true] : [true]) {
  poolTest(
    `no list from a retained base misses a block if discards ${passDiscards ? 'are passed down' : 'stay in the pool'}`,
    async (pool) => {
      const random = seededRandom(`kept bases, discards ${passDiscards ? 'passed down' : 'kept'}`);
      const life = new RandomLife(pool, random);
      await pool.written(0);
      for (let step = 0; step < STEPS; step += 1) await life.step();
      await life.check();
      console.log(`# ${life}`);
      assert.ok(life.counts.has(FROM_KEPT), 'there was something to compare');
    },
    { backend: { passDiscards } },
  );
}
