/**
 * A pool on two files of its own, each on a loop device with direct I/O:
 *
 *   <directory>/metadata.img   allocated in full: a pool that cannot write its metadata stops
 *   <directory>/data.img       sparse
 *
 * When the files are created or grown, together they are no larger than the host's file system can hold, and the pool's free
 * space is bounded by the free space of the host at the moment. Knows nothing of the content of the files.
 */
import { join } from 'node:path';
import { CsiError, errorCode } from '../../../../base/errors.js';
import type { NativeRunner } from '../../../native/pool.js';
import { hostFreeBytes, imageSpace } from '../../image-files.js';
import { releaseLoop } from '../../loop-release.js';
import type { OpenDevices, PoolDevices } from './pool-devices.js';
import { METADATA_MAXIMUM } from './pool-table.js';

const MIB = 1n << 20n;
/** A smaller pool would be of little use. */
const MINIMUM_BYTES = 512n * MIB;
/** 256 bytes per 64 KiB of data: a mapping takes 16, so this has room for many snapshots that differ. */
const METADATA_SHARE = 256n;
const METADATA_MINIMUM = 16n * MIB;

export interface EmbeddedDevicesOptions {
  pool: string;
  directory: string;
  /** Upper bound for both files together; null for what the host can hold when they are created. */
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

  async create(): Promise<void> {
    if (await this.exist()) return;
    const taken = (await this.#file(this.#metadata))?.allocatedBytes ?? 0n;
    const total = await this.#totalBytes(taken);
    const metadataBytes = metadataBytesFor(total);
    if (total < MINIMUM_BYTES) {
      throw CsiError.failedPrecondition(
        `the images of pool '${this.options.pool}' in ${this.options.directory} could have ${total > 0n ? total : 0n} bytes ` +
          `and need ${MINIMUM_BYTES}: free space there, or raise BLOCKDELTA_EMBEDDED_POOL_SIZE`,
      );
    }
    await this.#createFile(this.#metadata, metadataBytes);
    await this.#allocateMetadata((await this.#file(this.#metadata))?.sizeBytes ?? metadataBytes);
    await this.#createFile(this.#data, total - metadataBytes);
  }

  async open(): Promise<OpenDevices> {
    if (!(await this.exist())) {
      throw CsiError.failedPrecondition(
        `pool '${this.options.pool}' has lost ${this.#metadata} or ${this.#data}: ` +
          "check that the directory's file system is mounted",
      );
    }
    await this.#growData();
    return {
      metadataPath: await this.#attach(this.#metadata),
      dataPath: await this.#attach(this.#data),
    };
  }

  /** Doubles the metadata device, as far as dm-thin and the host allow. */
  async growMetadata(): Promise<boolean> {
    const path = this.#metadata;
    const file = await this.#file(path);
    if (file === null) return false;
    if (await this.#resizeDevice(path, file.sizeBytes)) return true;
    if (file.sizeBytes >= METADATA_MAXIMUM) return false;
    const sizeBytes = smaller(2n * file.sizeBytes, METADATA_MAXIMUM);
    const more = sizeBytes - file.sizeBytes;
    if ((await imageSpace(this.native, this.options.directory)) < more) throw this.#noRoom(more);
    await this.#allocateMetadata(sizeBytes);
    return this.#resizeDevice(path, sizeBytes);
  }

  /**
   * The host's free space plus the blocks of data.img that the pool has freed, since deleting a volume
   * punches no holes there. A lower bound, because some of the blocks in use may be holes.
   */
  async freeBelow(usedBytes: bigint): Promise<bigint> {
    const free = await hostFreeBytes(this.native, this.options.directory);
    const allocatedBytes = (await this.#file(this.#data))?.allocatedBytes ?? 0n;
    return allocatedBytes > usedBytes ? free + allocatedBytes - usedBytes : free;
  }

  async release(): Promise<void> {
    for (const path of [this.#metadata, this.#data]) await releaseLoop(this.native, path);
  }

  /** Grows the data file to a raised bound, as far as the host can hold it. */
  async #growData(): Promise<void> {
    const metadata = await this.#file(this.#metadata);
    const data = await this.#file(this.#data);
    if (this.options.maximumBytes === null || metadata === null || data === null) return;
    const allocated = metadata.allocatedBytes + data.allocatedBytes;
    const sizeBytes = (await this.#totalBytes(allocated)) - metadata.sizeBytes;
    if (sizeBytes > data.sizeBytes) {
      await this.native.run('growFile', { path: this.#data, sizeBytes });
    }
    // The device exists if the pool stayed active.
    await this.#resizeDevice(this.#data, sizeBytes > data.sizeBytes ? sizeBytes : data.sizeBytes);
  }

  /** Resizes a device that is smaller than its file, as after a kill. Returns whether the device was smaller. */
  async #resizeDevice(backingPath: string, sizeBytes: bigint): Promise<boolean> {
    const { device } = await this.native.run('loopFind', { backingPath, hint: null });
    if (device === null || device.sizeBytes >= sizeBytes) return false;
    await this.native.run('loopResize', { backingPath });
    return true;
  }

  async #createFile(finalPath: string, sizeBytes: bigint): Promise<void> {
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
    // The file may have grown, and a plugin that was killed may not have resized the device.
    await this.native.run('loopResize', { backingPath });
    return device.path;
  }

  /**
   * The size that both files together may have, whole MiB.
   *
   * @param allocatedBytes the bytes that the files occupy already
   */
  async #totalBytes(allocatedBytes = 0n): Promise<bigint> {
    const possible = (await imageSpace(this.native, this.options.directory)) + allocatedBytes;
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
