/**
 * The life of a pool, one call after the other: volumes, snapshots, groups, deletions, restores, clones, growth, and
 * the lists and joins that follow from them. Each acknowledged call becomes an entry of the ledger.
 */
import { closeSync, existsSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { CsiClient } from '../support/csi-client.js';
import { blockDiscard } from '../support/ioctls.js';
import type { HeldGroup, HeldVolume, Orchestrator } from '../support/orchestrator.js';
import type { Random } from '../support/random.js';
import { statusOf } from '../support/refusal.js';
import { BLOCK_BYTES, type Entry } from './ledger.js';

const BLOCKS = 1024;
const GROWTH_BLOCKS = 256;
const MAX_BLOCKS = 2048;
const MAX_VOLUMES = 4;
const MAX_SNAPSHOTS = 5;

interface Living {
  volume: HeldVolume;
  blocks: number;
  snapshots: string[];
}

export class History {
  readonly #volumes: Living[] = [];
  readonly #groups: HeldGroup[] = [];
  #names = 0;
  #values = 0;

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
    const b = await this.#create({ snapshotId: first }, a.blocks);
    this.#write(b, true);
    // The newest one: its file stays until the next list begins there.
    await this.#deleteSnapshot(a, third);
    await this.#expand(a);
    this.#write(a, false);
    await this.#listed(await this.#snapshot(a));
    const c = await this.#create({ volumeId: a.volume.id }, a.blocks, false);
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
      if (snapshots.length >= MAX_SNAPSHOTS)
        await this.#deleteSnapshot(volume, random.pick(snapshots));
      const taken = await this.#snapshot(volume);
      if (snapshots.length > 1 && random.below(2) === 0) await this.#listed(taken);
    } else if (choice < 9) this.#write(volume, random.below(2) === 0);
    else if (choice < 13 && snapshots.length > 0) {
      await this.#deleteSnapshot(volume, random.pick(snapshots));
    } else if (choice === 13 && volume.blocks < MAX_BLOCKS) await this.#expand(volume);
    else if (choice === 14 && this.#volumes.length > 1) {
      await this.#group(this.#volumes.slice(-2));
    } else if (choice === 15 && this.#groups.length > 0) {
      await this.#deleteGroup(random.pick(this.#groups));
    } else if (choice === 15 && this.#volumes.length > 2) await this.#delete(volume);
    else if (choice >= 16 && this.#volumes.length < MAX_VOLUMES) {
      const kind = random.below(3);
      if (kind === 0) await this.#create();
      else if (kind === 1) await this.#create({ volumeId: volume.volume.id }, volume.blocks);
      else if (snapshots.length > 0) {
        await this.#create({ snapshotId: random.pick(snapshots) }, volume.blocks);
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
    blocks = BLOCKS,
    isUsed = true,
  ): Promise<Living> {
    const name = this.#name();
    const sizeBytes = blocks * BLOCK_BYTES;
    const volume = await settled(() => this.orchestrator.create(name, { sizeBytes, ...from }));
    this.acknowledged({
      ...{ kind: 'create', volumeId: volume.id, name, blocks },
      ...(from === undefined ? {} : { from }),
    });
    if (isUsed) {
      await settled(() => this.orchestrator.stage(volume));
      this.acknowledged({ kind: 'other', what: 'NodeStageVolume' });
      await settled(() => this.orchestrator.publish(volume));
      this.acknowledged({ kind: 'other', what: 'NodePublishVolume' });
    }
    const living = { volume, blocks, snapshots: [] };
    this.#volumes.push(living);
    return living;
  }

  #write({ volume, blocks }: Living, synced: boolean): void {
    const written: [number, number][] = [];
    const fd = openSync(volume.targetPath, 'r+');
    try {
      for (let run = 0; run < 4; run += 1) {
        const length = 1 + this.random.below(8);
        const first = this.random.below(blocks - length);
        const isDiscard = this.random.below(4) === 0;
        if (isDiscard) blockDiscard(fd, first * BLOCK_BYTES, length * BLOCK_BYTES);
        for (let block = first; block < first + length; block += 1) {
          this.#values += 1;
          const value = isDiscard ? 0 : this.#values;
          written.push([block, value]);
          if (!isDiscard) writeSync(fd, blockOf(value), 0, BLOCK_BYTES, block * BLOCK_BYTES);
        }
      }
      if (synced) fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    this.acknowledged({ kind: 'write', volumeId: volume.id, written, synced });
  }

  async #snapshot({ volume, snapshots }: Living): Promise<string> {
    const name = this.#name();
    const snapshotId = await settled(() => this.orchestrator.snapshot(volume, name));
    this.acknowledged({ kind: 'snapshot', name, member: { snapshotId, volumeId: volume.id } });
    snapshots.push(snapshotId);
    return snapshotId;
  }

  /** Resolves when the list of the snapshot is stored. */
  async #listed(snapshotId: string): Promise<void> {
    while (!existsSync(join(this.pool, 'lists', `${snapshotId}.delta`))) await delay(20);
    this.acknowledged({ kind: 'other', what: 'the change list is stored' });
  }

  async #deleteSnapshot({ snapshots }: Living, snapshotId: string): Promise<void> {
    await settled(() => this.orchestrator.deleteSnapshot(snapshotId));
    this.acknowledged({ kind: 'delete snapshot', snapshotId });
    snapshots.splice(snapshots.indexOf(snapshotId), 1);
  }

  async #expand(living: Living): Promise<void> {
    const blocks = living.blocks + GROWTH_BLOCKS;
    await settled(() => this.orchestrator.expand(living.volume, blocks * BLOCK_BYTES));
    living.blocks = blocks;
    this.acknowledged({ kind: 'expand', volumeId: living.volume.id, blocks });
  }

  async #group(sources: readonly Living[]): Promise<HeldGroup> {
    const name = this.#name();
    const group = await settled(() =>
      this.orchestrator.groupSnapshot(
        sources.map(({ volume }) => volume),
        name,
      ),
    );
    const members = sources.map(({ volume }, index) => {
      return { snapshotId: group.snapshotIds[index] ?? '', volumeId: volume.id };
    });
    this.acknowledged({ kind: 'group', groupId: group.id, name, members });
    this.#groups.push(group);
    return group;
  }

  async #deleteGroup(group: HeldGroup): Promise<void> {
    await settled(() => this.orchestrator.deleteGroup(group));
    const { id: groupId, snapshotIds } = group;
    this.acknowledged({ kind: 'delete group', groupId, snapshotIds });
    this.#groups.splice(this.#groups.indexOf(group), 1);
  }

  async #delete(living: Living): Promise<void> {
    const { volume, snapshots } = living;
    for (const group of [...this.#groups]) await this.#deleteGroup(group);
    for (const snapshotId of [...snapshots]) await this.#deleteSnapshot(living, snapshotId);
    if (existsSync(volume.targetPath)) {
      await settled(() => this.orchestrator.takeDown(volume));
      this.acknowledged({ kind: 'other', what: 'NodeUnpublishVolume and NodeUnstageVolume' });
    }
    await settled(() => this.orchestrator.delete(volume));
    this.acknowledged({ kind: 'delete', volumeId: volume.id });
    this.#volumes.splice(this.#volumes.indexOf(living), 1);
  }

  #name(): string {
    this.#names += 1;
    return `object ${this.#names}`;
  }
}

/** Something is in use for longer than a call waits, while a list is made in a slow guest: repeated, but not for ever. */
async function settled<T>(call: () => Promise<T>): Promise<T> {
  for (let repeats = 0; ; repeats += 1) {
    const attempt = call();
    const status = await statusOf(attempt);
    if (!['ABORTED', 'FAILED_PRECONDITION'].includes(status) || repeats === 20) return attempt;
    await delay(500);
  }
}

function blockOf(value: number): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const pattern = Buffer.alloc(4);
  pattern.writeUInt32LE(value);
  return block.fill(pattern);
}
