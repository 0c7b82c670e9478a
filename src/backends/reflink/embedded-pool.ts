/**
 * The pool for a directory whose file system has no reflink: an own XFS in an image on a loop device,
 * mounted beside it.
 *
 *   <directory>/pool.img       the image (pool-image.ts); its presence means mkfs had finished
 *   <directory>/pool.img.new   being made; removed at the next start
 *   <directory>/mount          where it is mounted
 *
 * Knows nothing of volumes, only how much of the pool has to be free.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, errorCode, StatusCode } from '../../base/errors.js';
import { mount, unmount } from '../../host/mounter.js';
import { mountsAt, readMountInfo } from '../../host/mountinfo.js';
import type { NativeRunner } from '../../native/pool.js';
import type { OnEvent } from '../events.js';
import { hostFreeBytes } from '../host-space.js';
import { releaseLoop } from '../loop-release.js';
import type { PoolSpace } from '../pool-account.js';
import { type ImageAllocation, PoolImage } from './pool-image.js';
import { poolUsage } from './pool-space.js';

/** Of what the image grows by, in percent: the least that XFS leaves free of it. */
const USABLE_PERCENT = 97n;

export interface EmbeddedPoolOptions {
  pool: string;
  directory: string;
  /** Upper bound for the image; null: what the host can hold. */
  embeddedPoolBytes: bigint | null;
  /** Without it: full. */
  embeddedPoolAllocation?: ImageAllocation;
  onEvent?: OnEvent;
}

export class EmbeddedPool {
  readonly mountPoint: string;
  readonly #image: PoolImage;
  readonly #allocation: ImageAllocation;
  /** Why the host does not hold the whole image; null: it does. */
  #lack: string | null = null;

  constructor(
    private readonly native: NativeRunner,
    private readonly options: EmbeddedPoolOptions,
  ) {
    const { directory, embeddedPoolBytes, embeddedPoolAllocation } = options;
    this.#allocation = embeddedPoolAllocation ?? 'full';
    this.#image = new PoolImage(native, directory, embeddedPoolBytes, this.#allocation);
    this.mountPoint = join(directory, 'mount');
  }

  /** Whether the image has to grow before more is promised. */
  get grows(): boolean {
    return this.#allocation === 'full';
  }

  exists(): Promise<boolean> {
    return this.#image.exists();
  }

