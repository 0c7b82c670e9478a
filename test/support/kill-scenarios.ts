/**
 * Lives of volumes and snapshots in which the plugin is killed at every step. After each kill the
 * plugin is started again, nothing may be lost, and the step repeated has to succeed.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { BlockContents, type Contents, type Disturbance, FileContents } from './contents.js';
import { blockCapability, mountCapability } from './csi-client.js';
import type { KillablePlugin } from './killable-plugin.js';
import { assertSound } from './metadata-check.js';
import { type HeldVolume, MIB, Orchestrator, untilSettled } from './orchestrator.js';
import type { Random } from './random.js';
import { SnapshotImage } from './snapshot-image.js';
import type { Workspace } from './workspace.js';

export type VolumeKind = 'block' | 'ext4' | 'xfs';
export const VOLUME_KINDS: readonly VolumeKind[] = ['block', 'ext4', 'xfs'];

const SIZES: Readonly<Record<VolumeKind, number>> = {
  block: 8 * MIB,
  ext4: 24 * MIB,
  xfs: 300 * MIB,
};
const SNAPSHOTS_KEPT = 3;
const THAW_TIMEOUT_MS = 10_000;
/** No round of work takes that long. */
const STUCK_MS = 150;

interface HeldSnapshot {
  id: string;
  contents: Contents;
  image: SnapshotImage;
}

/** A volume that stays published throughout, with somebody working on it. */
export interface Resident {
  kind: VolumeKind;
  volume: HeldVolume;
  contents: Contents;
  snapshots: HeldSnapshot[];
}

interface StepHooks {
  afterKill?: () => Promise<void>;
  afterStart?: () => Promise<void>;
}

export class KillScenarios {
  readonly #orchestrator: Orchestrator;
  readonly #volumes = new Map<string, HeldVolume>();
  readonly #snapshotIds = new Set<string>();
  /** An object that is being made or removed, so that it may be there or not. */
  #doubtful = '';
  #names = 0;
  /** Off: calls are measured and nobody is killed. */
  killing = false;
  /** Kills that left a file system frozen. */
  frozen = 0;

  constructor(
    workspace: Workspace,
    private readonly plugin: KillablePlugin,
    private readonly random: Random,
    /** The directory with volumes/ and snapshots/. */
    private readonly poolPath: string,
  ) {
    this.#orchestrator = new Orchestrator(workspace, () => plugin.client);
  }

  async settle(kind: VolumeKind): Promise<Resident> {
    const volume = await this.#create(kind, undefined);
    const contents = this.#empty(kind);
    await contents.work(await this.#orchestrator.bringUp(volume), this.random);
    return { kind, volume, contents, snapshots: [] };
  }

  /** Takes everything of the resident down; its contents are checked before and after. */
  async leave(resident: Resident): Promise<void> {
    const { volume, contents } = resident;
    await contents.verify(volume.targetPath);
    await this.#orchestrator.takeDown(volume);
    await contents.verify(await this.#orchestrator.bringUp(volume));
    await this.#orchestrator.takeDown(volume);
    await this.#delete(volume, resident.kind);
    for (const snapshot of resident.snapshots.splice(0)) await this.#deleteSnapshot(snapshot);
  }

  /** Cuts a snapshot of a busy volume and deletes the oldest. */
  async cut(resident: Resident): Promise<void> {
    const { volume, contents, snapshots, kind } = resident;
    await contents.work(volume.targetPath, this.random);
    const name = this.#name('snapshot');
    let disturbance = contents.disturb(volume.targetPath);
    const id = await this.#step(
      `CreateSnapshot ${kind}`,
      () => this.#orchestrator.snapshot(volume, name),
      {
        afterKill: async () => {
          if (await isStuck(disturbance)) this.frozen += 1;
        },
        afterStart: async () => {
          await writesGoThrough(disturbance);
          disturbance = contents.disturb(volume.targetPath);
        },
      },
    );
    await writesGoThrough(disturbance);
    this.#snapshotIds.add(id);
    const last = snapshots.at(-1) ?? null;
    const file = join(this.poolPath, 'snapshots', id);
    const image = SnapshotImage.read(file, volume.sizeBytes, last?.image ?? null);
    snapshots.push({ id, contents: contents.copy(), image });
    await this.#checkLists(snapshots, volume.sizeBytes);
    if (snapshots.length > SNAPSHOTS_KEPT) {
      const index = this.random.below(snapshots.length);
      for (const snapshot of snapshots.splice(index, 1)) await this.#deleteSnapshot(snapshot);
    }
  }

  /** A volume from a snapshot, or an empty one, through its whole life. */
  async live(kind: VolumeKind, source: HeldSnapshot | undefined): Promise<void> {
    const volume = await this.#create(kind, source?.id);
    const contents = source?.contents.copy() ?? this.#empty(kind);
    // What was made from a snapshot is used once, what was formatted here a second time.
    for (let round = source === undefined ? 1 : 2; round <= 2; round += 1) {
      await this.#step(`NodeStage ${kind}`, () => this.#orchestrator.stage(volume));
      await this.#step(`NodePublish ${kind}`, () => this.#orchestrator.publish(volume));
      await contents.verify(volume.targetPath);
      if (round === 1) await contents.work(volume.targetPath, this.random);
      await this.#step(`NodeUnpublish ${kind}`, () => this.#orchestrator.unpublish(volume));
      await this.#step(`NodeUnstage ${kind}`, () => this.#orchestrator.unstage(volume));
    }
    await this.#delete(volume, kind);
  }

  /** Every snapshot still has the bytes it was cut with. */
  checkSnapshots(resident: Resident): void {
    for (const { id, image } of resident.snapshots) {
      const file = join(this.poolPath, 'snapshots', id);
      const found = SnapshotImage.read(file, image.sizeBytes, image);
      const isSame = found.chunks.every((_, index) => found.sameChunk(image, index));
      assert.ok(isSame, `snapshot ${id} has other bytes than when it was cut`);
    }
  }

  #empty(kind: VolumeKind): Contents {
    return kind === 'block' ? BlockContents.empty(SIZES.block) : new FileContents();
  }

