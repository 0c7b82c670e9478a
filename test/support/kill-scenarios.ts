/**
 * Lifecycles of volumes, snapshots and group snapshots in which the plugin is killed at every step. After
 * each kill the plugin is restarted, nothing may be lost, and the repeated step must succeed.
 */
import assert from 'node:assert/strict';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { BlockContents, type Contents, type Disturbance, FileContents } from './contents.js';
import { blockCapability, mountCapability } from './csi-client.js';
import { KillLedger } from './kill-ledger.js';
import type { KillablePlugin } from './killable-plugin.js';
import { assertSound } from './metadata-check.js';
import {
  type HeldGroup,
  type HeldVolume,
  MIB,
  Orchestrator,
  untilSettled,
  type VolumeSpec,
} from './orchestrator.js';
import type { Random } from './random.js';
import { statusOf } from './refusal.js';
import { SnapshotImage } from './snapshot-image.js';
import type { Workspace } from './workspace.js';

export type VolumeKind = 'block' | 'ext4' | 'xfs';
export const VOLUME_KINDS: readonly VolumeKind[] = ['block', 'ext4', 'xfs'];

const SIZES: Readonly<Record<VolumeKind, number>> = {
  block: 8 * MIB,
  ext4: 24 * MIB,
  xfs: 300 * MIB,
};
const GROWN: Readonly<Record<VolumeKind, number>> = {
  block: 12 * MIB,
  ext4: 40 * MIB,
  xfs: 348 * MIB,
};
const SNAPSHOTS_KEPT = 1;
const GROUPS_KEPT = 1;
const THAW_TIMEOUT_MS = 10_000;
/** No round of work takes that long. */
const STUCK_MS = 150;

interface HeldSnapshot {
  id: string;
  contents: Contents;
  image: SnapshotImage;
  /** Snapshots of a group are deleted with it. */
  isMember: boolean;
}

/** A volume that stays published throughout, with somebody working on it. */
export interface Resident {
  kind: VolumeKind;
  volume: HeldVolume;
  contents: Contents;
  snapshots: HeldSnapshot[];
}

/** Where a new volume gets its content from. */
export type Origin = { snapshot: HeldSnapshot } | { resident: Resident } | 'nowhere';

interface StepHooks {
  /** Objects that the call makes. */
  made?: number;
  afterKill?: () => Promise<void>;
  afterStart?: () => Promise<void>;
}

