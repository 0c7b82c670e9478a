/**
 * What a node that pulls has, in memory: the rows of its replicas and the replicas themselves, with a gate before each change, at
 * which a test stops the process or lets something else happen. Knows no rules of pulls.
 */
import { CsiError, SystemError } from '../../../../src/base/errors.js';
import type { PoolReplicas, Replica, ReplicaDevice } from '../../../../src/driver/backends/backend.js';
import { isBegun } from '../../../../src/driver/backends/replica-rules.js';
import type { AsyncCatalogue } from '../../../../src/driver/catalogue/catalogue-client.js';
import type { ReplicaRecord } from '../../../../src/driver/catalogue/records.js';
import { BLOCK_BYTES, nameOf, type Stored, type World } from './world.js';

/** Resolves when the change may happen. */
export type Gate = (change: string) => Promise<void>;

type Used =
  | 'snapshotById'
  | 'replicaById'
  | 'replicasOf'
  | 'listReplicas'
  | 'putReplica'
  | 'advanceReplica'
  | 'replicaAsked'
  | 'replicaUsed'
  | 'removeReplica';

export class MemoryCatalogue implements Pick<AsyncCatalogue, Used> {
  constructor(
    private readonly world: World,
    private readonly gate: Gate,
  ) {}

  async snapshotById(): Promise<null> {
    return null;
  }

  async replicaById(id: string): Promise<ReplicaRecord | null> {
    return this.world.rows.get(id) ?? null;
  }

  async replicasOf(volumeId: string): Promise<ReplicaRecord[]> {
    return (await this.listReplicas()).filter((row) => row.volumeId === volumeId).reverse();
  }

  async listReplicas(): Promise<ReplicaRecord[]> {
    return [...this.world.rows.values()].sort((a, b) => Number(a.sequence - b.sequence));
  }

  async putReplica(row: ReplicaRecord): Promise<void> {
    await this.gate(`row of ${nameOf(row.snapshotId)}`);
    this.world.rows.set(row.snapshotId, row);
  }

  async advanceReplica(id: string, nextOffset: bigint | null, usedNs: bigint): Promise<void> {
    await this.#change(id, `to ${nextOffset}`, { nextOffset, usedNs });
  }

  async replicaAsked(id: string, askedNs: bigint): Promise<void> {
    await this.#change(id, 'asked', { askedNs });
  }

  async replicaUsed(id: string, usedNs: bigint): Promise<void> {
    await this.#change(id, 'used', { usedNs });
  }

  async removeReplica(id: string): Promise<void> {
    await this.gate(`no row of ${nameOf(id)}`);
    this.world.rows.delete(id);
  }

  async #change(id: string, what: string, fields: Partial<ReplicaRecord>): Promise<void> {
    await this.gate(`row of ${nameOf(id)}: ${what}`);
    const row = this.world.rows.get(id);
    if (row !== undefined) this.world.rows.set(id, { ...row, ...fields });
  }
}

export class MemoryReplicas implements PoolReplicas {
  /** Replicas whose device is open. */
  readonly #open = new Map<string, Stored>();

  constructor(
    private readonly world: World,
    private readonly gate: Gate,
    /** Called with what should never be asked of a pool. */
    private readonly onOffence: (what: string) => void,
  ) {}

  async makeRoom(): Promise<void> {}

  async begin(id: string, sizeBytes: bigint, baseId: string | null): Promise<void> {
    const { disk } = this.world;
    const found = disk.get(id);
    const known = found === undefined ? null : { sizeBytes: sizeOf(found), isComplete: found.isComplete };
    if (isBegun('p', id, known, sizeBytes)) return;
    await this.gate(`begin ${nameOf(id)}`);
    const base = baseId === null ? [] : this.#whole(baseId).blocks;
    const blocks = Array.from({ length: Number(sizeBytes) / BLOCK_BYTES }, (_, at) => base[at] ?? 0);
    disk.set(id, { blocks, durable: [...blocks], isComplete: false });
  }

  async open(id: string): Promise<ReplicaDevice> {
    const stored = this.world.disk.get(id);
    if (stored === undefined || stored.isComplete) throw CsiError.failedPrecondition(`${id} is not unfinished`);
    if (this.#open.has(id)) this.onOffence(`two pieces of ${nameOf(id)} were fetched at once`);
    this.#open.set(id, stored);
    return {
      path: id,
      punch: async (ranges) => {
        for (const { offset, size } of ranges)
          for (let at = offset; at < offset + size; at += BigInt(BLOCK_BYTES)) await this.write(id, at, 0);
      },
      flush: () => this.flush(id),
      close: async () => void this.#open.delete(id),
    };
  }

  openComplete(): never {
    throw new Error('nobody reads a replica here');
  }

  /** As a program does that has the device. */
  async write(id: string, offset: bigint, content: number): Promise<void> {
    const at = Number(offset) / BLOCK_BYTES;
    const stored = this.#open.get(id);
    if (stored === undefined) throw new SystemError('ENXIO', 'write', id, `the device of ${id} is gone`);
    if (stored.blocks[at] !== content) await this.gate(`write ${nameOf(id)} ${at}`);
    if (stored.isComplete) throw new SystemError('EPERM', 'write', id, `${id} is immutable`);
    stored.blocks[at] = content;
  }

  async flush(id: string): Promise<void> {
    const stored = this.#open.get(id);
    if (stored !== undefined) stored.durable = [...stored.blocks];
  }

  async complete(id: string): Promise<void> {
    const stored = this.world.disk.get(id);
    if (stored?.isComplete === true) return;
    if (stored === undefined) throw CsiError.failedPrecondition(`there is no replica ${id}`);
    if (this.#open.has(id)) throw new SystemError('EBUSY', 'freeze', id, `the device of ${id} is open`);
    await this.gate(`complete ${nameOf(id)}`);
    stored.durable = [...stored.blocks];
    stored.isComplete = true;
  }

  async promise(): Promise<void> {
    throw new Error('nothing is promised in this world');
  }

  async delete(id: string): Promise<void> {
    if (!this.world.disk.has(id)) return;
    await this.gate(`delete ${nameOf(id)}`);
    if (this.#open.delete(id)) this.onOffence(`${nameOf(id)} was removed while it was pulled`);
    this.world.disk.delete(id);
  }

  async check(id: string, sizeBytes: bigint): Promise<void> {
    if (sizeOf(this.#whole(id)) !== sizeBytes) throw CsiError.failedPrecondition(`${id} has another size`);
  }

  async list(): Promise<Replica[]> {
    return [...this.world.disk].map(([snapshotId, stored]) => {
      return { snapshotId, sizeBytes: sizeOf(stored), isComplete: stored.isComplete, promiseId: null };
    });
  }

  #whole(id: string): Stored {
    const stored = this.world.disk.get(id);
    if (stored?.isComplete === true) return stored;
    throw CsiError.failedPrecondition(`there is no complete replica ${id}`);
  }
}

const sizeOf = ({ blocks }: Pick<Stored, 'blocks'>): bigint => BigInt(blocks.length * BLOCK_BYTES);
