/**
 * A small world for pulls: a node with one volume and its snapshots, and a node with replicas of them, whose catalogue and pool
 * are in memory. What is true is kept apart from what the nodes say: the content that every snapshot had when it was taken.
 */
import { newSnapshotId, nodeKey } from '../../../../src/base/csi/handles.js';
import type { ReplicaRecord } from '../../../../src/driver/catalogue/records.js';
import type { TransferRequest } from '../../../../src/driver/replicas/open-transfers.js';

export const SOURCE = 'source';
export const TARGET = 'target';
export const BLOCKS = 3;
/** Blocks are as small as a request can be, so that no request copies a second one. */
export const BLOCK_BYTES = 4096;

const NO_UUID = '00000000-0000-0000-0000-000000000000';
const SNAPSHOT = newSnapshotId(nodeKey(SOURCE)).slice(0, -NO_UUID.length);
export const VOLUME_ID = `vol-${nodeKey(SOURCE)}-${NO_UUID}`;

export const snapshotId = (sequence: number): string => `${SNAPSHOT}${NO_UUID.slice(0, -1)}${sequence}`;
/** As operations and failures name it. */
export const nameOf = (id: string): string => `s${id.slice(-1)}`;

export interface Taken {
  readonly sequence: number;
  readonly blocks: readonly number[];
  /** A snapshot that is deleted may be retained as a base. */
  readonly state: 'ready' | 'retained' | 'gone';
}

/** Values are never changed, so a copy of the map is a copy of all. */
export class Source {
  volume: readonly number[] = [0, 0];
  snapshots = new Map<string, Taken>();
  /** Which catalogue the node has: another one describes the snapshots with another uuid. */
  origin = 0;

  copy(): Source {
    return Object.assign(new Source(), { ...this, snapshots: new Map(this.snapshots) });
  }
}

/** A transfer that is open, and what the node had when it was opened. */
export interface Session {
  readonly request: TransferRequest;
  readonly then: Source;
}

export interface Stored {
  readonly blocks: number[];
  /** What a power cut leaves. */
  durable: readonly number[];
  isComplete: boolean;
}

export type Rows = Map<string, ReplicaRecord>;

export class World {
  source = new Source();
  sessions = new Map<string, Session>();
  rows: Rows = new Map();
  /** A copy of the rows of an earlier day. */
  backup: Rows | null = null;
  disk = new Map<string, Stored>();
  lacksRows = false;
  clockMs = 1e12;
  /** By snapshot and catalogue. */
  readonly #truth = new Map<string, readonly number[]>();
  #content = 0;

  copy(): World {
    const copy = new World();
    const { source, sessions, rows, backup, disk, lacksRows, clockMs } = this;
    const stored = [...disk].map(([id, each]): [string, Stored] => [id, { ...each, blocks: [...each.blocks] }]);
    Object.assign(copy, { source: source.copy(), sessions: new Map(sessions), rows: new Map(rows) });
    Object.assign(copy, { backup: backup && new Map(backup), disk: new Map(stored), lacksRows, clockMs });
    for (const [key, blocks] of this.#truth) copy.#truth.set(key, blocks);
    copy.#content = this.#content;
    return copy;
  }

  write(block: number): void {
    this.#content += 1;
    this.source.volume = this.source.volume.with(block, this.#content);
  }

  discard(block: number): void {
    this.source.volume = this.source.volume.with(block, 0);
  }

  grow(): void {
    this.source.volume = [...this.source.volume, 0];
  }

  take(): void {
    const { snapshots, volume } = this.source;
    this.#put({ sequence: snapshots.size + 1, blocks: volume, state: 'ready' });
  }

  delete(id: string, state: 'retained' | 'gone'): void {
    const taken = this.source.snapshots.get(id);
    if (taken !== undefined) this.source.snapshots.set(id, { ...taken, state });
  }

  /** The node has another catalogue, in which the same handles stand for other contents. */
  exchangeSource(): void {
    this.source.origin += 1;
    for (const taken of [...this.source.snapshots.values()]) {
      this.#content += BLOCKS;
      const blocks = taken.blocks.map((content, at) => (content === 0 ? 0 : this.#content - at));
      this.#put({ ...taken, blocks });
    }
  }

  cutPower(): void {
    for (const [id, { durable, isComplete }] of this.disk)
      this.disk.set(id, { blocks: [...durable], durable, isComplete });
  }

  truthOf({ snapshotId: id, catalogueUuid }: Pick<ReplicaRecord, 'snapshotId' | 'catalogueUuid'>): readonly number[] {
    return this.#truth.get(`${id} ${catalogueUuid}`) ?? [];
  }

  #put(taken: Taken): void {
    const id = snapshotId(taken.sequence);
    this.source.snapshots.set(id, taken);
    this.#truth.set(`${id} ${this.source.origin}`, taken.blocks);
  }

  /** All that matters of the world: contents of a block are told apart by the order in which they appear there. */
  digest(): string {
    const seen = Array.from({ length: BLOCKS }, () => new Map<number, number>([[0, 0]]));
    const named = (blocks: readonly number[]): string =>
      blocks
        .map((content, at) => {
          const names = seen[at] as Map<number, number>;
          if (!names.has(content)) names.set(content, names.size);
          return names.get(content);
        })
        .join('');
    const { source, sessions, rows, backup, disk } = this;
    const sourceText = ({ origin, snapshots }: Source): string =>
      [...snapshots].map(([id, { blocks, state }]) => `${nameOf(id)}${state}${named(blocks)}`).join(',') + origin;
    const times = [...new Set([...rows.values(), ...(backup?.values() ?? [])].map((row) => row.usedNs))].sort();
    const rowText = (row: ReplicaRecord): string =>
      [nameOf(row.snapshotId), row.baseId && nameOf(row.baseId), row.nextOffset, row.catalogueUuid].join(' ') +
      ` ${times.indexOf(row.usedNs)} ${named(this.truthOf(row))} ${row.askedNs > 0n}`;
    const rowsText = (of: Rows): string => [...of.values()].map(rowText).sort().join(',');
    const parts = [
      named(source.volume),
      sourceText(source),
      [...sessions].map(([, { request, then }]) => {
        const bases = request.bases.map((base) => `${nameOf(base.snapshotId)}${base.sizeBytes}`);
        return `${nameOf(request.snapshotId)} ${bases.join()} ${request.offset} ${sourceText(then)}`;
      }),
      rowsText(rows),
      backup === null ? '' : `backup ${rowsText(backup)}`,
      [...disk]
        .map(([id, each]) => `${nameOf(id)}${named(each.blocks)} ${named(each.durable)} ${each.isComplete}`)
        .sort(),
      this.lacksRows,
    ];
    return parts.join('|');
  }
}
