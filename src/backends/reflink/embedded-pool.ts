/**
 * The pool image for a directory whose file system has no reflink: an own XFS in a sparse file on a
 * loop device, mounted beside it.
 *
 *   <directory>/pool.img       the image; its presence means mkfs had finished
 *   <directory>/pool.img.new   being made; removed at the next start
 *   <directory>/mount          where it is mounted
 *
 * The image never promises more than the host's file system has free when it is made, and capacity
 * is bounded by what the host has free at the moment of asking. Knows nothing of volumes.
 */
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, StatusCode } from '../../errors.js';
import { makePoolFileSystem } from '../../mount/filesystem.js';
import { mount, unmount } from '../../mount/mounter.js';
import { mountsAt, readMountInfo } from '../../mount/mountinfo.js';
import type { NativeRunner } from '../../native/pool.js';
import { hostFreeBytes, imageSpace } from '../host-space.js';
import { releaseLoop } from '../loop-release.js';
import { temporary } from './pool-layout.js';

const MIB = 1n << 20n;
/** mkfs.xfs refuses less than 300 MB; below this a pool is of no use. */
const MINIMUM_IMAGE_BYTES = 512n * MIB;
export class EmbeddedPool {
  readonly image: string;
  readonly mountPoint: string;

  constructor(
    private readonly native: NativeRunner,
    private readonly directory: string,
    /** Upper bound for the image; null: none. */
    private readonly maximumBytes: bigint | null,
  ) {
    this.image = join(directory, 'pool.img');
    this.mountPoint = join(directory, 'mount');
  }

  async exists(): Promise<boolean> {
    const { state } = await this.native.run('fileState', { path: this.image });
    return state !== null;
  }

  /** Makes the image if there is none, attaches and mounts it. Idempotent; killed anywhere, it is called again. */
  async start(): Promise<void> {
    if (!(await this.exists())) await this.#makeImage();
    await mkdir(this.mountPoint, { recursive: true, mode: 0o700 });
    const { device } = await this.native.run('loopAttach', {
      backingPath: this.image,
      readOnly: false,
      label: 'blockdelta-pool',
    });
    if (await this.#isMounted(device.path)) return;
    await mount({
      source: device.path,
      target: this.mountPoint,
      fsType: 'xfs',
      options: ['noatime', 'nodev', 'nosuid', 'noexec'],
    });
  }

  /** Unmounts and detaches if nothing in the pool is in use; otherwise leaves it as it is. */
  async stop(): Promise<void> {
    try {
      await unmount(this.mountPoint);
      await releaseLoop(this.native, this.image);
    } catch (thrown) {
      // Volumes of the pool are attached: they go on without us, and the next start finds the pool mounted.
      if (CsiError.from(thrown).code !== StatusCode.FAILED_PRECONDITION) throw thrown;
    }
  }

  /** Bytes the host can still give to the image as it fills. */
  hostFreeBytes(): Promise<bigint> {
    return hostFreeBytes(this.directory);
  }

  async #isMounted(devicePath: string): Promise<boolean> {
    const found = mountsAt(await readMountInfo(), this.mountPoint).at(-1);
    if (found === undefined) return false;
    if (found.source === devicePath) return true;
    throw CsiError.failedPrecondition(
      `${this.mountPoint} is the mount point of the pool image ${this.image}, and ${found.source} ` +
        'is mounted there; unmount it',
    );
  }

  async #makeImage(): Promise<void> {
    const unfinished = `${this.image}.new`;
    await rm(unfinished, { force: true });
    const sizeBytes = await this.#imageBytes();
    await this.native.run('createSparseFile', {
      temporaryPath: temporary(this.image),
      finalPath: unfinished,
      sizeBytes,
    });
    await makePoolFileSystem(unfinished);
    await this.native.run('flush', { path: unfinished });
    await rename(unfinished, this.image);
    await this.native.run('flush', { path: this.directory });
  }

  async #imageBytes(): Promise<bigint> {
    const possible = await imageSpace(this.directory);
    const wanted =
      this.maximumBytes === null || this.maximumBytes > possible ? possible : this.maximumBytes;
    if (wanted < MINIMUM_IMAGE_BYTES) {
      throw CsiError.failedPrecondition(
        `the pool directory ${this.directory} is on a file system without reflink, so an image is needed; ` +
          `it would have ${wanted} bytes and needs ${MINIMUM_IMAGE_BYTES}: free space there, raise ` +
          'BLOCKDELTA_EMBEDDED_POOL_SIZE, or use a directory on XFS or btrfs',
      );
    }
    return (wanted / MIB) * MIB;
  }
}
