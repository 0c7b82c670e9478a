/**
 * The image file of an embedded pool on the host: created, allocated, grown.
 *
 * A full image has all of its blocks allocated from the beginning and grows with the space committed to volumes, so no other
 * file of the host can take that space. A sparse image gets its blocks as the pool writes; such writes fail once other files
 * have filled the host. Knows nothing of the contents of the pool.
 */
import { join } from 'node:path';
import { CsiError, errorCode, insteadOf } from '../../../base/errors.js';
import { makePoolFileSystem } from '../../host/filesystem.js';
import type { NativeRunner } from '../../native/pool.js';
import { unlink } from '../directory-files.js';
import { imageSpace } from '../image-files.js';
import { temporary } from './pool-layout.js';

export type ImageAllocation = 'full' | 'sparse';

const MIB = 1n << 20n;
/** mkfs.xfs refuses less than 300 MB, and a smaller pool would be of little use. */
const MINIMUM_IMAGE_BYTES = 512n * MIB;
/**
 * XFS grows by allocation groups of the size that mkfs chose. For an image that starts small the groups must not be so large
 * that two of them, the fewest that mkfs makes, fill the host, nor so small that the grown pool has thousands of them.
 */
const GROUP_MINIMUM_BYTES = 256n * MIB;
const GROUP_MAXIMUM_BYTES = 64n << 30n;
const GROUPS_AT_MOST = 256n;
/** The least that an image grows by; with smaller steps it would grow for every volume. */
const STEP_BYTES = 64n * MIB;

export class PoolImage {
  readonly path: string;

  constructor(
    private readonly native: NativeRunner,
    private readonly directory: string,
    /** Upper bound of the size; null for as much as the host can hold. */
    private readonly maximumBytes: bigint | null,
    private readonly allocation: ImageAllocation,
  ) {
    this.path = join(directory, 'pool.img');
  }

  async exists(): Promise<boolean> {
    return (await this.#state()) !== null;
  }

  /** Safe to repeat after a kill at any point. */
  async create(): Promise<void> {
    const unfinished = `${this.path}.new`;
    await unlink(this.native, unfinished);
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
    // Allocated again, because mkfs may have discarded blocks.
    if (groupBytes !== null) await this.#allocate(unfinished, sizeBytes);
    await this.native.run('flush', { path: unfinished });
    await this.native.run('renameFile', { from: unfinished, to: this.path });
    await this.native.run('flush', { path: this.directory });
  }

  /**
   * Allocates the blocks that a full image lacks, which may be all of them if an earlier release created
   * it sparse. Returns the reason if that is not possible, null once the whole image is allocated.
   */
  async fill(): Promise<string | null> {
    const { sizeBytes, allocatedBytes } = await this.#found();
    // What describes an image's extents takes blocks too, so a full one may have more than its size.
    const missing = sizeBytes - allocatedBytes;
    const space = await imageSpace(this.native, this.directory);
    if (missing > 0n && missing > space) {
      return `it lacks ${missing} bytes and the host has ${space > 0n ? space : 0n} for it`;
    }
    try {
      await this.native.run('allocateFile', { path: this.path, sizeBytes });
      return null;
    } catch (thrown) {
      if (errorCode(thrown) === 'EOPNOTSUPP') {
        return (
          'its file system does not support fallocate, so new volumes there need ' +
          'BLOCKDELTA_EMBEDDED_POOL_ALLOCATE=sparse'
        );
      }
      return `fallocate failed: ${errorCode(thrown) ?? 'unknown error'}`;
    }
  }

  /** How much the image can still grow, whole MiB. */
  async growableBytes(): Promise<bigint> {
    const { sizeBytes } = await this.#found();
    const growable = (await this.#possibleBytes()) - sizeBytes;
    return growable > 0n ? growable : 0n;
  }

  /** Grows the image by at least `bytes`. False if there is no room. */
  async grow(bytes: bigint): Promise<boolean> {
    const growable = await this.growableBytes();
    if (growable < bytes) return false;
    const stepped = ((bytes + STEP_BYTES - 1n) / STEP_BYTES) * STEP_BYTES;
    const sizeBytes = (await this.#found()).sizeBytes + (stepped < growable ? stepped : growable);
    const method = this.allocation === 'full' ? 'allocateFile' : 'growFile';
    const grown: Promise<unknown> = this.native.run(method, { path: this.path, sizeBytes });
    // Other files may take the space meanwhile.
    return grown.then(() => true, insteadOf(['ENOSPC'], false));
  }

  /** How large the image may become, including the blocks it has. */
  async #possibleBytes(): Promise<bigint> {
    const allocated = (await this.#state())?.allocatedBytes ?? 0n;
    const space = (await imageSpace(this.native, this.directory)) + allocated;
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
        `the file system of ${this.directory} does not support fallocate, which a fully allocated pool image ` +
          'needs; use another directory, or set BLOCKDELTA_EMBEDDED_POOL_ALLOCATE=sparse and keep the host from filling up',
        { cause: thrown },
      );
    }
  }

  #tooSmall(possible: bigint): CsiError {
    return CsiError.failedPrecondition(
      `the pool directory ${this.directory} is on a file system without reflink, so an image is needed; ` +
        `it could have ${possible > 0n ? possible : 0n} bytes and needs ${MINIMUM_IMAGE_BYTES}: free space there, raise ` +
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

/** A power of two, for a pool that may grow to this size. */
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
