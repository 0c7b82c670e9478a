/**
 * A pool in a directory whose file system has no reflink: an XFS image on a loop device, mounted beside
 * the image.
 *
 *   <directory>/pool.img       the image (pool-image.ts); it exists only once mkfs has finished
 *   <directory>/pool.img.new   being created; removed at the next start
 *   <directory>/mount          the mount point
 *
 * Knows nothing of volumes, only how much of the pool has to be free.
 */
import { join } from 'node:path';
import { CsiError, errorCode, StatusCode } from '../../../base/errors.js';
import { mountContaining, mountsAt, readMountInfo } from '../../../base/system/mountinfo.js';
import type { PoolPlace } from '../../config/pools.js';
import { unmountLayers } from '../../host/layers.js';
import { mount } from '../../host/mounter.js';
import { kernelPath } from '../../host/target.js';
import type { NativeRunner } from '../../native/pool.js';
import type { OnEvent } from '../backend.js';
import { hostFreeBytes } from '../image-files.js';
import { releaseLoop } from '../loop-release.js';
import type { PoolSpace } from '../pool-account.js';
import { type ImageAllocation, PoolImage } from './pool-image.js';

/** The least free space that XFS gains when the image grows, percent of the growth. */
const USABLE_PERCENT = 97n;

export interface EmbeddedPoolOptions {
  pool: string;
  directory: string;
  /** Upper bound for the image; null for as much as the host can hold. */
  embeddedPoolBytes: bigint | null;
  /** The default is full. */
  embeddedPoolAllocation?: ImageAllocation;
  /** The kind of place that the operator means; the default is any. */
  place?: PoolPlace;
  onEvent?: OnEvent;
}

/** The image of a pool and the file system that it takes its space from, in a few words. */
export async function imagePlace(directory: string): Promise<string> {
  const image = join(directory, 'pool.img');
  const below = mountContaining(await readMountInfo(), directory);
  return `${image} on the ${below?.fsType} of ${below?.source}, which is mounted at ${below?.mountPoint}`;
}

export class EmbeddedPool {
  readonly mountPoint: string;
  readonly #image: PoolImage;
  readonly #allocation: ImageAllocation;
  /** Why the image is not allocated in full; null if it is. */
  #unallocated: string | null = null;

  constructor(
    private readonly native: NativeRunner,
    private readonly options: EmbeddedPoolOptions,
  ) {
    const { directory, embeddedPoolBytes, embeddedPoolAllocation } = options;
    this.#allocation = embeddedPoolAllocation ?? 'full';
    this.#image = new PoolImage(native, directory, embeddedPoolBytes, this.#allocation);
    this.mountPoint = join(directory, 'mount');
  }

  /** Whether the image grows before more of it is committed. */
  get grows(): boolean {
    return this.#allocation === 'full';
  }

  exists(): Promise<boolean> {
    return this.#image.exists();
  }

