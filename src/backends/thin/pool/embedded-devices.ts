/**
 * A pool on two files of its own, each on a loop device with direct I/O:
 *
 *   <directory>/metadata.img   allocated in full: a pool that cannot write its metadata stops
 *   <directory>/data.img       sparse
 *
 * Together they never promise more than the host's file system can give when they are made or grow, and
 * the pool's free space is bounded by what the host has free at the moment of asking. Knows nothing of
 * what is in them.
 */
import { join } from 'node:path';
import { CsiError, errorCode } from '../../../base/errors.js';
import type { NativeRunner } from '../../../native/pool.js';
import { hostFreeBytes, imageSpace } from '../../host-space.js';
import { releaseLoop } from '../../loop-release.js';
import type { OpenDevices, PoolDevices } from './pool-devices.js';
import { METADATA_MAXIMUM } from './pool-table.js';

const MIB = 1n << 20n;
/** Below this a pool is of no use. */
const MINIMUM_BYTES = 512n * MIB;
/** 256 bytes for each 64 KiB of data, where one mapping takes 16: room for many snapshots that differ. */
const METADATA_SHARE = 256n;
const METADATA_MINIMUM = 16n * MIB;

export interface EmbeddedDevicesOptions {
  pool: string;
  directory: string;
  /** Upper bound for both files together; null: what the host can hold when they are made. */
  maximumBytes: bigint | null;
}

export class EmbeddedDevices implements PoolDevices {
  readonly areOurs = true;
  readonly #metadata: string;
  readonly #data: string;

  constructor(
    private readonly native: NativeRunner,
    private readonly options: EmbeddedDevicesOptions,
  ) {
    this.#metadata = join(options.directory, 'metadata.img');
    this.#data = join(options.directory, 'data.img');
  }

  async exist(): Promise<boolean> {
    return (await this.#file(this.#metadata)) !== null && (await this.#file(this.#data)) !== null;
  }

  async make(): Promise<void> {
    if (await this.exist()) return;
    const taken = (await this.#file(this.#metadata))?.allocatedBytes ?? 0n;
    const total = await this.#totalBytes(taken);
    const metadataBytes = metadataBytesFor(total);
    if (total < MINIMUM_BYTES) {
      throw CsiError.failedPrecondition(
        `the images of pool '${this.options.pool}' in ${this.options.directory} would have ${total} bytes ` +
          `and need ${MINIMUM_BYTES}: free space there, or raise BLOCKDELTA_EMBEDDED_POOL_SIZE`,
      );
    }
    await this.#create(this.#metadata, metadataBytes);
    await this.#allocateMetadata((await this.#file(this.#metadata))?.sizeBytes ?? metadataBytes);
    await this.#create(this.#data, total - metadataBytes);
  }

  async open(): Promise<OpenDevices> {
    if (!(await this.exist())) {
      throw CsiError.failedPrecondition(
        `pool '${this.options.pool}' has lost ${this.#metadata} or ${this.#data}: ` +
          "is the directory's file system mounted?",
      );
    }
    await this.#growData();
    return {
      metadataPath: await this.#attach(this.#metadata),
      dataPath: await this.#attach(this.#data),
    };
  }

  /** Twice as large, as far as dm-thin and the host allow. */
  async growMetadata(): Promise<boolean> {
    const path = this.#metadata;
    const file = await this.#file(path);
    if (file === null) return false;
    if (await this.#catchUp(path, file.sizeBytes)) return true;
    if (file.sizeBytes >= METADATA_MAXIMUM) return false;
    const sizeBytes = smaller(2n * file.sizeBytes, METADATA_MAXIMUM);
    const more = sizeBytes - file.sizeBytes;
    if ((await imageSpace(this.options.directory)) < more) throw this.#noRoom(more);
    await this.#allocateMetadata(sizeBytes);
    return this.#catchUp(path, sizeBytes);
  }

  /**
   * What the host has, and what it has given to data.img for blocks that the pool has freed since: deleting
   * a volume makes no holes there. Of the blocks in use some may be holes, so that is the least it can be.
   */
  async freeBelow(usedBytes: bigint): Promise<bigint> {
    const free = await hostFreeBytes(this.options.directory);
    const allocatedBytes = (await this.#file(this.#data))?.allocatedBytes ?? 0n;
    return allocatedBytes > usedBytes ? free + allocatedBytes - usedBytes : free;
  }

  async release(): Promise<void> {
    for (const path of [this.#metadata, this.#data]) await releaseLoop(this.native, path);
  }

  /** An operator has raised the bound: takes it up as far as the host can give it. */
  async #growData(): Promise<void> {
    const metadata = await this.#file(this.#metadata);
    const data = await this.#file(this.#data);
    if (this.options.maximumBytes === null || metadata === null || data === null) return;
    const allocated = metadata.allocatedBytes + data.allocatedBytes;
    const sizeBytes = (await this.#totalBytes(allocated)) - metadata.sizeBytes;
    if (sizeBytes > data.sizeBytes) {
      await this.native.run('growFile', { path: this.#data, sizeBytes });
    }
    // Of a pool that was active all the time the device is there already.
    await this.#catchUp(this.#data, sizeBytes > data.sizeBytes ? sizeBytes : data.sizeBytes);
  }

  /** Whether the device was smaller than its file, and is not any more: a kill may come between the two. */
  async #catchUp(backingPath: string, sizeBytes: bigint): Promise<boolean> {
    const { device } = await this.native.run('loopFind', { backingPath });
    if (device === null || device.sizeBytes >= sizeBytes) return false;
    await this.native.run('loopResize', { backingPath });
    return true;
  }

  async #create(finalPath: string, sizeBytes: bigint): Promise<void> {
    if ((await this.#file(finalPath)) !== null) return;
    const temporaryPath = `${finalPath}.new`;
    await this.native.run('removeFile', { path: temporaryPath });
    await this.native.run('createSparseFile', { temporaryPath, finalPath, sizeBytes });
  }

  async #allocateMetadata(sizeBytes: bigint): Promise<void> {
    try {
      await this.native.run('allocateFile', { path: this.#metadata, sizeBytes });
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENOSPC') throw thrown;
      throw this.#noRoom(sizeBytes);
    }
  }

  #noRoom(bytes: bigint): CsiError {
    return CsiError.resourceExhausted(
      `${this.options.directory} has no room for ${bytes} bytes more of metadata of pool ` +
        `'${this.options.pool}': free space there`,
    );
  }

  async #attach(backingPath: string): Promise<string> {
    const request = { backingPath, readOnly: false, label: 'blockdelta-pool' };
    const { device } = await this.native.run('loopAttach', request);
    // The device of a plugin that was killed, or has grown the file just now, may be smaller.
    await this.native.run('loopResize', { backingPath });
    return device.path;
  }

  /** Of both files together, whole MiB, if they have taken that much already. */
  async #totalBytes(allocatedBytes = 0n): Promise<bigint> {
    const possible = (await imageSpace(this.options.directory)) + allocatedBytes;
    const { maximumBytes } = this.options;
    const wanted = maximumBytes === null ? possible : smaller(maximumBytes, possible);
    return (wanted / MIB) * MIB;
  }

  async #file(path: string): Promise<{ sizeBytes: bigint; allocatedBytes: bigint } | null> {
    return (await this.native.run('fileState', { path })).state;
  }
}

function metadataBytesFor(totalBytes: bigint): bigint {
  const share = (totalBytes / METADATA_SHARE / MIB) * MIB;
  return smaller(share > METADATA_MINIMUM ? share : METADATA_MINIMUM, METADATA_MAXIMUM);
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
