/**
 * kill -9 of the plugin at random moments of CreateSnapshot of a mounted volume in many pieces, which is cloned
 * ahead of the freeze on XFS, and out of a copy of its subvolume on btrfs. The workload resumes without a restart
 * of the plugin, the next start leaves nothing of the clone behind, and the repeated call takes a snapshot of one
 * point in time, with sound lists.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { Ledger } from '../faults/ledger.js';
import { mountCapability } from '../support/csi-client.js';
import { KillablePlugin } from '../support/killable-plugin.js';
import { assertSound, Tally } from '../support/metadata-check.js';
import { isNightly } from '../support/nightly.js';
import {
  begunNumber,
  NumberedWriter,
  readNumbers,
  writePieces,
} from '../support/numbered-writer.js';
import { type HeldVolume, MIB, Orchestrator, untilSettled } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { test } from '../support/running-plugin.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import { makePoolFileSystem, Workspace } from '../support/workspace.js';

const KILLS = isNightly ? 150 : 8;
/** Kills that find the clone unfinished are wanted; after so many the test gives up on them. */
const MAX_KILLS = 3 * KILLS;
/** Cloning them takes some hundred milliseconds. ext4 would join them: it writes zeros between close blocks. */
const PIECES = 24_000;
const SIZE_BYTES = 352 * MIB;

/** What a kill left in the pool before the next start. */
interface Found {
  clone: number;
  copy: number;
}

const CASES = [
  {
    pool: 'xfs',
    left: ({ clone }: Found) => clone,
    title: 'a kill while a mounted volume on XFS is cloned ahead of its freeze',
  },
  {
    pool: 'btrfs',
    left: ({ copy }: Found) => copy,
    title: 'a kill while a mounted volume on btrfs is cloned from a copy of its subvolume',
  },
] as const;

const ends: (() => Promise<void>)[] = [];

after(async () => {
  for (const end of ends.reverse()) await end();
});

for (const { pool, left, title } of CASES) {
  test(`${title} leaves nothing behind, and the call can be repeated`, async () => {
    const scene = await Scene.make(pool);
    let kills = 0;
    while (kills < KILLS || (left(scene.found) === 0 && kills < MAX_KILLS)) {
      await scene.killDuringSnapshot();
      kills += 1;
    }
    console.log(`${scene.plugin.summary()}\n#   left before the next start: ${scene.summary()}`);
    assert.ok(left(scene.found) > 0, 'no kill left an unfinished clone');
    await scene.leave();
  });
}

class Scene {
  readonly found: Found = { clone: 0, copy: 0 };
  readonly #orchestrator: Orchestrator;
  readonly #ledger: Ledger;
  readonly #allocated = new Tally();
  readonly #deltas = new Tally();
  #base: { id: string; image: SnapshotImage } | undefined;
  #names = 0;

  private constructor(
    readonly plugin: KillablePlugin,
    private readonly poolPath: string,
    private readonly volume: HeldVolume,
    private readonly writer: NumberedWriter,
    orchestrator: Orchestrator,
  ) {
    this.#orchestrator = orchestrator;
    this.#ledger = new Ledger(orchestrator, () => poolPath);
    this.#ledger.add(volume.id);
  }

  static async make(pool: 'xfs' | 'btrfs'): Promise<Scene> {
    const workspace = new Workspace(`kill-mounted-${pool}`);
    ends.push(async () => workspace.dispose());
    const poolPath = makePoolFileSystem(workspace, pool, 4096);
    const random = seededRandom(`kill a snapshot of a mounted volume on ${pool}`);
    const plugin = new KillablePlugin(workspace, { pools: `main=${poolPath}` }, random);
    ends.push(() => plugin.end());
    await plugin.start();
    const orchestrator = new Orchestrator(workspace, () => plugin.client);
    const spec = { capability: mountCapability('xfs'), sizeBytes: SIZE_BYTES };
    const volume = await orchestrator.create('written', spec);
    const target = await orchestrator.bringUp(volume);
    await writePieces(join(target, 'pieces'), PIECES);
    const writer = await NumberedWriter.start(target);
    ends.push(() => writer.stop());
    const scene = new Scene(plugin, poolPath, volume, writer, orchestrator);
    await scene.#measure();
    return scene;
  }

