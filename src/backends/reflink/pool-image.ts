/**
 * The image of an embedded pool as a file of the host: made, given its blocks, made larger.
 *
 * A full image has all of its blocks from the beginning, and grows with what is promised to volumes: no
 * other file of the host can take what a volume was promised. A sparse one takes blocks as the pool
 * writes to them, which fails when others have filled the host. Knows nothing of what is in the pool.
 */
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, errorCode } from '../../base/errors.js';
import { makePoolFileSystem } from '../../host/filesystem.js';
import type { NativeRunner } from '../../native/pool.js';
import { imageSpace } from '../host-space.js';
import { temporary } from './pool-layout.js';

export type ImageAllocation = 'full' | 'sparse';

const MIB = 1n << 20n;
/** mkfs.xfs refuses less than 300 MB; below this a pool is of no use. */
const MINIMUM_IMAGE_BYTES = 512n * MIB;
/**
 * XFS grows by allocation groups of the size that mkfs chose, as many as it takes. Of an image that
 * begins small they must be neither so large that two of them are much for the host (mkfs makes no
 * fewer), nor so small that a grown pool has thousands.
 */
const GROUP_MINIMUM_BYTES = 256n * MIB;
const GROUP_MAXIMUM_BYTES = 64n << 30n;
const GROUPS_AT_MOST = 256n;
/** Smaller steps would grow the pool at each volume. */
const STEP_BYTES = 64n * MIB;

export class PoolImage {
  readonly path: string;

  constructor(
    private readonly native: NativeRunner,
    private readonly directory: string,
    /** null: what the host can hold. */
    private readonly maximumBytes: bigint | null,
    private readonly allocation: ImageAllocation,
  ) {
    this.path = join(directory, 'pool.img');
  }

  async exists(): Promise<boolean> {
    return (await this.#state()) !== null;
  }

  /** Killed anywhere, it is called again. */
  async make(): Promise<void> {
    const unfinished = `${this.path}.new`;
    await rm(unfinished, { force: true });
    const possible = await this.#possibleBytes();
    if (possible < MINIMUM_IMAGE_BYTES) throw this.#tooSmall(possible);
    const groupBytes = this.allocation === 'full' ? groupBytesFor(possible) : null;
    const sizeBytes = groupBytes === null ? possible : initialBytes(groupBytes, possible);
    await this.native.run('createSparseFile', {
      temporaryPath: temporary(this.path),
      finalPath: unfinished,
      sizeBytes,
    });
    if (groupBytes !== null) await this.#allocate(unfinished, sizeBytes);
    await makePoolFileSystem(unfinished, groupBytes);
    // Also what mkfs may have given back.
    if (groupBytes !== null) await this.#allocate(unfinished, sizeBytes);
    await this.native.run('flush', { path: unfinished });
    await rename(unfinished, this.path);
    await this.native.run('flush', { path: this.directory });
  }

  /**
   * Gives a full image the blocks that it lacks: all of a sparse one that an earlier release has made.
   * Returns why that is not possible, null if the host holds the whole image.
   */
  async fill(): Promise<string | null> {
    const { sizeBytes, allocatedBytes } = await this.#found();
    const missing = sizeBytes - allocatedBytes;
    const space = await imageSpace(this.directory);
    if (missing > space) {
      return `it lacks ${missing} bytes and the host has ${space > 0n ? space : 0n} for it`;
    }
    try {
      await this.native.run('allocateFile', { path: this.path, sizeBytes });
      return null;
    } catch (thrown) {
      if (errorCode(thrown) === 'EOPNOTSUPP') {
        return (
          'its file system cannot allocate blocks beforehand, so only ' +
          'BLOCKDELTA_EMBEDDED_POOL_ALLOCATE=sparse promises more there'
        );
      }
      return `fallocate failed: ${errorCode(thrown) ?? 'unknown error'}`;
    }
  }

  /** By how much it can still grow, whole MiB. */
  async growableBytes(): Promise<bigint> {
    const { sizeBytes } = await this.#found();
    const growable = (await this.#possibleBytes()) - sizeBytes;
    return growable > 0n ? growable : 0n;
  }

  /** Makes the image larger by at least that much; false: there is no room for it. */
  async grow(bytes: bigint): Promise<boolean> {
    const growable = await this.growableBytes();
    if (growable < bytes) return false;
    const stepped = ((bytes + STEP_BYTES - 1n) / STEP_BYTES) * STEP_BYTES;
    const sizeBytes = (await this.#found()).sizeBytes + (stepped < growable ? stepped : growable);
    const path = this.path;
    try {
      if (this.allocation === 'full') await this.native.run('allocateFile', { path, sizeBytes });
      else await this.native.run('growFile', { path, sizeBytes });
      return true;
    } catch (thrown) {
      // Others have been faster.
      if (errorCode(thrown) === 'ENOSPC') return false;
      throw thrown;
    }
  }

  /** How large the image may be, with what it has of the host already. */
  async #possibleBytes(): Promise<bigint> {
    const allocated = (await this.#state())?.allocatedBytes ?? 0n;
    const space = (await imageSpace(this.directory)) + allocated;
    const { maximumBytes } = this;
    const possible = maximumBytes !== null && maximumBytes < space ? maximumBytes : space;
    return (possible / MIB) * MIB;
  }

  async #allocate(path: string, sizeBytes: bigint): Promise<void> {
    try {
      await this.native.run('allocateFile', { path, sizeBytes });
    } catch (thrown) {
      if (errorCode(thrown) !== 'EOPNOTSUPP') throw thrown;
      throw CsiError.failedPrecondition(
        `the file system of ${this.directory} cannot allocate the blocks of a pool image beforehand; use ` +
          'another directory, or set BLOCKDELTA_EMBEDDED_POOL_ALLOCATE=sparse and keep the host from filling up',
        { cause: thrown },
      );
    }
  }

  #tooSmall(possible: bigint): CsiError {
    return CsiError.failedPrecondition(
      `the pool directory ${this.directory} is on a file system without reflink, so an image is needed; ` +
        `it would have ${possible} bytes and needs ${MINIMUM_IMAGE_BYTES}: free space there, raise ` +
        'BLOCKDELTA_EMBEDDED_POOL_SIZE, or use a directory on XFS or btrfs',
    );
  }

  async #found(): Promise<{ sizeBytes: bigint; allocatedBytes: bigint }> {
    const state = await this.#state();
    if (state !== null) return state;
    throw CsiError.failedPrecondition(
      `the pool image ${this.path} is gone; is the file system of its directory mounted?`,
    );
  }

  async #state(): Promise<{ sizeBytes: bigint; allocatedBytes: bigint } | null> {
    return (await this.native.run('fileState', { path: this.path })).state;
  }
}

/** A power of two, for pools of up to that size. */
function groupBytesFor(possibleBytes: bigint): bigint {
  let groupBytes = GROUP_MINIMUM_BYTES;
  while (groupBytes * GROUPS_AT_MOST < possibleBytes && groupBytes < GROUP_MAXIMUM_BYTES) {
    groupBytes *= 2n;
  }
  return groupBytes;
}

function initialBytes(groupBytes: bigint, possibleBytes: bigint): bigint {
  const wanted = 2n * groupBytes;
  return wanted < possibleBytes ? wanted : possibleBytes;
}