  async #create(kind: VolumeKind, snapshotId: string | undefined): Promise<HeldVolume> {
    const name = this.#name('volume');
    const capability = kind === 'block' ? blockCapability() : mountCapability(kind);
    const wish = { capability, sizeBytes: SIZES[kind] };
    const source = snapshotId === undefined ? {} : { snapshotId };
    const label = snapshotId === undefined ? 'CreateVolume' : 'CreateVolume from a snapshot';
    const volume = await this.#step(label, () =>
      this.#orchestrator.create(name, { ...wish, ...source }),
    );
    assert.equal(volume.sizeBytes, SIZES[kind]);
    this.#volumes.set(volume.id, volume);
    return volume;
  }

  async #delete(volume: HeldVolume, kind: VolumeKind): Promise<void> {
    this.#doubtful = volume.id;
    await this.#step(`DeleteVolume ${kind}`, () => this.#orchestrator.delete(volume));
    this.#doubtful = '';
    this.#volumes.delete(volume.id);
    await this.#checkListing();
  }

  async #deleteSnapshot(snapshot: HeldSnapshot): Promise<void> {
    this.#doubtful = snapshot.id;
    await this.#step('DeleteSnapshot', () => this.#orchestrator.deleteSnapshot(snapshot.id));
    this.#doubtful = '';
    this.#snapshotIds.delete(snapshot.id);
    await this.#checkListing();
  }

  /** One call, killed, and repeated until it is done. */
  async #step<T>(
    label: string,
    call: () => Promise<T>,
    { afterKill, afterStart }: StepHooks = {},
  ): Promise<T> {
    if (!this.killing) return this.plugin.measure(label, call);
    const outcome = await this.plugin.killDuring(label, call);
    await afterKill?.();
    await this.plugin.start();
    await this.#checkListing(true);
    await afterStart?.();
    const answer = await untilSettled(call);
    if (outcome !== 'cut off') assert.deepEqual(answer, outcome.answer, `${label}, repeated`);
    this.#checkNoTemporaries();
    return answer;
  }

  /** All that was answered is there, and nothing else but, perhaps, what is being made now. */
  async #checkListing(isDoubtful = false): Promise<void> {
    const known = [...this.#volumes.keys(), ...this.#snapshotIds];
    const listed = [
      ...(await this.#orchestrator.volumeIds()),
      ...(await this.#orchestrator.snapshotIds()),
    ];
    const lost = known.filter((id) => !listed.includes(id) && id !== this.#doubtful);
    assert.deepEqual(lost, [], 'lost by a kill');
    const strange = listed.filter((id) => !known.includes(id));
    assert.ok(strange.length <= (isDoubtful ? 1 : 0), `made twice or undead: ${strange}`);
    const held = ['volumes', 'snapshots'].flatMap((kind) => readdirSync(join(this.poolPath, kind)));
    assert.deepEqual(held.sort(), listed.sort(), 'what the pool holds is what is listed');
  }

  #checkNoTemporaries(): void {
    for (const kind of ['volumes', 'snapshots']) {
      const left = readdirSync(join(this.poolPath, kind)).filter((name) => name.endsWith('.tmp'));
      assert.deepEqual(left, [], 'temporary files left in the pool');
    }
  }

  /** The lists of the newest snapshot cover every byte that differs. */
  async #checkLists(snapshots: readonly HeldSnapshot[], sizeBytes: number): Promise<void> {
    const target = snapshots.at(-1);
    if (target === undefined) return;
    const allocated = await this.plugin.client.allocated(target.id);
    assertSound(SnapshotImage.zeros(sizeBytes), target.image, allocated, 'allocated list');
    for (const base of snapshots.slice(0, -1)) {
      const delta = await this.plugin.client.delta(base.id, target.id);
      assertSound(base.image, target.image, delta, `delta from ${base.id} to ${target.id}`);
    }
  }

  #name(kind: string): string {
    this.#names += 1;
    return `${kind} ${this.#names}`;
  }
}

/** The work ends, so the file system is not frozen. */
async function writesGoThrough(disturbance: Disturbance): Promise<void> {
  const begin = performance.now();
  const end = disturbance.stop().then(() => 'went through');
  const outcome = await Promise.race([end, delay(THAW_TIMEOUT_MS, 'stuck', { ref: false })]);
  assert.notEqual(outcome, 'stuck', `a write is stuck for ${performance.now() - begin} ms`);
}

async function isStuck(disturbance: Disturbance): Promise<boolean> {
  const { rounds } = disturbance;
  await delay(STUCK_MS);
  return disturbance.rounds === rounds;
}
