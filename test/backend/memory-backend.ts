/**
 * A backend in memory: the shortest implementation of the contract, for tests of the layers above it.
 *
 * Content is 4 KiB blocks with made-up addresses. As on a real reflinked file system a block that is
 * shared is written to a new address and one that is not shared in place, and addresses are used
 * again when nothing refers to them any more, so an unsound scan fails here too.
 * There is no device: attach answers UNIMPLEMENTED.
 */

import { CsiError } from '../../src/base/errors.js';
import type {
  Attachments,
  Backend,
  InitializedVolumes,
  PoolBases,
  PoolCapacity,
  PoolContents,
  PoolObjectId,
  PoolSnapshots,
  PoolStatistics,
  PoolVolumes,
  RetainedBase,
  SnapshotChanges,
} from '../../src/driver/backends/backend.js';
import { directScan } from '../../src/driver/backends/snapshot-scan.js';
import type { FileSystem } from '../../src/driver/host/file-systems.js';

export const BLOCK_BYTES = 4096;

interface Block {
  address: number;
  bytes: Buffer;
}

interface Content {
  sizeBytes: bigint;
  blocks: Map<number, Block>;
}

export interface MemoryPoolOptions {
  pool?: string;
  totalBytes?: bigint;
}

/** What outlives a backend object: give it to a new one to play a restart. */
export class MemoryStorage {
  readonly volumes = new Map<string, Content>();
  readonly snapshots = new Map<string, Content>();
  /** What is kept of deleted snapshots. */
  readonly bases = new Map<string, Content>();
  /** Which of them a test has declared lost, and why. */
  readonly invalidatedBases = new Map<string, string>();
  /** What the superblocks of volumes and snapshots say. */
  readonly fileSystems = new Map<string, FileSystem>();
  /** Marks of use. */
  readonly used = new Set<string>();
  /** Names that a killed run left. */
  readonly temporary = new Set<string>();
  /** Names of somebody else. */
  readonly foreign = new Set<string>();
  identity = 'memory-pool-1';
}

export class MemoryBackend implements Backend {
  readonly pool: string;
  readonly kind = 'memory';
  readonly #totalBytes: bigint;

  constructor(
    readonly storage: MemoryStorage = new MemoryStorage(),
    options: MemoryPoolOptions = {},
  ) {
    this.pool = options.pool ?? 'default';
    this.#totalBytes = options.totalBytes ?? 1n << 30n;
  }

  async start(_expected: 'any' | 'existing' = 'any', claim?: (uuid: string) => Promise<unknown>): Promise<string[]> {
    await claim?.(this.storage.identity);
    const swept = [...this.storage.temporary];
    this.storage.temporary.clear();
    return swept;
  }

  async stop(): Promise<void> {}
  async check(): Promise<void> {}

  async capacity(): Promise<PoolCapacity> {
    const sizes = [...this.storage.volumes.values()].map((volume) => volume.sizeBytes);
    const kept = [...this.storage.snapshots.values()].map((snapshot) => snapshot.sizeBytes);
    const used = [...sizes, ...kept].reduce((sum, size) => sum + size, 0n);
    const free = used < this.#totalBytes ? this.#totalBytes - used : 0n;
    return {
      totalBytes: this.#totalBytes,
      freeBytes: free,
      reserveBytes: 0n,
      availableBytes: free,
      minimumVolumeBytes: 1n << 20n,
      granularityBytes: BigInt(BLOCK_BYTES),
    };
  }

  async statistics(): Promise<PoolStatistics> {
    const volumes = new Map(
      [...this.storage.volumes].map(([id, { blocks }]) => [id, BigInt(blocks.size * BLOCK_BYTES)]),
    );
    let promisedBytes = 0n;
    for (const [id, { sizeBytes }] of this.storage.volumes) {
      promisedBytes += sizeBytes - (volumes.get(id) ?? 0n);
    }
    const space = { capacity: await this.capacity(), promisedBytes, volumes };
    return { space, thin: null };
  }

  async list(sizes: 'all' | 'volumes' = 'all'): Promise<PoolContents> {
    const { volumes, snapshots, foreign } = this.storage;
    const objects = (of: Map<string, Content>) =>
      [...of].map(([id, content]) => ({ id, sizeBytes: content.sizeBytes }));
    const held = sizes === 'all' ? objects(snapshots) : [...snapshots.keys()].map((id) => ({ id }));
    return { volumes: objects(volumes), snapshots: held, unknown: [...foreign] };
  }

