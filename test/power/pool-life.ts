/**
 * The life of a pool, one call after the other: volumes, snapshots, groups, deletions, restores, clones, growth, and
 * the lists and joins that follow from them. Each acknowledged call becomes an entry.
 */
import { closeSync, existsSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { CsiClient } from '../support/csi-client.js';
import { blockDiscard } from '../support/ioctls.js';
import { type HeldGroup, type HeldVolume, MIB, type Orchestrator, untilReleased } from '../support/orchestrator.js';
import type { Random } from '../support/random.js';
import { listsTo } from '../support/stored-lists.js';
import { PAGE_BYTES, TaggedImage } from '../support/tagged-image.js';
import type { Entry, Written } from './promises.js';

const SIZE = 4 * MIB;
const GROWTH = MIB;
const MAX_SIZE = 8 * MIB;
const MAX_VOLUMES = 4;
const MAX_SNAPSHOTS = 5;

interface Living {
  volume: HeldVolume;
  sizeBytes: number;
  snapshots: string[];
}

export class PoolLife {
  readonly #volumes: Living[] = [];
  readonly #groups: HeldGroup[] = [];
  #names = 0;

  constructor(
    private readonly orchestrator: Orchestrator,
    private readonly client: CsiClient,
    private readonly pool: string,
    private readonly random: Random,
    /** Called as soon as each call is acknowledged. */
    private readonly acknowledged: (entry: Entry) => void,
  ) {}

  /** Every kind of call once, and what joins and retains lists. */
  async short(): Promise<void> {
    const a = await this.#create();
    this.#write(a, true);
    const first = await this.#snapshot(a);
    this.#write(a, false);
    const second = await this.#snapshot(a);
    await this.#listed(second);
    this.#write(a, true);
    const third = await this.#snapshot(a);
    await this.#listed(third);
    await this.#deleteSnapshot(a, second);
    const b = await this.#create({ snapshotId: first }, a.sizeBytes);
    this.#write(b, true);
    // The newest one: its file stays until the next list begins there.
    await this.#deleteSnapshot(a, third);
    await this.#expand(a);
    this.#write(a, false);
    await this.#listed(await this.#snapshot(a));
    const c = await this.#create({ volumeId: a.volume.id }, a.sizeBytes, false);
    const group = await this.#group([a, b]);
    await this.#deleteSnapshot(a, first);
    await this.#deleteGroup(group);
    await this.#delete(b);
    await this.#delete(c);
  }

  /** As many random calls. */
  async long(calls: number): Promise<void> {
    for (let count = 0; count < calls; count += 1) await this.#any();
  }

  async #any(): Promise<void> {
    const { random } = this;
    const volume = this.#volumes.length === 0 ? undefined : random.pick(this.#volumes);
    if (volume === undefined) {
      await this.#create();
      return;
    }
    const choice = random.below(20);
    const { snapshots } = volume;
    if (choice < 6) {
      this.#write(volume, random.below(2) === 0);
      if (snapshots.length >= MAX_SNAPSHOTS) await this.#deleteSnapshot(volume, random.pick(snapshots));
      const taken = await this.#snapshot(volume);
      if (snapshots.length > 1 && random.below(2) === 0) await this.#listed(taken);
    } else if (choice < 9) this.#write(volume, random.below(2) === 0);
    else if (choice < 13 && snapshots.length > 0) {
      await this.#deleteSnapshot(volume, random.pick(snapshots));
    } else if (choice === 13 && volume.sizeBytes < MAX_SIZE) await this.#expand(volume);
    else if (choice === 14 && this.#volumes.length > 1) {
      await this.#group(this.#volumes.slice(-2));
    } else if (choice === 15 && this.#groups.length > 0) {
      await this.#deleteGroup(random.pick(this.#groups));
    } else if (choice === 15 && this.#volumes.length > 2) await this.#delete(volume);
    else if (choice >= 16 && this.#volumes.length < MAX_VOLUMES) {
      const kind = random.below(3);
      if (kind === 0) await this.#create();
      else if (kind === 1) await this.#create({ volumeId: volume.volume.id }, volume.sizeBytes);
      else if (snapshots.length > 0) {
        await this.#create({ snapshotId: random.pick(snapshots) }, volume.sizeBytes);
      }
    } else if (snapshots.length > 1) {
      const [base = '', target = ''] = [snapshots[0], snapshots.at(-1)];
      await this.client.delta(base, target);
      await this.client.allocated(target);
      this.acknowledged({ kind: 'other', what: 'GetMetadataDelta and GetMetadataAllocated' });
    }
  }

  async #create(
    from?: { snapshotId: string } | { volumeId: string },
    sizeBytes = SIZE,
    isUsed = true,
  ): Promise<Living> {
    const name = this.#name();
    const volume = await untilReleased(() => this.orchestrator.create(name, { sizeBytes, ...from }));
    this.acknowledged({
      kind: 'create',
      volumeId: volume.id,
      name,
      sizeBytes,
      ...(from === undefined ? {} : { from }),
    });
    if (isUsed) {
      await untilReleased(() => this.orchestrator.stage(volume));
      this.acknowledged({ kind: 'other', what: 'NodeStageVolume' });
      await untilReleased(() => this.orchestrator.publish(volume));
      this.acknowledged({ kind: 'other', what: 'NodePublishVolume' });
    }
    const living = { volume, sizeBytes, snapshots: [] };
    this.#volumes.push(living);
    return living;
  }

  #write({ volume, sizeBytes }: Living, synced: boolean): void {
    const written: Written[] = [];
    const fd = openSync(volume.targetPath, 'r+');
    try {
      for (let run = 0; run < 4; run += 1) {
        const length = 1 + this.random.below(8);
        const first = this.random.below(sizeBytes / PAGE_BYTES - length);
        const { tags, bytes } = TaggedImage.newPages(length);
        if (this.random.below(4) === 0) {
          blockDiscard(fd, first * PAGE_BYTES, bytes.length);
          tags.fill(0);
        } else writeSync(fd, bytes, 0, bytes.length, first * PAGE_BYTES);
        written.push([first, [...tags]]);
      }
      if (synced) fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    this.acknowledged({ kind: 'write', volumeId: volume.id, written, synced });
  }

  async #snapshot({ volume, snapshots }: Living): Promise<string> {
    const name = this.#name();
    const snapshotId = await untilReleased(() => this.orchestrator.snapshot(volume, name));
    this.acknowledged({ kind: 'snapshot', name, member: { snapshotId, volumeId: volume.id } });
    snapshots.push(snapshotId);
    return snapshotId;
  }

  /** Resolves when the list of the snapshot is stored. */
  async #listed(snapshotId: string): Promise<void> {
    while (listsTo(join(this.pool, 'lists'), snapshotId).length === 0) await delay(20);
    this.acknowledged({ kind: 'other', what: 'the change list is stored' });
  }

  async #deleteSnapshot({ snapshots }: Living, snapshotId: string): Promise<void> {
    await untilReleased(() => this.orchestrator.deleteSnapshot(snapshotId));
    this.acknowledged({ kind: 'delete snapshot', snapshotId });
    snapshots.splice(snapshots.indexOf(snapshotId), 1);
  }

  async #expand(living: Living): Promise<void> {
    const sizeBytes = living.sizeBytes + GROWTH;
    await untilReleased(() => this.orchestrator.expand(living.volume, sizeBytes));
    living.sizeBytes = sizeBytes;
    this.acknowledged({ kind: 'expand', volumeId: living.volume.id, sizeBytes });
  }

  async #group(sources: readonly Living[]): Promise<HeldGroup> {
    const name = this.#name();
    const volumes = sources.map(({ volume }) => volume);
    const group = await untilReleased(() => this.orchestrator.groupSnapshot(volumes, name));
    const members = volumes.map(({ id: volumeId }, index) => {
      return { snapshotId: group.snapshotIds[index] ?? '', volumeId };
    });
    this.acknowledged({ kind: 'group', name, members });
    this.#groups.push(group);
    return group;
  }

  async #deleteGroup(group: HeldGroup): Promise<void> {
    await untilReleased(() => this.orchestrator.deleteGroup(group));
    this.acknowledged({ kind: 'delete group', group });
    this.#groups.splice(this.#groups.indexOf(group), 1);
  }

  async #delete(living: Living): Promise<void> {
    const { volume, snapshots } = living;
    for (const group of [...this.#groups]) await this.#deleteGroup(group);
    for (const snapshotId of [...snapshots]) await this.#deleteSnapshot(living, snapshotId);
    if (existsSync(volume.targetPath)) {
      await untilReleased(() => this.orchestrator.takeDown(volume));
      this.acknowledged({ kind: 'other', what: 'NodeUnpublishVolume and NodeUnstageVolume' });
    }
    await untilReleased(() => this.orchestrator.delete(volume));
    this.acknowledged({ kind: 'delete', volumeId: volume.id });
    this.#volumes.splice(this.#volumes.indexOf(living), 1);
  }

  #name(): string {
    this.#names += 1;
    return `object ${this.#names}`;
  }
}
