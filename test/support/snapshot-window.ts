/**
 * The last few snapshots of a volume, made and deleted at random, with the bytes of each; and the
 * check of every list among them, and from deleted ones, that a client could ask for.
 */
import assert from 'node:assert/strict';
import { StatusCode } from '../../src/base/errors.js';
import { assertSound, soundLists, type TakenSnapshot, Tally } from './metadata-check.js';
import type { Random } from './random.js';
import type { ReflinkBench, Writing } from './reflink-bench.js';

/** How many snapshots are kept. */
const LIVE = 4;
/** How many deleted snapshots are still asked for as bases. */
const GONE = 6;

interface LiveSnapshot<Note> extends TakenSnapshot {
  /** Whatever the test wants to remember of that moment. */
  note: Note;
  /** Counts the snapshots of the volume. */
  order: number;
}

export class SnapshotWindow<Note = null> {
  readonly live: LiveSnapshot<Note>[] = [];
  readonly allocated = new Tally();
  readonly deltas = new Tally();
  /** Deltas from deleted snapshots that the plugin answered, and those that it refused. */
  readonly fromDeleted = new Tally();
  readonly refusals: string[] = [];
  #gone: LiveSnapshot<Note>[] = [];
  #taken = 0;

  constructor(
    private readonly bench: ReflinkBench,
    private readonly work: Pick<Writing, 'kind' | 'volume'>,
    private readonly random: Random,
  ) {}

  /** Deletes some, takes a new one, and reads it. */
  async take(note: Note): Promise<LiveSnapshot<Note>> {
    while (this.live.length >= LIVE || (this.live.length > 1 && this.random.below(4) === 0)) {
      await this.drop(this.random.below(this.live.length));
    }
    const id = await this.bench.snapshot(this.work);
    const image = this.bench.read(this.work.kind, id, this.live.at(-1)?.image);
    this.#taken += 1;
    const made = { id, image, note, order: this.#taken };
    this.live.push(made);
    return made;
  }

  /** Deletes one of them. */
  async drop(index: number): Promise<void> {
    const [gone] = this.live.splice(index, 1);
    if (gone === undefined) return;
    await this.bench.orchestrator.deleteSnapshot(gone.id);
    this.#gone = [...this.#gone, gone].slice(-GONE);
  }

  /** Every list that a client could ask for, against the bytes. */
  async check(): Promise<void> {
    const { allocated, deltas } = await soundLists(this.bench.client, this.live);
    this.allocated.add(allocated);
    this.deltas.add(deltas);
    for (const target of this.live) {
      for (const base of this.#gone) {
        if (base.order < target.order) await this.#checkFromDeleted(base, target);
      }
    }
  }

  /** A delta from a deleted snapshot may be refused, and may not miss a byte. */
  async #checkFromDeleted(base: LiveSnapshot<Note>, target: LiveSnapshot<Note>): Promise<void> {
    const between = `delta from deleted ${base.id} to ${target.id}`;
    try {
      const delta = await this.bench.client.delta(base.id, target.id);
      this.fromDeleted.add(assertSound(base.image, target.image, delta, between));
    } catch (thrown) {
      const { code, message } = thrown as { code?: number; message?: string };
      if (code !== StatusCode.NOT_FOUND && code !== StatusCode.FAILED_PRECONDITION) throw thrown;
      assert.match(message ?? '', /full backup/, between);
      this.refusals.push(message ?? '');
    }
  }

  /** The figures, and that there was something to find. */
  report(say: (line: string) => void): void {
    say(`allocated: ${this.allocated}`);
    say(`deltas: ${this.deltas}`);
    say(`from deleted snapshots: ${this.fromDeleted}; ${this.refusals.length} refused`);
    assert.ok(this.deltas.differing > 0 && this.allocated.differing > 0, 'nothing was compared');
  }
}