export class KillScenarios {
  readonly #orchestrator: Orchestrator;
  readonly #ledger: KillLedger;
  readonly #groups: HeldGroup[] = [];
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
    /** Whether the plugin serves ControllerPublishVolume. */
    private readonly controllerPublish: boolean,
  ) {
    this.#orchestrator = new Orchestrator(workspace, () => plugin.client);
    this.#ledger = new KillLedger(this.#orchestrator, poolPath);
  }

  async settle(kind: VolumeKind): Promise<Resident> {
    const volume = await this.#create(kind, 'nowhere');
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
    const alone = resident.snapshots.filter(({ isMember }) => !isMember);
    for (const snapshot of alone) await this.#deleteSnapshot(snapshot);
  }

  /** Deletes all groups that are left. */
  async disband(residents: readonly Resident[]): Promise<void> {
    for (const group of [...this.#groups]) await this.#deleteGroup(group, residents);
  }

  /** Takes a snapshot of a busy volume and deletes one of the older ones. */
  async cut(resident: Resident): Promise<void> {
    const { volume, snapshots, kind } = resident;
    const name = this.#name('snapshot');
    const id = await this.#whileBusy([resident], `CreateSnapshot ${kind}`, 1, () =>
      this.#orchestrator.snapshot(volume, name),
    );
    this.#ledger.add(id);
    await this.#keep(resident, id, false);
    const alone = snapshots.filter(({ isMember }) => !isMember);
    if (alone.length <= SNAPSHOTS_KEPT) return;
    const dropped = this.random.pick(alone);
    snapshots.splice(snapshots.indexOf(dropped), 1);
    await this.#deleteSnapshot(dropped);
  }

  /** Takes a group snapshot of busy volumes and deletes the previous one. */
  async takeGroup(residents: readonly Resident[]): Promise<void> {
    const name = this.#name('group');
    const volumes = residents.map(({ volume }) => volume);
    const label = 'CreateVolumeGroupSnapshot';
    const group = await this.#whileBusy(residents, label, residents.length, () =>
      this.#orchestrator.groupSnapshot(volumes, name),
    );
    this.#ledger.add(...group.snapshotIds);
    this.#groups.push(group);
    for (const [index, resident] of residents.entries()) {
      await this.#keep(resident, group.snapshotIds[index] ?? '', true);
    }
    if (this.#groups.length <= GROUPS_KEPT) return;
    await this.#deleteGroup(this.random.pick(this.#groups), residents);
  }

  /** The lifecycle of a volume. A volume without a source is also changed and expanded. */
  async live(kind: VolumeKind, origin: Origin): Promise<void> {
    const volume = await this.#create(kind, origin);
    const isNew = origin === 'nowhere';
    const contents = isNew ? this.#empty(kind) : contentsOf(origin).copy();
    let capacity = 0;
    // What was made from something is used once, what was formatted here a second time.
    for (let round = isNew ? 1 : 2; round <= 2; round += 1) {
      if (this.controllerPublish) {
        const publish = () => this.#orchestrator.controllerPublish(volume);
        await this.#step('ControllerPublishVolume', publish);
      }
      await this.#step(`NodeStage ${kind}`, () => this.#orchestrator.stage(volume));
      await this.#step(`NodePublish ${kind}`, () => this.#orchestrator.publish(volume));
      await contents.verify(volume.targetPath);
      if (round === 1) {
        capacity = capacityOf(volume);
        await contents.work(volume.targetPath, this.random);
        await this.#modify(volume);
        await this.#grow(volume, kind);
        contents.grow(volume.sizeBytes);
        await contents.verify(volume.targetPath);
      } else if (isNew) assertGrown(volume, kind, capacity);
      await this.#step(`NodeUnpublish ${kind}`, () => this.#orchestrator.unpublish(volume));
      await this.#step(`NodeUnstage ${kind}`, () => this.#orchestrator.unstage(volume));
      if (this.controllerPublish) {
        const unpublish = () => this.#orchestrator.controllerUnpublish(volume);
        await this.#step('ControllerUnpublishVolume', unpublish);
      }
    }
    await this.#delete(volume, kind);
  }

  /** Checks that every snapshot still has its original bytes. */
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

  async #create(kind: VolumeKind, origin: Origin): Promise<HeldVolume> {
    const name = this.#name('volume');
    const capability = kind === 'block' ? blockCapability() : mountCapability(kind);
    const spec: VolumeSpec = { capability, sizeBytes: SIZES[kind], ...sourceOf(origin) };
    const create = () => this.#orchestrator.create(name, spec);
    const label = labelOf(origin);
    const volume =
      origin !== 'nowhere' && 'resident' in origin
        ? await this.#whileBusy([origin.resident], `${label} ${kind}`, 1, create)
        : await this.#step(label, create, { made: 1 });
    assert.equal(volume.sizeBytes, SIZES[kind]);
    this.#ledger.add(volume.id);
    return volume;
  }

  async #modify(volume: HeldVolume): Promise<void> {
    const readAheadKiB = String(128 * (1 + this.random.below(8)));
    await this.#step('ControllerModifyVolume', () =>
      this.#orchestrator.modify(volume, { readAheadKiB }),
    );
    await this.#orchestrator.modify(volume, { readAheadKiB });
  }

  /**
   * While it is published. Growing ext4 in use needs CAP_SYS_RESOURCE, which not every machine gives;
   * it grows when it is staged the next time.
   */
  async #grow(volume: HeldVolume, kind: VolumeKind): Promise<void> {
    const sizeBytes = GROWN[kind];
    await this.#step(`ControllerExpandVolume ${kind}`, () =>
      this.#orchestrator.expand(volume, sizeBytes),
    );
    volume.sizeBytes = sizeBytes;
    const expand = () => this.#orchestrator.nodeExpand(volume);
    if (kind === 'ext4') {
      const status = await statusOf(expand());
      assert.ok(['OK', 'FAILED_PRECONDITION'].includes(status), status);
      return;
    }
    const capacity = capacityOf(volume);
    await this.#step(`NodeExpandVolume ${kind}`, expand);
    assertGrown(volume, kind, capacity);
  }

  async #delete(volume: HeldVolume, kind: VolumeKind): Promise<void> {
    await this.#ledger.removing([volume.id], () =>
      this.#step(`DeleteVolume ${kind}`, () => this.#orchestrator.delete(volume)),
    );
  }

  async #deleteSnapshot({ id }: HeldSnapshot): Promise<void> {
    await this.#ledger.removing([id], () =>
      this.#step('DeleteSnapshot', () => this.#orchestrator.deleteSnapshot(id)),
    );
  }

  async #deleteGroup(group: HeldGroup, residents: readonly Resident[]): Promise<void> {
    this.#groups.splice(this.#groups.indexOf(group), 1);
    for (const resident of residents) {
      resident.snapshots = resident.snapshots.filter(({ id }) => !group.snapshotIds.includes(id));
    }
    await this.#ledger.removing(group.snapshotIds, () =>
      this.#step('DeleteVolumeGroupSnapshot', () => this.#orchestrator.deleteGroup(group)),
    );
  }

  /** Records the snapshot, and checks its lists against all snapshots that exist. */
  async #keep(resident: Resident, id: string, isMember: boolean): Promise<void> {
    const { snapshots, volume, contents } = resident;
    const file = join(this.poolPath, 'snapshots', id);
    const last = snapshots.at(-1)?.image ?? null;
    const image = SnapshotImage.read(file, volume.sizeBytes, last);
    snapshots.push({ id, contents: contents.copy(), image, isMember });
    const allocated = await this.plugin.client.allocated(id);
    assertSound(SnapshotImage.zeros(volume.sizeBytes), image, allocated, 'allocated list');
    for (const base of snapshots.slice(0, -1)) {
      const delta = await this.plugin.client.delta(base.id, id);
      assertSound(base.image, image, delta, `delta from ${base.id} to ${id}`);
    }
  }

  /** A step that may freeze volumes in use: afterwards all their workloads continue. */
  async #whileBusy<T>(
    residents: readonly Resident[],
    label: string,
    made: number,
    call: () => Promise<T>,
  ): Promise<T> {
    for (const { contents, volume } of residents) {
      await contents.work(volume.targetPath, this.random);
    }
    const disturb = () =>
      residents.map(({ contents, volume }) => contents.disturb(volume.targetPath));
    let disturbances = disturb();
    const answer = await this.#step(label, call, {
      made,
      afterKill: async () => {
        const stuck = await Promise.all(disturbances.map(isStuck));
        if (stuck.includes(true)) this.frozen += 1;
      },
      afterStart: async () => {
        await Promise.all(disturbances.map(writesGoThrough));
        disturbances = disturb();
      },
    });
    await Promise.all(disturbances.map(writesGoThrough));
    return answer;
  }

  /** One call, killed if it is its turn, and repeated until it is done. */
  async #step<T>(
    label: string,
    call: () => Promise<T>,
    { made = 0, afterKill, afterStart }: StepHooks = {},
  ): Promise<T> {
    if (!this.killing) return this.plugin.measure(label, call);
    if (!this.plugin.isDue(label)) return call();
    const outcome = await this.plugin.killDuring(label, call);
    await afterKill?.();
    await this.plugin.start();
    await this.#ledger.check(made);
    await afterStart?.();
    const answer = await untilSettled(call);
    if (outcome !== 'interrupted') assert.deepEqual(answer, outcome.answer, `${label}, repeated`);
    this.#ledger.checkNoTemporaries();
    return answer;
  }

  #name(kind: string): string {
    this.#names += 1;
    return `${kind} ${this.#names}`;
  }
}

const contentsOf = (origin: Exclude<Origin, 'nowhere'>): Contents =>
  'snapshot' in origin ? origin.snapshot.contents : origin.resident.contents;

function sourceOf(origin: Origin): VolumeSpec {
  if (origin === 'nowhere') return {};
  if ('snapshot' in origin) return { snapshotId: origin.snapshot.id };
  return { volumeId: origin.resident.volume.id };
}

function labelOf(origin: Origin): string {
  if (origin === 'nowhere') return 'CreateVolume';
  return `CreateVolume from a ${'snapshot' in origin ? 'snapshot' : 'volume'}`;
}

/** What the file system in the volume can hold. */
function capacityOf({ targetPath }: HeldVolume): number {
  const { blocks, bsize } = statfsSync(targetPath);
  return blocks * bsize;
}

/** The file system has grown with its volume, but for some metadata. */
function assertGrown(volume: HeldVolume, kind: VolumeKind, capacityBefore: number): void {
  if (kind === 'block') return;
  const grownBy = capacityOf(volume) - capacityBefore;
  assert.ok(
    grownBy > (GROWN[kind] - SIZES[kind]) / 2,
    `${volume.targetPath} grew by ${grownBy} bytes`,
  );
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
