/**
 * A process that dies, alone or with the whole machine, before any step of any change of a thin pool. The next
 * process finds what was confirmed, completes or rolls back the rest, and leaks nothing. A nightly run has both
 * deaths at all steps; a plain one has one of them at each kind of step of the change that takes nearly all kinds.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { Backend } from '../../src/driver/backends/backend.js';
import { newSnapshot, newVolume } from '../backend/harness.js';
import { kindOf, Steps } from '../faults/steps.js';
import { BackendProcess } from '../support/backend-process.js';
import { isNightly } from '../support/nightly.js';
import type { TaggedImage } from '../support/tagged-image.js';
import { isGuest, test } from './guest.js';
import {
  BLOCKS,
  type Cast,
  CHANGES,
  type Change,
  type MakeChange,
  noContent,
  PoolModel,
  VOLUME_BYTES,
} from './thin-changes.js';
import { ThinPoolOnDisks, writeBlock } from './thin-pool-on-disks.js';

const PLAIN = 'taking snapshots of two volumes';
const MADE = Object.entries(CHANGES).filter(([name]) => isNightly || name === PLAIN);

class CrashingPool {
  /** Of this process, or of the child that has taken the pool over. */
  #backend: Backend;
  #model = new PoolModel();
  #attachedPath = '';
  readonly #cast: Cast = { attached: newVolume(), detached: newVolume(), snapshot: newSnapshot() };

  private constructor(readonly pool: ThinPoolOnDisks) {
    this.#backend = pool.backend;
  }

  static async make(): Promise<CrashingPool> {
    const crashing = new CrashingPool(await ThinPoolOnDisks.make());
    await crashing.#settle();
    return crashing;
  }

  /** The names of the steps of each change, undisturbed, one after the other in one process. */
  async traces(steps: Steps): Promise<Map<string, readonly string[]>> {
    const child = await this.#startChild(steps);
    const traces = new Map<string, readonly string[]>();
    this.#backend = child.backend;
    try {
      for (const [name, make] of MADE) {
        const change = await this.#prepare(make, 0);
        steps.begin();
        await change.act(child.backend);
        traces.set(name, [...steps.names]);
        steps.begin();
        this.#model = change.after;
        await this.#assertHolds();
        await this.#tidy();
      }
      await child.stop();
    } finally {
      await child.end();
    }
    this.#backend = await this.pool.next();
    return traces;
  }

  /**
   * A process dies before that step of the change, or the power goes. The next process finishes the change, or takes
   * it back.
   *
   * @param death its number
   */
  async dieBefore(
    step: string,
    make: MakeChange,
    steps: Steps,
    { death, cutsPower }: { death: number; cutsPower: boolean },
  ): Promise<void> {
    const change = await this.#prepare(make, death);
    const child = await this.#startChild(steps);
    try {
      steps.begin({ step, does: 'die' });
      await change.act(child.backend).catch(() => undefined);
      assert.ok(steps.isReached, `the step has not come, but ${steps.names.join('; ')}`);
    } finally {
      steps.begin();
      await child.end();
    }
    // What is attached outlives the process; a read of a device that was left suspended ends when it is resumed.
    const attached = this.#model.contentOf(this.#cast.attached);
    if (cutsPower) await this.pool.disks.powerCut();
    const outlives = cutsPower || attached.verify(this.#attachedPath, 'the attached volume');
    this.#backend = await this.pool.next();
    await outlives;
    const known = [...this.#model.ids, ...change.after.ids];
    const strange = this.pool.swept.filter((name) => !known.some((id) => name.startsWith(id)));
    assert.deepEqual(strange, [], 'swept, and of no object');
    await this.#finish(change, (death & 2) === 0);
    await this.#tidy();
  }

  /** It takes the pool over from the backend of this process. */
  async #startChild(steps: Steps): Promise<BackendProcess> {
    await this.#backend.stop();
    return BackendProcess.start(this.pool.options, steps.command);
  }

  async assertEmptied(): Promise<void> {
    const backend = this.#backend;
    for (const id of this.#model.volumes.keys()) await backend.volumes.delete(id);
    for (const id of this.#model.snapshots.keys()) await backend.snapshots.delete(id);
    const { usable, invalidated } = backend.bases.all();
    for (const { snapshotId } of [...usable, ...invalidated]) await backend.bases.drop(snapshotId);
    this.#model = new PoolModel();
    await this.#assertHolds();
    assert.equal((await this.pool.status()).usedDataBlocks, 0n, 'data blocks leaked');
    await backend.stop();
    this.pool.assertSound();
  }

  /** The volumes and the snapshot that all changes are about. */
  async #settle(): Promise<void> {
    const { attached, detached, snapshot } = this.#cast;
    for (const id of [attached, detached]) {
      await this.#backend.volumes.create(id, VOLUME_BYTES);
      this.#model.volumes.set(id, noContent());
      await this.#write(id, 1, 2, 8);
    }
    await this.#backend.snapshots.create([{ volumeId: attached, snapshotId: snapshot }]);
    this.#model.snapshots.set(snapshot, this.#model.contentOf(attached));
  }

  async #prepare(make: MakeChange, steps: number): Promise<Change> {
    await this.#write(this.#cast.attached, steps % BLOCKS);
    await this.#backend.attachments.detach(this.#cast.detached);
    return make(this.#backend, this.#model, this.#cast);
  }

  /** Takes an unfinished change back, and repeats it unless that is all. */
  async #finish({ act, undo, after }: Change, takesBack: boolean): Promise<void> {
    const found = await this.#ids();
    const conforming = [this.#model.ids, after.ids];
    const isConforming = conforming.some((ids) => isDeepStrictEqual(ids, found));
    assert.ok(isConforming, `${found} is neither of ${conforming}`);
    await undo?.(this.#backend);
    if (undo === undefined || !takesBack) {
      await act(this.#backend);
      this.#model = after;
    }
    await this.#assertHolds();
  }

  /** Asserts that the pool holds exactly the model's objects and content, and no device is suspended. */
  async #assertHolds(): Promise<void> {
    const { ids, volumes, snapshots } = this.#model;
    assert.deepEqual(await this.#ids(), ids);
    assert.deepEqual((await this.#backend.list()).unknown, []);
    const { mode, heldRoot } = await this.pool.status();
    assert.deepEqual({ mode, heldRoot }, { mode: 'rw', heldRoot: null });
    assert.equal(await this.pool.deviceCount(), ids.length, 'thin devices in the pool');
    assert.deepEqual(await this.pool.suspendedDevices(), []);
    for (const [id, content] of volumes) await this.#verify(id, content);
    for (const [id, content] of snapshots) {
      if (id !== this.#cast.snapshot) await this.#verifySnapshot(id, content);
    }
  }

  async #verify(volumeId: string, content: TaggedImage): Promise<void> {
    const wasAttached = (await this.#backend.attachments.find(volumeId)) !== null;
    const { devicePath } = await this.#backend.attachments.attach(volumeId, { readOnly: false });
    await content.verify(devicePath, volumeId);
    if (!wasAttached) await this.#backend.attachments.detach(volumeId);
  }

  async #verifySnapshot(snapshotId: string, content: TaggedImage): Promise<void> {
    const id = newVolume();
    await this.#backend.volumes.create(id, VOLUME_BYTES, { snapshotId });
    await this.#verify(id, content);
    await this.#backend.volumes.delete(id);
  }

  /** Deletes what the change has made. */
  async #tidy(): Promise<void> {
    const { attached, detached, snapshot } = this.#cast;
    for (const id of [...this.#model.volumes.keys()].filter((v) => ![attached, detached].includes(v))) {
      await this.#backend.volumes.delete(id);
      assert.equal(await this.#backend.marks.has(id), false);
      this.#model.volumes.delete(id);
    }
    for (const id of [...this.#model.snapshots.keys()].filter((s) => s !== snapshot)) {
      await this.#backend.snapshots.delete(id);
      this.#model.snapshots.delete(id);
    }
  }

  async #write(volumeId: string, ...blocks: number[]): Promise<void> {
    const { devicePath } = await this.#backend.attachments.attach(volumeId, { readOnly: false });
    if (volumeId === this.#cast.attached) this.#attachedPath = devicePath;
    const content = this.#model.contentOf(volumeId).copy();
    for (const block of blocks) await writeBlock(content, devicePath, block);
    this.#model.volumes.set(volumeId, content);
  }

  async #ids(): Promise<string[]> {
    const { volumes, snapshots } = await this.#backend.list();
    return [...volumes, ...snapshots].map(({ id }) => id).sort();
  }
}

let crashing: CrashingPool;
let steps: Steps;
before(async () => {
  if (!isGuest) return;
  crashing = await CrashingPool.make();
  const { workspace, directory } = crashing.pool;
  steps = await Steps.listen(workspace.path('steps'), { pool: directory });
});
after(async () => {
  if (!isGuest) return;
  await steps.close();
  await crashing.pool.dispose();
});

let traces = new Map<string, readonly string[]>();
const seen = new Set<string>();
const tally = { deaths: 0, died: 0 };

/** Those whose kind no change before had. */
const thinned = (names: readonly string[]): readonly string[] =>
  names.filter((step) => seen.size !== seen.add(kindOf(step)).size);

test('the steps of every change are found', async () => {
  traces = await crashing.traces(steps);
  for (const [name, names] of traces) assert.ok(names.length > 0, name);
});

for (const [name, make] of MADE) {
  test(`${name}: no death before any step loses or leaks anything`, async () => {
    const names = traces.get(name) ?? [];
    for (const step of isNightly ? names : thinned(names)) {
      for (const cutsPower of isNightly ? [false, true] : [tally.deaths % 2 === 1]) {
        try {
          await crashing.dieBefore(step, make, steps, { death: tally.deaths, cutsPower });
        } catch (cause) {
          throw new Error(`${cutsPower ? 'the power' : 'life'} ended before ${step}`, { cause });
        }
        tally.deaths += 1;
      }
      tally.died += 1;
    }
  });
}

test('leftovers of all crashes are removed, and the pool is as empty as at the beginning', async (t) => {
  if (isNightly) {
    for (const [name, names] of await crashing.traces(steps)) {
      assert.deepEqual([...names].sort(), [...(traces.get(name) ?? [])].sort(), name);
    }
  }
  await crashing.assertEmptied();
  const all = [...traces.values()].flat().length;
  t.diagnostic(`${tally.died} of ${all} steps of ${traces.size} operations were killed`);
});
