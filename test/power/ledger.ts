/**
 * What a plugin has acknowledged, in order, and what each acknowledgement promises of a disk that loses its power
 * afterwards. Knows neither disks nor the plugin.
 *
 * Volumes are made of blocks that hold one number each, and 0 for zeros. No number is written twice, so a block
 * says which write it is from.
 */
import assert from 'node:assert/strict';

export const BLOCK_BYTES = 4096;

export interface Member {
  snapshotId: string;
  volumeId: string;
}

/** One acknowledged call, or one write to volumes. Its place in the ledger is the mark behind it in the log of the disk. */
export type Entry =
  | {
      kind: 'create';
      volumeId: string;
      name: string;
      blocks: number;
      from?: { snapshotId: string } | { volumeId: string };
    }
  | { kind: 'delete'; volumeId: string }
  | { kind: 'expand'; volumeId: string; blocks: number }
  | { kind: 'write'; volumeId: string; written: [block: number, value: number][]; synced: boolean }
  | { kind: 'snapshot'; name: string; member: Member }
  | { kind: 'group'; groupId: string; name: string; members: Member[] }
  | { kind: 'delete snapshot'; snapshotId: string }
  | { kind: 'delete group'; groupId: string; snapshotIds: string[] }
  /** Promises nothing new. */
  | { kind: 'other'; what: string };

export interface SnapshotPromise {
  volumeId: string;
  /** Snapshots have been taken in this order. */
  sequence: number;
  values: Uint32Array;
}

/** The values that each block of a volume may have. */
export class VolumePromise {
  private constructor(
    private durable: Uint32Array,
    /** In the order in which they were written since the last flush. */
    private unflushed: [block: number, value: number][] = [],
  ) {}

  static of(values: Uint32Array): VolumePromise {
    return new VolumePromise(values);
  }

  get blocks(): number {
    return this.durable.length;
  }

  /** As somebody reads it who has not lost power. */
  current(): Uint32Array {
    const values = this.durable.slice();
    for (const [block, value] of this.unflushed) values[block] = value;
    return values;
  }

  allows(block: number, value: number): boolean {
    if ((this.durable[block] ?? 0) === value) return true;
    return this.unflushed.some(([written, to]) => written === block && to === value);
  }

  copy(): VolumePromise {
    return new VolumePromise(this.durable, [...this.unflushed]);
  }

  write(written: readonly [number, number][], synced: boolean): void {
    this.unflushed.push(...written);
    if (!synced) return;
    this.durable = this.current();
    this.unflushed = [];
  }

  expand(blocks: number): void {
    const durable = new Uint32Array(blocks);
    durable.set(this.durable);
    this.durable = durable;
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
        this.volumes.set(entry.volumeId, VolumePromise.of(this.#initial(entry)));
        break;
      case 'delete':
        this.volumes.delete(entry.volumeId);
        break;
      case 'expand':
        this.#volume(entry.volumeId).expand(entry.blocks);
        break;
      case 'write':
        this.#volume(entry.volumeId).write(entry.written, entry.synced);
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
        for (const snapshotId of entry.snapshotIds) this.#retain(snapshotId);
        break;
      case 'other':
        break;
    }
  }

  #take({ snapshotId, volumeId }: Member): void {
    const values = this.#volume(volumeId).current();
    const sequence = this.snapshots.size + this.bases.size;
    this.snapshots.set(snapshotId, { volumeId, sequence, values });
  }

  #retain(snapshotId: string): void {
    const snapshot = this.snapshots.get(snapshotId);
    assert.ok(snapshot !== undefined, snapshotId);
    this.snapshots.delete(snapshotId);
    this.bases.set(snapshotId, snapshot);
  }

  #initial({ from, blocks }: Extract<Entry, { kind: 'create' }>): Uint32Array {
    const values = new Uint32Array(blocks);
    if (from !== undefined && 'volumeId' in from) values.set(this.#volume(from.volumeId).current());
    if (from !== undefined && 'snapshotId' in from) {
      values.set(this.snapshots.get(from.snapshotId)?.values ?? []);
    }
    return values;
  }

  #volume(volumeId: string): VolumePromise {
    const volume = this.volumes.get(volumeId);
    assert.ok(volume !== undefined, volumeId);
    return volume;
  }
}