  /** Makes the image if there is none, attaches and mounts it. Idempotent; killed anywhere, it is called again. */
  async start(): Promise<void> {
    if (!(await this.exists())) await this.#image.make();
    if (this.grows) await this.#fill();
    else await this.#growSparse();
    await mkdir(this.mountPoint, { recursive: true, mode: 0o700 });
    const devicePath = await this.#attach();
    if (this.grows) await this.#refuseDiscards();
    if (!(await this.#isMounted(devicePath))) {
      await mount({
        source: devicePath,
        target: this.mountPoint,
        fsType: 'xfs',
        options: ['noatime', 'nodev', 'nosuid', 'noexec'],
      });
    }
    await this.native.run('growFileSystem', { mountPoint: this.mountPoint, devicePath });
  }

  /** Unmounts and detaches if nothing in the pool is in use; otherwise leaves it as it is. */
  async stop(): Promise<void> {
    try {
      await unmount(this.mountPoint);
      await releaseLoop(this.native, this.#image.path);
    } catch (thrown) {
      // Volumes of the pool are attached: they go on without us, and the next start finds the pool mounted.
      if (CsiError.from(thrown).code !== StatusCode.FAILED_PRECONDITION) throw thrown;
    }
  }

  /**
   * What the pool has, and what it can become. Of a full image, what can be promised is there or can be
   * taken from the host first; of a sparse one nothing is sure but what the host has free now. `root` leads to the pool.
   */
  async space(root: string): Promise<PoolSpace> {
    const { totalBytes, freeBytes } = await poolUsage(root);
    if (this.grows && this.#lack === null) {
      const growable = await this.#image.growableBytes();
      const usable = (growable * USABLE_PERCENT) / 100n;
      return { totalBytes: totalBytes + growable, freeBytes: freeBytes + usable };
    }
    const host = await hostFreeBytes(this.options.directory);
    const possible = host < freeBytes ? host : freeBytes;
    return { totalBytes, freeBytes: possible, lacksPromised: this.#lack !== null };
  }

  /**
   * Has that much free in the pool, less than its reserve, before more is promised: grows the image if
   * it must. RESOURCE_EXHAUSTED if the host has no room for that. One call at a time.
   */
  async holdFree(root: string, bytes: bigint, reservePercent: bigint): Promise<void> {
    if (this.#lack !== null) throw this.#exhausted(this.#lack);
    for (;;) {
      const { totalBytes, freeBytes } = await poolUsage(root);
      const missing = bytes + (totalBytes * reservePercent) / 100n - freeBytes;
      if (missing <= 0n) return;
      // A growth adds to what has to be kept in reserve as well.
      const wanted = (missing * 100n) / (USABLE_PERCENT - reservePercent) + 1n;
      const growable = await this.#image.growableBytes();
      const step = wanted < growable ? wanted : growable;
      if (step === 0n || !(await this.#image.grow(step))) {
        throw this.#exhausted(
          `${missing} bytes more have to be free in it, and the host has no room`,
        );
      }
      const devicePath = await this.#attach();
      await this.native.run('growFileSystem', { mountPoint: this.mountPoint, devicePath });
    }
  }

  /** The image's device, as large as the image. */
  async #attach(): Promise<string> {
    const backingPath = this.#image.path;
    const request = { backingPath, readOnly: false, label: 'blockdelta-pool' };
    const { device } = await this.native.run('loopAttach', request);
    // A plugin that was killed may have left it smaller.
    await this.native.run('loopResize', { backingPath });
    return device.path;
  }

  async #fill(): Promise<void> {
    this.#lack = await this.#image.fill();
    if (this.#lack === null) return;
    this.#warn(
      `the host does not hold all of the pool image ${this.#image.path}: ${this.#lack}; data in it is lost when ` +
        'the host is full, and nothing more is promised to volumes: free space on the host and restart the plugin',
    );
  }

  async #growSparse(): Promise<void> {
    const growable = await this.#image.growableBytes();
    if (growable > 0n) await this.#image.grow(growable);
    this.#warn(
      `the pool image ${this.#image.path} is sparse (BLOCKDELTA_EMBEDDED_POOL_ALLOCATE): when other files fill ` +
        'the host, volumes lose what is written to them, without an error to whoever does not fsync',
    );
  }

  /** Where that is not possible, the next start gives back what fstrim has taken. */
  async #refuseDiscards(): Promise<void> {
    try {
      await this.native.run('refuseDiscards', { backingPath: this.#image.path });
    } catch (thrown) {
      const code = errorCode(thrown) ?? 'unknown error';
      this.#warn(
        `the device of ${this.#image.path} takes discards (${code}): do not run fstrim on ${this.mountPoint}`,
      );
    }
  }

  #warn(message: string): void {
    this.options.onEvent?.({ level: 'warn', message });
  }

  #exhausted(why: string): CsiError {
    return CsiError.resourceExhausted(
      `the image of pool '${this.options.pool}' cannot hold more promises: ${why}; free space on the host, ` +
        'raise BLOCKDELTA_EMBEDDED_POOL_SIZE, or delete volumes or snapshots',
    );
  }

  async #isMounted(devicePath: string): Promise<boolean> {
    const found = mountsAt(await readMountInfo(), this.mountPoint).at(-1);
    if (found === undefined) return false;
    if (found.source === devicePath) return true;
    throw CsiError.failedPrecondition(
      `${this.mountPoint} is the mount point of the pool image ${this.#image.path}, and ${found.source} ` +
        'is mounted there; unmount it',
    );
  }
}
