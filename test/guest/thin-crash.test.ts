/**
 * A process that dies, alone or with the whole machine, before any step of any change of a thin pool. The next
 * process finds what was confirmed, completes or rolls back the rest, and leaks nothing. A nightly run has both
 * deaths at all steps; a plain one has one of them at each kind of step, and one in each change.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import type { Backend } from '../../src/backends/backend.js';
import { kindOf, Steps } from '../faults/steps.js';
import { BackendProcess } from '../support/backend-process.js';
import { isNightly } from '../support/nightly.js';
import { TaggedBlocks } from '../support/tagged-blocks.js';
import { Workspace } from '../support/workspace.js';
import { guestTest, isGuest } from './guest.js';
import {
  BLOCKS,
  type Cast,
  CHANGES,
  type Change,
  type MakeChange,
  newSnapshot,
  newVolume,
  PoolModel,
  VOLUME_BYTES,
} from './thin-changes.js';
import { ThinRig } from './thin-rig.js';

interface Death {
  /** Of all deaths. */
  number: number;
  /** Of the whole machine, not of the process alone. */
  cutsPower: boolean;
  /** The change is taken back afterwards, and not repeated. */
  takesBack: boolean;
}

class CrashingPool {
  /** Of this process, or of the child that has taken the pool over. */
  #backend: Backend;
  #model = new PoolModel();
  #attachedPath = '';
  readonly #cast: Cast = { attached: newVolume(), detached: newVolume(), snapshot: newSnapshot() };

  private constructor(private readonly rig: ThinRig) {
    this.#backend = rig.backend;
  }

  static async make(): Promise<CrashingPool> {
    const pool = new CrashingPool(await ThinRig.make('crash'));
    await pool.#settle();
    return pool;
  }

  /** The names of the steps of each change, undisturbed, one after the other in one process. */
  async traces(changes: readonly MakeChange[], steps: Steps): Promise<string[][]> {
    const child = await this.#startChild(steps);
    const traces: string[][] = [];
    this.#backend = child.backend;
    try {
      for (const make of changes) {
        const change = await this.#prepare(make, 0);
        steps.begin();
        await change.act(child.backend);
        traces.push([...steps.names]);
        steps.begin();
        await this.#finish(change, false, false);
        await this.#tidy();
      }
      await child.stop();
    } finally {
      await child.end();
    }
    this.#backend = await this.rig.next();
    return traces;
  }

  /** A process dies before that step of the change, which is then finished or taken back by the next one. */
  async dieBefore(step: string, make: MakeChange, steps: Steps, death: Death): Promise<void> {
    const change = await this.#prepare(make, death.number);
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
    const attached = this.#model.volume(this.#cast.attached);
    if (death.cutsPower) await this.rig.fixture.powerCut();
    const outlives = death.cutsPower || attached.verify(this.#attachedPath, 'the attached volume');
    this.#backend = await this.rig.next();
    await outlives;
    const known = [...this.#model.ids, ...change.after.ids];
    const strange = (await this.#backend.sweep()).filter(
      (name) => !known.some((id) => name.startsWith(id)),
    );
    assert.deepEqual(strange, [], 'swept, and of no object');
    await this.#finish(change, true, death.takesBack);
    await this.#tidy();
  }

  /** It takes the pool over from the backend of this process. */
  async #startChild(steps: Steps): Promise<BackendProcess> {
    await this.#backend.stop();
    return BackendProcess.start(this.rig.options, steps.environment);
  }

  async assertEmptied(): Promise<void> {
    const backend = this.#backend;
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
    if (volumeId === this.#cast.attached) this.#attachedPath = devicePath;
    const content = this.#model.volume(volumeId).copy();
    await content.write(devicePath, block, value);
    this.#model.volumes.set(volumeId, content);
  }

  async #ids(): Promise<string[]> {
    const { volumes, snapshots } = await this.#backend.list();
    return [...volumes, ...snapshots].map(({ id }) => id).sort();
  }
}

let pool: CrashingPool;
let steps: Steps;
let workspace: Workspace;
before(async () => {
  if (!isGuest) return;
  pool = await CrashingPool.make();
  workspace = new Workspace('steps');
  steps = await Steps.listen(workspace.path('socket'), { pool: pool.directory });
});
after(async () => {
  if (!isGuest) return;
  await steps.close();
  await pool.dispose();
  workspace.dispose();
});

const traces = new Map<string, readonly string[]>();
const seen = new Set<string>();
const tally = { deaths: 0, died: 0 };

async function trace(): Promise<Map<string, readonly string[]>> {
  const found = await pool.traces(Object.values(CHANGES), steps);
  return new Map(Object.keys(CHANGES).map((name, index) => [name, found[index] ?? []]));
}

/** Those whose kind no change before had, or the one in the middle. */
function thinned(names: readonly string[]): readonly string[] {
  const first = names.filter((step) => !seen.has(kindOf(step)) && seen.add(kindOf(step)));
  return first.length > 0 ? first : names.slice(names.length >> 1).slice(0, 1);
}

guestTest('the steps of every change are found', async () => {
  for (const [name, names] of await trace()) {
    assert.ok(names.length > 0, name);
    traces.set(name, names);
  }
});

for (const [name, make] of Object.entries(CHANGES)) {
  guestTest(`${name}: no death before any step loses or leaks anything`, async () => {
    const names = traces.get(name) ?? [];
    for (const step of isNightly ? names : thinned(names)) {
      for (const cutsPower of isNightly ? [false, true] : [tally.deaths % 2 === 1]) {
        const death = { number: tally.deaths, cutsPower, takesBack: (tally.deaths & 2) === 0 };
        try {
          await pool.dieBefore(step, make, steps, death);
        } catch (thrown) {
          throw new Error(`${cutsPower ? 'the power' : 'life'} ended before ${step}`, {
            cause: thrown,
          });
        }
        tally.deaths += 1;
      }
      tally.died += 1;
    }
  });
}

guestTest(
  'leftovers of all crashes are removed, and the pool is as empty as at the beginning',
  async (t) => {
    if (isNightly) {
      for (const [name, names] of await trace()) {
        assert.deepEqual([...names].sort(), [...(traces.get(name) ?? [])].sort(), name);
      }
    }
    await pool.assertEmptied();
    const all = [...traces.values()].flat().length;
    const changes = `${traces.size} operations`;
    t.diagnostic(`${tally.died} of ${all} steps of ${changes} were killed`);
  },
);
