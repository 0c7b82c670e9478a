/**
 * What a plugin has acknowledged, in order, and what each acknowledgement promises of a disk that loses its power
 * afterwards. Knows neither disks nor the plugin.
 *
 * Volumes are made of pages that hold one number each. No number is written twice, so a page says which write it is
 * from.
 */
import assert from 'node:assert/strict';
import type { HeldGroup } from '../support/orchestrator.js';
import { TaggedImage } from '../support/tagged-image.js';

export interface Member {
  snapshotId: string;
  volumeId: string;
}

/** One acknowledged call, or one write to volumes. The number of an entry is the mark behind it in the log of the disk. */
export type Entry =
  | {
      kind: 'create';
      volumeId: string;
      name: string;
      sizeBytes: number;
      from?: { snapshotId: string } | { volumeId: string };
    }
  | { kind: 'delete'; volumeId: string }
  | { kind: 'expand'; volumeId: string; sizeBytes: number }
  | { kind: 'write'; volumeId: string; written: Written[]; synced: boolean }
  | { kind: 'snapshot'; name: string; member: Member }
  | { kind: 'group'; name: string; members: Member[] }
  | { kind: 'delete snapshot'; snapshotId: string }
  | { kind: 'delete group'; group: HeldGroup }
  /** Promises nothing new. */
  | { kind: 'other'; what: string };

/** Numbers of pages that follow each other, from the first one on; 0: it was discarded. */
export type Written = readonly [page: number, tags: readonly number[]];

export interface SnapshotPromise {
  volumeId: string;
  /** Snapshots have been taken in this order. */
  sequence: number;
  image: TaggedImage;
}

/** What each page of a volume may hold. */
export class VolumePromise {
  constructor(
    private durable: TaggedImage,
    /** In the order in which they were written since the last flush. */
    private unflushed: readonly Written[] = [],
  ) {}

  get sizeBytes(): number {
    return this.durable.sizeBytes;
  }

  /** As somebody reads it who has not lost power. */
  current(): TaggedImage {
    const image = this.durable.copy();
    for (const [page, tags] of this.unflushed) image.tags.set(tags, page);
    return image;
  }

  allows(page: number, tag: number): boolean {
    if (this.durable.tags[page] === tag) return true;
    return this.unflushed.some(([first, tags]) => tags[page - first] === tag);
  }

  copy(): VolumePromise {
    return new VolumePromise(this.durable, this.unflushed);
  }

  write(written: readonly Written[], synced: boolean): void {
    this.unflushed = [...this.unflushed, ...written];
    if (!synced) return;
    this.durable = this.current();
    this.unflushed = [];
  }

  expand(sizeBytes: number): void {
    this.durable = this.durable.copy(sizeBytes);
  }
}

export class Promises {
  private constructor(
    readonly volumes = new Map<string, VolumePromise>(),
    readonly snapshots = new Map<string, SnapshotPromise>(),
    /** Deleted snapshots. */
    readonly bases = new Map<string, SnapshotPromise>(),
  ) {}

  static none(): Promises {
    return new Promises();
  }

  /** And what another entry promises, or takes back. */
  with(entry: Entry): Promises {
    const volumes = new Map([...this.volumes].map(([id, volume]) => [id, volume.copy()]));
    const promises = new Promises(volumes, new Map(this.snapshots), new Map(this.bases));
    promises.#add(entry);
    return promises;
  }

  #add(entry: Entry): void {
    switch (entry.kind) {
      case 'create':
        this.volumes.set(entry.volumeId, new VolumePromise(this.#initial(entry)));
        break;
      case 'delete':
        this.volumes.delete(entry.volumeId);
        break;
      case 'expand':
        existing(this.volumes, entry.volumeId).expand(entry.sizeBytes);
        break;
      case 'write':
        existing(this.volumes, entry.volumeId).write(entry.written, entry.synced);
        break;
      case 'snapshot':
        this.#take(entry.member);
        break;
      case 'group':
        for (const member of entry.members) this.#take(member);
        break;
      case 'delete snapshot':
        this.#retain(entry.snapshotId);
        break;
      case 'delete group':
        for (const snapshotId of entry.group.snapshotIds) this.#retain(snapshotId);
        break;
      case 'other':
        break;
    }
  }

  #take({ snapshotId, volumeId }: Member): void {
    const image = existing(this.volumes, volumeId).current();
    const sequence = this.snapshots.size + this.bases.size;
    this.snapshots.set(snapshotId, { volumeId, sequence, image });
  }

  #retain(snapshotId: string): void {
    this.bases.set(snapshotId, existing(this.snapshots, snapshotId));
    this.snapshots.delete(snapshotId);
  }

  #initial({ from, sizeBytes }: Extract<Entry, { kind: 'create' }>): TaggedImage {
    if (from === undefined) return TaggedImage.zeros(sizeBytes);
    const source =
      'volumeId' in from
        ? existing(this.volumes, from.volumeId).current()
        : existing(this.snapshots, from.snapshotId).image;
    return source.copy(sizeBytes);
  }
}

function existing<T>(objects: ReadonlyMap<string, T>, id: string): T {
  const found = objects.get(id);
  assert.ok(found !== undefined, id);
  return found;
}
