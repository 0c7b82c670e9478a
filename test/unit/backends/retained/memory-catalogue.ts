/** The part of the catalogue that deletions and retained bases use, in memory, with a gate before each change. */
import type { AsyncCatalogue } from '../../../../src/driver/catalogue/catalogue-client.js';
import type {
  NewRetainedBase,
  RetainedBaseRecord,
  SnapshotRecord,
  SnapshotState,
} from '../../../../src/driver/catalogue/records.js';
import type { Gate } from './memory-pool.js';

type Used =
  | 'snapshotById'
  | 'snapshotBefore'
  | 'snapshotAfter'
  | 'setSnapshotState'
  | 'removeSnapshot'
  | 'retainedBaseById'
  | 'retainedBasesOf'
  | 'listRetainedBases'
  | 'invalidateRetainedBase'
  | 'removeRetainedBase';

type Base = Omit<RetainedBaseRecord, 'useful'>;

/** Values are never changed, so a copy of the maps is a copy of all. */
export class Rows {
  snapshots = new Map<string, SnapshotRecord>();
  bases = new Map<string, Base>();

  copy(): Rows {
    return Object.assign(new Rows(), { snapshots: new Map(this.snapshots), bases: new Map(this.bases) });
  }
}

export class MemoryCatalogue implements Pick<AsyncCatalogue, Used> {
  constructor(
    private readonly rows: Rows,
    private readonly gate: Gate,
    private readonly hasVolume: (volumeId: string) => boolean,
  ) {}

  async snapshotById(id: string): Promise<SnapshotRecord | null> {
    return this.rows.snapshots.get(id) ?? null;
  }

  async snapshotBefore(volumeId: string, sequence: bigint): Promise<SnapshotRecord | null> {
    return this.#ready(volumeId).findLast((row) => row.sequence < sequence) ?? null;
  }

  async snapshotAfter(volumeId: string, sequence: bigint): Promise<SnapshotRecord | null> {
    return this.#ready(volumeId).find((row) => row.sequence > sequence) ?? null;
  }

  async setSnapshotState(id: string, state: SnapshotState): Promise<void> {
    await this.gate(`row of ${id}: ${state}`);
    const row = this.rows.snapshots.get(id);
    if (row !== undefined) this.rows.snapshots.set(id, { ...row, state });
  }

  async removeSnapshot(id: string, base: NewRetainedBase | null): Promise<void> {
    await this.gate(`no row of ${id}`);
    const row = this.rows.snapshots.get(id);
    this.rows.snapshots.delete(id);
    if (row === undefined || base === null) return;
    const { volumeId, pool, sequence, sizeBytes, creationTimeNs } = row;
    const { deletedNs, storedBytes, invalidReason: reason } = base;
    const invalidated = reason === null ? null : { reason, timeNs: deletedNs };
    const about = { volumeId, pool, sequence, sizeBytes, creationTimeNs };
    this.rows.bases.set(id, { snapshotId: id, ...about, deletedNs, storedBytes, invalidated });
  }

  async retainedBaseById(id: string): Promise<RetainedBaseRecord | null> {
    const base = this.rows.bases.get(id);
    return base === undefined ? null : this.#record(base);
  }

  async retainedBasesOf(_pool: string, volumeId: string): Promise<RetainedBaseRecord[]> {
    return (await this.listRetainedBases()).filter((base) => base.volumeId === volumeId);
  }

  async listRetainedBases(): Promise<RetainedBaseRecord[]> {
    return [...this.rows.bases.values()].sort(bySequence).map((base) => this.#record(base));
  }

  async invalidateRetainedBase(id: string, reason: string, timeNs: bigint): Promise<void> {
    await this.gate(`base ${id} is invalid`);
    const base = this.rows.bases.get(id);
    if (base !== undefined) this.rows.bases.set(id, { ...base, invalidated: { reason, timeNs } });
  }

  async removeRetainedBase(id: string): Promise<void> {
    await this.gate(`no base ${id}`);
    this.rows.bases.delete(id);
  }

  /** Somebody can still ask for a delta from it. */
  #record(base: Base): RetainedBaseRecord {
    const useful =
      this.hasVolume(base.volumeId) ||
      [...this.rows.snapshots.values()].some((row) => row.volumeId === base.volumeId && row.sequence > base.sequence);
    return { ...base, useful };
  }

  #ready(volumeId: string): SnapshotRecord[] {
    return [...this.rows.snapshots.values()]
      .filter((row) => row.volumeId === volumeId && row.state === 'ready')
      .sort(bySequence);
  }
}

const bySequence = (a: { sequence: bigint }, b: { sequence: bigint }): number => (a.sequence < b.sequence ? -1 : 1);