  async killDuringSnapshot(): Promise<void> {
    const name = this.#name();
    const take = (): Promise<string> => this.#orchestrator.snapshot(this.volume, name);
    const finishedBefore = this.writer.finished;
    const outcome = await this.plugin.killDuring('CreateSnapshot', take);
    await this.writer.goOn();
    if (this.#clones().length > 0) this.found.clone += 1;
    if (this.#copies().length > 0) this.found.copy += 1;
    await this.plugin.start();
    assert.deepEqual(this.#copies(), [], 'copies of the subvolume after a start');
    await this.#ledger.check({ makes: 1 });
    await this.writer.goOn();
    const id = await untilSettled(take);
    if (outcome !== 'interrupted') assert.equal(id, outcome.answer, 'the call, repeated');
    assert.deepEqual([this.#copies(), this.#clones()], [[], []], 'left by the repeated call');
    this.#ledger.add(id);
    await this.#check(id, finishedBefore);
  }

  /** Takes everything down. */
  async leave(): Promise<void> {
    await this.writer.stop();
    if (this.#base !== undefined) await this.#delete(this.#base.id);
    await this.#orchestrator.takeDown(this.volume);
    await this.#orchestrator.delete(this.volume);
    this.#ledger.remove(this.volume.id);
    await this.#ledger.check();
    await this.plugin.stop();
  }

  summary(): string {
    const { clone, copy } = this.found;
    return `clone ${clone} times, copy ${copy} times\n#   allocated: ${this.#allocated}\n#   deltas: ${this.#deltas}`;
  }

  /** The first snapshot, without a kill. */
  async #measure(): Promise<void> {
    const finishedBefore = this.writer.finished;
    const name = this.#name();
    const take = (): Promise<string> => this.#orchestrator.snapshot(this.volume, name);
    const id = await this.plugin.measure('CreateSnapshot', take);
    this.#ledger.add(id);
    await this.#check(id, finishedBefore);
  }

  /** Content, file system and lists of a new snapshot, which then takes the place of the one before. */
  async #check(id: string, finishedBefore: number): Promise<void> {
    const image = SnapshotImage.read(
      join(this.poolPath, 'snapshots', id),
      SIZE_BYTES,
      this.#base?.image ?? null,
    );
    const zeros = SnapshotImage.zeros(SIZE_BYTES);
    const allocated = await this.plugin.client.allocated(id);
    this.#allocated.add(assertSound(zeros, image, allocated, `allocated list of ${id}`));
    await this.#checkContent(id, finishedBefore);
    if (this.#base !== undefined) {
      const delta = await this.plugin.client.delta(this.#base.id, id);
      this.#deltas.add(assertSound(this.#base.image, image, delta, `delta to ${id}`));
      await this.#delete(this.#base.id);
    }
    this.#base = { id, image };
  }

  async #checkContent(snapshotId: string, finishedBefore: number): Promise<void> {
    const { capability } = this.volume;
    const spec = { capability, sizeBytes: SIZE_BYTES, snapshotId };
    const restored = await this.#orchestrator.create(`restored ${this.#names}`, spec);
    const target = await this.#orchestrator.bringUp(restored);
    const last = readNumbers(target);
    assert.ok(last >= finishedBefore, `${last} is the last, and ${finishedBefore} was written`);
    const begun = begunNumber(this.volume.targetPath);
    assert.ok(last <= begun, `${last} is the last, and ${begun} was not begun`);
    await this.#orchestrator.takeDown(restored);
    const file = join(this.poolPath, 'volumes', restored.id);
    execFileSync('xfs_repair', ['-n', '-f', file], { stdio: 'pipe' });
    await this.#orchestrator.delete(restored);
  }

  async #delete(snapshotId: string): Promise<void> {
    await this.#orchestrator.deleteSnapshot(snapshotId);
    this.#ledger.remove(snapshotId);
    await this.#ledger.check();
  }

  #copies(): string[] {
    return readdirSync(this.poolPath).filter((name) => name.endsWith('.copy'));
  }

  #clones(): string[] {
    return readdirSync(join(this.poolPath, 'snapshots')).filter((name) => name.endsWith('.tmp'));
  }

  #name(): string {
    this.#names += 1;
    return `snapshot ${this.#names}`;
  }
}