  /** Creates the image if there is none, attaches and mounts it. Idempotent, also after a kill at any point. */
  async start(): Promise<void> {
    if (!(await this.exists())) await this.#image.create();
    await this.#warnOfPlace();
    if (this.grows) await this.#fill();
    else await this.#growSparse();
    await this.native.run('makeDirectory', { path: this.mountPoint });
    const devicePath = await this.#attach();
    if (this.grows) await this.#refuseDiscards();
    if (!(await this.#isMounted(devicePath))) {
      await mount(this.native, {
        source: devicePath,
        target: this.mountPoint,
        fsType: 'xfs',
        options: ['noatime', 'nodev', 'nosuid', 'noexec'],
      });
    }
    await this.native.run('growFileSystem', { mountPoint: this.mountPoint, devicePath });
  }

  /** Unmounts and detaches the image, unless something in the pool is in use. */
  async stop(): Promise<void> {
    try {
      await this.#unmount();
      await releaseLoop(this.native, this.#image.path);
    } catch (thrown) {
      // Volumes are attached: they keep working without the plugin, and the next start finds the pool mounted.
      const { code, message } = CsiError.from(thrown);
      if (code !== StatusCode.FAILED_PRECONDITION) throw thrown;
      const { pool, onEvent } = this.options;
      onEvent?.({
        level: 'info',
        message: `pool '${pool}' stays mounted at ${this.mountPoint}, because it is in use: ${message}`,
      });
    }
  }

  /**
   * Size and free space. A full image also counts the space that it can still grow by, because it grows before the space is
   * committed; a sparse image can count on no more than the free space of the host now.
   *
   * @param root a path to the pool
   */
  async space(root: string): Promise<PoolSpace> {
    const { totalBytes, freeBytes } = await this.native.run('spaceOf', { path: root });
    if (this.grows && this.#unallocated === null) {
      const growable = await this.#image.growableBytes();
      const usable = (growable * USABLE_PERCENT) / 100n;
      return { totalBytes: totalBytes + growable, freeBytes: freeBytes + usable };
    }
    const host = await hostFreeBytes(this.native, this.options.directory);
    const possible = host < freeBytes ? host : freeBytes;
    return { totalBytes, freeBytes: possible, lacksBacking: this.#unallocated !== null };
  }

  /**
   * Grows the image until `bytes` are free in the pool beyond its reserve. RESOURCE_EXHAUSTED if the host
   * has no room. One call at a time.
   */
  async ensureFree(root: string, bytes: bigint, reservePercent: bigint): Promise<void> {
    for (;;) {
      const missing = await this.missingBytes(root, bytes, reservePercent);
      if (missing <= 0n) return;
      // Growing the pool also grows its reserve.
      const wanted = (missing * 100n) / (USABLE_PERCENT - reservePercent) + 1n;
      const growable = await this.#image.growableBytes();
      const step = wanted < growable ? wanted : growable;
      if (step === 0n || !(await this.#image.grow(step))) {
        throw this.#exhausted(`it needs ${missing} bytes more of free space, and the host has no room`);
      }
      const devicePath = await this.#attach();
      await this.native.run('growFileSystem', { mountPoint: this.mountPoint, devicePath });
    }
  }

  /** Bytes that the pool lacks to have `bytes` free beyond its reserve. RESOURCE_EXHAUSTED as in ensureFree. */
  async missingBytes(root: string, bytes: bigint, reservePercent: bigint): Promise<bigint> {
    if (this.#unallocated !== null) throw this.#exhausted(this.#unallocated);
    const { totalBytes, freeBytes } = await this.native.run('spaceOf', { path: root });
    return bytes + (totalBytes * reservePercent) / 100n - freeBytes;
  }

  /** Attaches the image and returns its device, which has the size of the image. */
  async #attach(): Promise<string> {
    const backingPath = this.#image.path;
    const request = { backingPath, readOnly: false, label: 'blockdelta-pool' };
    const { device } = await this.native.run('loopAttach', request);
    // If a plugin was killed after it grew the file, the device is still smaller.
    await this.native.run('loopResize', { backingPath });
    return device.path;
  }

  async #fill(): Promise<void> {
    this.#unallocated = await this.#image.fill();
    if (this.#unallocated === null) return;
    this.#warn(
      `the host does not hold all of the pool image ${this.#image.path}: ${this.#unallocated}; data written to it ` +
        'is lost when the host is full, and no volume can be created or grown: free space on the host and ' +
        'restart the plugin',
    );
  }

  async #growSparse(): Promise<void> {
    const growable = await this.#image.growableBytes();
    if (growable > 0n) await this.#image.grow(growable);
    this.#warn(
      `the pool image ${this.#image.path} is sparse (BLOCKDELTA_EMBEDDED_POOL_ALLOCATE): when other files fill ` +
        'the host, volumes lose what is written to them, and programs that do not fsync get no error',
    );
  }

  /** If the device cannot refuse discards, the next start allocates what fstrim has punched out. */
  async #refuseDiscards(): Promise<void> {
    try {
      await this.native.run('refuseDiscards', { backingPath: this.#image.path });
    } catch (thrown) {
      const code = errorCode(thrown) ?? 'unknown error';
      this.#warn(
        `the loop device of ${this.#image.path} accepts discards (setting the limit failed: ${code}); do not run fstrim on ${this.mountPoint}`,
      );
    }
  }

  async #warnOfPlace(): Promise<void> {
    const { pool, directory, place = 'any' } = this.options;
    if (place === 'image') return;
    this.#warn(
      `pool '${pool}' is an image, ${await imagePlace(directory)}; BLOCKDELTA_POOLS does not say that this is meant: write ` +
        `${pool}=image:${directory}, or ${pool}=directory:/directory for a mounted XFS or btrfs`,
    );
  }

  #warn(message: string): void {
    this.options.onEvent?.({ level: 'warn', message });
  }

  async #unmount(): Promise<void> {
    const path = await kernelPath(this.mountPoint);
    if (path !== null) await unmountLayers(this.native, path, () => true);
  }

  #exhausted(why: string): CsiError {
    return CsiError.resourceExhausted(
      `the image of pool '${this.options.pool}' has no space for this volume: ${why}; free space on the host, ` +
        'raise BLOCKDELTA_EMBEDDED_POOL_SIZE, or delete volumes or snapshots',
    );
  }

  async #isMounted(devicePath: string): Promise<boolean> {
    const found = mountsAt(await readMountInfo(), this.mountPoint).at(-1);
    if (found === undefined) return false;
    if (found.source === devicePath) return true;
    throw CsiError.failedPrecondition(
      `${this.mountPoint} is the mount point of the pool image ${this.#image.path}, but ${found.source} ` +
        'is mounted there; unmount it',
    );
  }
}