  readonly volumes: PoolVolumes = {
    create: async (volumeId, sizeBytes, source = null) => {
      if (this.#isThere(volumeId, sizeBytes)) return;
      const blocks = source === null ? [] : atMost(sizeBytes, this.#source(source)).blocks;
      this.storage.volumes.set(volumeId, { sizeBytes, blocks: new Map(blocks) });
    },
    delete: async (volumeId) => {
      this.storage.volumes.delete(volumeId);
      this.storage.used.delete(volumeId);
    },
    expand: async (volumeId, sizeBytes) => {
      const volume = this.#volume(volumeId);
      if (volume.sizeBytes < sizeBytes) volume.sizeBytes = sizeBytes;
      return volume.sizeBytes;
    },
    check: async (volumeId, sizeBytes) => {
      const found = this.storage.volumes.get(volumeId)?.sizeBytes ?? 0n;
      if (found < sizeBytes) throw CsiError.failedPrecondition(`volume ${volumeId} is not whole`);
    },
    condition: async (volumeId) => {
      const storedBytes = this.storage.volumes.get(volumeId)?.sizeBytes ?? null;
      return { storedBytes, runsOnRemoved: false };
    },
    fileSystemIn: async (object) => {
      const [id = ''] = Object.values(object);
      return this.storage.fileSystems.get(id) ?? null;
    },
    thaw: async () => undefined,
  };

  readonly snapshots: PoolSnapshots = {
    create: async (members) => {
      const sources = members.map(({ volumeId }) => this.#volume(volumeId));
      const taken = members.find(({ snapshotId }) => this.storage.snapshots.has(snapshotId));
      if (taken !== undefined) {
        throw CsiError.internal(`snapshot ${taken.snapshotId} is there already`);
      }
      members.forEach(({ snapshotId }, index) => {
        const { sizeBytes, blocks } = sources[index] as Content;
        this.storage.snapshots.set(snapshotId, { sizeBytes, blocks: new Map(blocks) });
      });
      return { creationTimeNs: BigInt(Date.now()) * 1_000_000n, sizesBytes: sources.map(({ sizeBytes }) => sizeBytes) };
    },
    delete: async (snapshotId) => {
      this.storage.snapshots.delete(snapshotId);
    },
    check: async (snapshotId, sizeBytes) => {
      if (this.#snapshot(snapshotId).sizeBytes === sizeBytes) return;
      throw CsiError.failedPrecondition(`snapshot ${snapshotId} is not whole`);
    },
  };

  readonly attachments: Attachments = {
    attach: async () => {
      throw CsiError.unimplemented('a volume in memory has no device');
    },
    detach: async () => undefined,
    find: async () => null,
  };

  readonly marks: InitializedVolumes = {
    set: async (volumeIds) => {
      for (const volumeId of volumeIds) this.storage.used.add(volumeId);
    },
    has: async (volumeId) => this.storage.used.has(volumeId),
    sweep: async () => {
      const { used, volumes } = this.storage;
      for (const id of used) if (!volumes.has(id)) used.delete(id);
      return new Set(used);
    },
  };

  /** Keeps the content itself, so that its addresses stay taken. */
  readonly bases: PoolBases = {
    retain: async (snapshotId) => {
      const { bases, snapshots } = this.storage;
      const content = bases.get(snapshotId) ?? snapshots.get(snapshotId);
      if (content === undefined) return null;
      bases.set(snapshotId, content);
      return retainedBase([snapshotId, content]);
    },
    all: (snapshotIds) => {
      const { bases, invalidatedBases } = this.storage;
      const isWanted = (id: string): boolean => snapshotIds?.includes(id) ?? true;
      const invalidated = [...invalidatedBases]
        .filter(([id]) => isWanted(id))
        .map(([snapshotId, reason]) => ({ snapshotId, reason }));
      const usable = [...bases].filter(([id]) => isWanted(id) && !invalidatedBases.has(id)).map(retainedBase);
      return { usable, invalidated };
    },
    held: new Map(),
    drop: async (snapshotId) => {
      this.storage.bases.delete(snapshotId);
      this.storage.invalidatedBases.delete(snapshotId);
    },
  };

  readonly changes: SnapshotChanges = {
    scan: async (targetId, baseId) => {
      const target = this.#snapshot(targetId);
      const { sizeBytes } = target;
      const base = baseId === null ? null : extents(this.#base(baseId));
      const source = { kind: 'extents', sizeBytes, target: extents(target), base } as const;
      return directScan(source, { targetBytes: sizeBytes });
    },
    neededFor: () => null,
    begin: async () => null,
    join: async () => undefined,
  };

  /** What a writer on the device would do. Whole blocks only. */
  write(volumeId: string, offset: number, bytes: Buffer): void {
    const { blocks } = this.#volume(volumeId);
    for (let done = 0; done < bytes.length; done += BLOCK_BYTES) {
      const index = (offset + done) / BLOCK_BYTES;
      const held = blocks.get(index);
      const alone = held !== undefined && this.#references(held.address) === 1;
      const address = alone ? held.address : this.#freeAddress();
      const content = Buffer.from(bytes.subarray(done, done + BLOCK_BYTES));
      blocks.set(index, { address, bytes: content });
    }
  }

  discard(volumeId: string, offset: number, length: number): void {
    const { blocks } = this.#volume(volumeId);
    for (let done = 0; done < length; done += BLOCK_BYTES) {
      blocks.delete((offset + done) / BLOCK_BYTES);
    }
  }

  read(volumeId: string): Buffer {
    const { sizeBytes, blocks } = this.#volume(volumeId);
    const content = Buffer.alloc(Number(sizeBytes));
    for (const [index, block] of blocks) block.bytes.copy(content, index * BLOCK_BYTES);
    return content;
  }

  #volume(volumeId: string): Content {
    const volume = this.storage.volumes.get(volumeId);
    if (volume === undefined) throw CsiError.internal(`there is no volume ${volumeId}`);
    return volume;
  }

  #source(source: PoolObjectId): Content {
    if ('replicaId' in source) throw CsiError.internal('a pool in memory holds no replicas');
    return 'volumeId' in source ? this.#volume(source.volumeId) : this.#snapshot(source.snapshotId);
  }

  #snapshot(snapshotId: string): Content {
    const snapshot = this.storage.snapshots.get(snapshotId);
    if (snapshot === undefined) {
      throw CsiError.failedPrecondition(`snapshot ${snapshotId} is not in the pool`);
    }
    return snapshot;
  }

  #base(snapshotId: string): Content {
    const { bases, invalidatedBases } = this.storage;
    const reason = invalidatedBases.get(snapshotId);
    if (reason !== undefined) throw CsiError.notFound(`${snapshotId} is lost because ${reason}`);
    return bases.get(snapshotId) ?? this.#snapshot(snapshotId);
  }

  #isThere(volumeId: string, sizeBytes: bigint): boolean {
    const found = this.storage.volumes.get(volumeId);
    if (found === undefined) return false;
    if (found.sizeBytes === sizeBytes) return true;
    throw CsiError.internal(`volume ${volumeId} has ${found.sizeBytes} bytes, not ${sizeBytes}`);
  }

