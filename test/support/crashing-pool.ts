/**
 * A thin pool whose process dies during changes, and the invariants that must hold afterwards.
 */
import assert from 'node:assert/strict';
import type { Backend } from '../../src/backends/backend.js';
import type { Steps } from '../faults/steps.js';
import { BackendProcess } from './backend-process.js';
import { Interrupter } from './interrupter.js';
import { TaggedBlocks } from './tagged-blocks.js';
import {
  BLOCKS,
  type Cast,
  type Change,
  type MakeChange,
  newSnapshot,
  newVolume,
  PoolModel,
  VOLUME_BYTES,
} from './thin-changes.js';
import { ThinRig } from './thin-rig.js';

/** More than any change has. */
const MOST_STEPS = 60;

export class CrashingPool {
  #interrupter = new Interrupter();
  #model = new PoolModel();
  readonly #cast: Cast = { attached: newVolume(), detached: newVolume(), snapshot: newSnapshot() };

  private constructor(private readonly rig: ThinRig) {}

  static async make(): Promise<CrashingPool> {
    const pool = new CrashingPool(await ThinRig.make('crash'));
    await pool.rig.backend.stop();
    await pool.rig.next(pool.#interrupter);
    await pool.#settle();
    return pool;
  }

  /**
   * The power is cut after `first` steps, then `stride` steps later, and so on, until the change completes. Returns the
   * number of power cuts.
   */
  async dieEverywhere(make: MakeChange, first: number, stride: number): Promise<number> {
    let deaths = 0;
    for (let steps = first; steps < MOST_STEPS; steps += stride) {
      const change = await this.#prepare(make, steps);
      const died = await this.#diesAfter(steps, change);
      await this.#finish(change, died, steps % 2 === 0);
      await this.#tidy();
      if (!died) return deaths;
      deaths += 1;
    }
    throw new Error(`a change of more than ${MOST_STEPS} steps`);
  }

  /**
   * Kills a process before each of the chosen steps of the change, which is then finished by the next one.
   * Returns how many there were to choose from.
   */
  async killEverywhere(
    make: MakeChange,
    steps: Steps,
    choose: (names: readonly string[]) => readonly string[],
  ): Promise<{ kills: number; steps: number }> {
    const names = await this.#trace(make, steps);
    const chosen = choose(names);
    for (const [index, step] of chosen.entries()) {
      try {
        await this.#killBefore(step, await this.#prepare(make, index), steps, index % 2 === 0);
      } catch (thrown) {
        throw new Error(`killed before ${step}`, { cause: thrown });
      }
    }
    if (chosen.length === names.length) {
      assert.deepEqual((await this.#trace(make, steps)).sort(), [...names].sort());
    }
    return { kills: chosen.length, steps: names.length };
  }

  /** The names of the steps of an undisturbed change. */
  async #trace(make: MakeChange, steps: Steps): Promise<string[]> {
    const change = await this.#prepare(make, 0);
    const child = await this.#startChild(steps);
    let names: string[] = [];
    try {
      steps.begin();
      await change.act(child.backend);
      names = [...steps.names];
      steps.begin();
      await child.stop();
    } finally {
      await child.end();
    }
    await this.rig.next(this.#interrupter);
    await this.#finish(change, false, false);
    await this.#tidy();
    return names;
  }

  async #killBefore(step: string, change: Change, steps: Steps, takeBack: boolean): Promise<void> {
    const child = await this.#startChild(steps);
    try {
      steps.begin({ step, does: 'die' });
      await change.act(child.backend).catch(() => undefined);
      assert.ok(steps.isReached, `the step has not come, but ${steps.names.join('; ')}`);
    } finally {
      steps.begin();
      await child.end();
    }
    await this.#succeed(change);
    await this.#finish(change, true, takeBack);
    await this.#tidy();
  }

  /** It takes the pool over from the backend of this process. */
  async #startChild(steps: Steps): Promise<BackendProcess> {
    await this.#backend.stop();
    this.#interrupter = new Interrupter();
    return BackendProcess.start(this.rig.options, steps.environment);
  }

  async assertEmptied(): Promise<void> {
    const { backend } = this.rig;
    for (const id of this.#model.volumes.keys()) await backend.deleteVolume(id);
    for (const id of this.#model.snapshots.keys()) await backend.deleteSnapshot(id);
    const { usable, invalidated } = await backend.retainedBases();
    for (const { snapshotId } of [...usable, ...invalidated]) await backend.dropBase(snapshotId);
    await this.#assertHolds(new PoolModel());
    assert.equal((await this.rig.status()).usedDataBlocks, 0n, 'data blocks leaked');
    await backend.stop();
    this.rig.assertSound();
  }

  /** The pool's own files, which its steps are named after. */
  get directory(): string {
    return this.rig.directory;
  }

  dispose(): Promise<void> {
    return this.rig.dispose();
  }

  get #backend(): Backend {
    return this.rig.backend;
  }

  /** The volumes and the snapshot that all changes are about. */
  async #settle(): Promise<void> {
    const { attached, detached, snapshot } = this.#cast;
    for (const id of [attached, detached]) {
      await this.#backend.createVolume(id, VOLUME_BYTES);
      this.#model.volumes.set(id, TaggedBlocks.zeros(BLOCKS));
      for (const block of [1, 2, 8]) await this.#write(id, block, block + 1);
    }
    await this.#backend.createSnapshots([{ volumeId: attached, snapshotId: snapshot }]);
    this.#model.snapshots.set(snapshot, this.#model.volume(attached).copy());
  }

  async #prepare(make: MakeChange, steps: number): Promise<Change> {
    await this.#write(this.#cast.attached, steps % BLOCKS, 100 + steps);
    await this.#backend.detach(this.#cast.detached);
    return make(this.#backend, this.#model, this.#cast);
  }

  /** False if the change completed before. */
  async #diesAfter(steps: number, change: Change): Promise<boolean> {
    const died = this.#interrupter.dieAfter(steps).then(() => 'died');
    const outcome = await Promise.race([change.act(this.#backend), died]).finally(() =>
      this.#interrupter.disarm(),
    );
    if (outcome !== 'died') return false;
    this.rig.abandon();
    await this.rig.fixture.powerCut();
    this.#interrupter = new Interrupter();
    await this.#succeed(change);
    return true;
  }

  /** The next process, which sweeps what the dead one has left of the change. */
  async #succeed(change: Change): Promise<void> {
    await this.rig.next(this.#interrupter);
    const known = [...this.#model.ids, ...change.after.ids];
    const strange = (await this.#backend.sweep()).filter(
      (name) => !known.some((id) => name.startsWith(id)),
    );
    assert.deepEqual(strange, [], 'swept, and of no object');
  }

  /** Rolls an unfinished change back, or repeats it. */
  async #finish(change: Change, died: boolean, takeBack: boolean): Promise<void> {
    if (died) {
      const found = await this.#ids();
      const conforming = [this.#model.ids, change.after.ids];
      assert.ok(
        conforming.some((ids) => `${ids}` === `${found}`),
        `${found} is neither of ${conforming}`,
      );
    }
    if (died && change.undo !== undefined) await change.undo(this.#backend);
    const isUndone = change.undo !== undefined && takeBack;
    if (died && !isUndone) await change.act(this.#backend);
    if (!died || !isUndone) this.#model = change.after;
    await this.#assertHolds(this.#model);
  }

  /** Asserts that the pool holds exactly the model's objects and content, and no device is suspended. */
  async #assertHolds(model: PoolModel): Promise<void> {
    assert.deepEqual(await this.#ids(), model.ids);
    assert.deepEqual((await this.#backend.list()).unknown, []);
    const { mode, heldRoot } = await this.rig.status();
    assert.deepEqual({ mode, heldRoot }, { mode: 'rw', heldRoot: null });
    assert.equal(await this.rig.deviceCount(), model.ids.length, 'thin devices in the pool');
    assert.deepEqual(await this.rig.suspendedDevices(), []);
    for (const [id, content] of model.volumes) await this.#verify(id, content);
    for (const [id, content] of model.snapshots) {
      if (id !== this.#cast.snapshot) await this.#verifySnapshot(id, content);
    }
  }

  async #verify(volumeId: string, content: TaggedBlocks): Promise<void> {
    const wasAttached = (await this.#backend.findAttachment(volumeId)) !== null;
    const { devicePath } = await this.#backend.attach(volumeId, { readOnly: false });
    await content.verify(devicePath, volumeId);
    if (!wasAttached) await this.#backend.detach(volumeId);
  }

  async #verifySnapshot(snapshotId: string, content: TaggedBlocks): Promise<void> {
    const id = newVolume();
    await this.#backend.restoreVolume(id, snapshotId, VOLUME_BYTES);
    await this.#verify(id, content);
    await this.#backend.deleteVolume(id);
  }

  /** Deletes what the change has made. */
  async #tidy(): Promise<void> {
    const { attached, detached, snapshot } = this.#cast;
    for (const id of [...this.#model.volumes.keys()].filter(
      (v) => ![attached, detached].includes(v),
    )) {
      await this.#backend.deleteVolume(id);
      assert.equal(await this.#backend.isInitialized(id), false);
      this.#model.volumes.delete(id);
    }
    for (const id of [...this.#model.snapshots.keys()].filter((s) => s !== snapshot)) {
      await this.#backend.deleteSnapshot(id);
      this.#model.snapshots.delete(id);
    }
  }

  async #write(volumeId: string, block: number, value: number): Promise<void> {
    const { devicePath } = await this.#backend.attach(volumeId, { readOnly: false });
    const content = this.#model.volume(volumeId).copy();
    await content.write(devicePath, block, value);
    this.#model.volumes.set(volumeId, content);
  }

  async #ids(): Promise<string[]> {
    const { volumes, snapshots } = await this.#backend.list();
    return [...volumes, ...snapshots].map(({ id }) => id).sort();
  }
}
