/**
 * A pool on two sparse files of its own, each on a loop device with direct I/O:
 *
 *   <directory>/metadata.img
 *   <directory>/data.img
 *
 * Together they never promise more than the host's file system can give when they are made or grow, and
 * the pool's free space is bounded by what the host has free at the moment of asking. Knows nothing of
 * what is in them.
 */
import { join } from 'node:path';
import { CsiError } from '../../errors.js';
import type { NativeRunner } from '../../native/pool.js';
import { hostFreeBytes, imageSpace } from '../host-space.js';
import { releaseLoop } from '../loop-release.js';
import type { OpenDevices, PoolDevices } from './pool-devices.js';

const MIB = 1n << 20n;
/** Below this a pool is of no use. */
const MINIMUM_BYTES = 512n * MIB;
/** 256 bytes for each 64 KiB of data, where one mapping takes 16: room for many snapshots that differ. */
const METADATA_SHARE = 256n;
const METADATA_MINIMUM = 16n * MIB;
/** dm-thin uses 255 bitmaps of 16,320 blocks and no more. */
export const METADATA_MAXIMUM = 255n * 16_320n * 4096n;

export interface EmbeddedDevicesOptions {
  pool: string;
  directory: string;
  /** Upper bound for both files together; null: what the host can hold when they are made. */
  maximumBytes: bigint | null;
}

export class EmbeddedDevices implements PoolDevices {
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
    const total = await this.#totalBytes();
    const metadataBytes = metadataBytesFor(total);
    if (total < MINIMUM_BYTES) {
      throw CsiError.failedPrecondition(
        `the images of pool '${this.options.pool}' in ${this.options.directory} would have ${total} bytes ` +
          `and need ${MINIMUM_BYTES}: free space there, or raise BLOCKDELTA_EMBEDDED_POOL_SIZE`,
      );
    }
    for (const [path, sizeBytes] of [
      [this.#metadata, metadataBytes],
      [this.#data, total - metadataBytes],
    ] as const) {
      if ((await this.#file(path)) !== null) continue;
      const temporaryPath = `${path}.new`;
      await this.native.run('removeFile', { path: temporaryPath });
      await this.native.run('createSparseFile', { temporaryPath, finalPath: path, sizeBytes });
    }
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
    const file = await this.#file(this.#metadata);
    if (file === null || file.sizeBytes >= METADATA_MAXIMUM) return false;
    if ((await imageSpace(this.options.directory)) < file.sizeBytes) return false;
    const sizeBytes = smaller(2n * file.sizeBytes, METADATA_MAXIMUM);
    return this.#grow(this.#metadata, sizeBytes);
  }

  freeBelow(): Promise<bigint> {
    return hostFreeBytes(this.options.directory);
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
    if (sizeBytes > data.sizeBytes) await this.#grow(this.#data, sizeBytes);
  }

  async #grow(path: string, sizeBytes: bigint): Promise<boolean> {
    const { grown } = await this.native.run('growFile', { path, sizeBytes });
    // Also when the file had the size already: a kill may have come before the device got it.
    await this.native.run('loopResize', { backingPath: path });
    return grown;
  }

  async #attach(backingPath: string): Promise<string> {
    const request = { backingPath, readOnly: false, label: 'blockdelta-pool' };
    const { device } = await this.native.run('loopAttach', request);
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