  #contents(): Content[] {
    const { volumes, snapshots, bases } = this.storage;
    return [volumes, snapshots, bases].flatMap((contents) => [...contents.values()]);
  }

  #references(address: number): number {
    let count = 0;
    for (const { blocks } of this.#contents()) {
      for (const block of blocks.values()) if (block.address === address) count += 1;
    }
    return count;
  }

  /** The lowest one, so that freed addresses come back soon. */
  #freeAddress(): number {
    const used = new Set<number>();
    for (const { blocks } of this.#contents()) {
      for (const block of blocks.values()) used.add(block.address);
    }
    let address = BLOCK_BYTES;
    while (used.has(address)) address += BLOCK_BYTES;
    return address;
  }
}

/** The content, which fits into that many bytes. */
function atMost(sizeBytes: bigint, content: Content): Content {
  if (content.sizeBytes <= sizeBytes) return content;
  throw CsiError.internal(`a copy of ${content.sizeBytes} bytes would have ${sizeBytes}`);
}

const retainedBase = ([snapshotId, { blocks }]: [string, Content]): RetainedBase => ({
  snapshotId,
  storedBytes: BigInt(blocks.size * 8),
});

function extents({ blocks }: Content): BigUint64Array {
  const words = [...blocks]
    .sort(([a], [b]) => a - b)
    .flatMap(([index, { address }]) => [index * BLOCK_BYTES, address, BLOCK_BYTES, 0].map((word) => BigInt(word)));
  return BigUint64Array.from(words);
}
