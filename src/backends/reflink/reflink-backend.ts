/**
 * The reflink backend: a volume is a sparse file on a loop device, a snapshot a frozen FICLONE of it.
 *
 * Works in a directory on XFS or btrfs; anywhere else it keeps an XFS image of its own there (see
 * embedded-pool.ts), found out by really cloning a file. Which file is attached is asked of the
 * kernel by device and inode each time. Knows ids, never names or lineage.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, errorCode, SystemError } from '../../errors.js';
import { mountsAt, mountsOfDevice, readMountInfo } from '../../mount/mountinfo.js';
import type { Addon, CutResult, LoopDevice, ScanSource, SnapshotFile } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type {
  Attachment,
  Backend,
  PoolCapacity,
  PoolContents,
  PoolObject,
  SnapshotCut,
  SnapshotMember,
  StorageCondition,
} from '../backend.js';
import { PoolDirectory, type ReflinkPoolOptions } from './pool-directory.js';
import { isObjectName, isTemporaryName, type PoolLayout, temporary } from './pool-layout.js';
import { poolCapacity, type SpacePolicy, statOrNull } from './pool-space.js';

type CutRequest = Parameters<Addon['cutSnapshot']>[0];

export class ReflinkBackend implements Backend {
  readonly pool: string;
  readonly #native: NativeRunner;
  readonly #directory: PoolDirectory;
  readonly #policy: SpacePolicy;

  constructor(native: NativeRunner, options: ReflinkPoolOptions & SpacePolicy) {
    this.#policy = options;
    this.pool = options.pool;
    this.#native = native;
    this.#directory = new PoolDirectory(native, options);
  }

  get #layout(): PoolLayout {
    return this.#directory.layout;
  }

  start(expected: 'any' | 'existing' = 'any'): Promise<void> {
    return this.#directory.start(expected);
  }

  stop(): Promise<void> {
    return this.#directory.stop();
  }

  identity(): Promise<string> {
    return this.#directory.identity();
  }

  check(): Promise<void> {
    return this.#directory.check();
  }

  async createVolume(volumeId: string, sizeBytes: bigint): Promise<void> {
    const path = this.#layout.volume(volumeId);
    if (await this.#isThere(path, sizeBytes)) return;
    await this.#native.run('createSparseFile', {
      temporaryPath: temporary(path),
      finalPath: path,
      sizeBytes,
    });
  }

  async restoreVolume(volumeId: string, snapshotId: string, sizeBytes: bigint): Promise<void> {
    const path = this.#layout.volume(volumeId);
    if (await this.#isThere(path, sizeBytes)) return;
    const sourcePath = this.#layout.snapshot(snapshotId);
    try {
      await this.#native.run('cloneFile', {
        sourcePath,
        temporaryPath: temporary(path),
        finalPath: path,
        sizeBytes,
      });
    } catch (thrown) {
      throw isMissing(thrown, sourcePath) ? this.#lostSnapshot(snapshotId, thrown) : thrown;
    }
  }

  async deleteVolume(volumeId: string): Promise<void> {
    await this.check();
    await this.detach(volumeId);
    await this.#remove(this.#layout.volume(volumeId));
  }

  async createSnapshots(members: readonly SnapshotMember[]): Promise<SnapshotCut> {
    const [member] = members;
    if (member === undefined || members.length > 1) throw CsiError.unimplemented('group snapshots');
    const { volumeId, snapshotId } = member;
    const path = this.#layout.snapshot(snapshotId);
    const loop = await this.#loop(volumeId);
    const cut = await this.#cut(volumeId, {
      sourcePath: this.#layout.volume(volumeId),
      temporaryPath: temporary(path),
      finalPath: path,
      loopPath: loop?.path ?? null,
      freezePath: loop === null ? null : await writableMount(loop.path),
    });
    const { state } = await this.#native.run('fileState', { path });
    if (state === null) throw CsiError.internal(`snapshot ${snapshotId} vanished after its cut`);
    return { creationTimeNs: cut.cutTimeNs, sizesBytes: [state.sizeBytes] };
  }

  async deleteSnapshot(snapshotId: string): Promise<void> {
    await this.check();
    await this.#remove(this.#layout.snapshot(snapshotId));
  }

  async abandonSnapshots(members: readonly SnapshotMember[]): Promise<void> {
    // All of them first: a file system that stands still holds up its users.
    for (const { volumeId } of members) {
      const loop = await this.#loop(volumeId);
      const mountPoint = loop === null ? null : await writableMount(loop.path);
      if (mountPoint !== null) await this.#native.run('thaw', { path: mountPoint });
    }
    for (const { snapshotId } of members) await this.deleteSnapshot(snapshotId);
  }

  async cloneVolume(): Promise<void> {
    throw CsiError.unimplemented('clones');
  }

  async expandVolume(): Promise<bigint> {
    throw CsiError.unimplemented('expansion');
  }

  async condition(volumeId: string): Promise<StorageCondition> {
    const attachment = await this.findAttachment(volumeId);
    const found = await statOrNull(this.#layout.volume(volumeId));
    return { storedBytes: found?.size ?? null, attachment, runsOnRemoved: false };
  }

  async attach(volumeId: string, options: { readOnly: boolean }): Promise<Attachment> {
    try {
      const { device } = await this.#native.run('loopAttach', {
        backingPath: this.#layout.volume(volumeId),
        readOnly: options.readOnly,
        label: volumeId,
      });
      return attachment(device);
    } catch (thrown) {
      throw this.#explainAttach(volumeId, thrown);
    }
  }

  async detach(volumeId: string): Promise<void> {
    try {
      await this.#native.run('loopDetach', { backingPath: this.#layout.volume(volumeId) });
    } catch (thrown) {
      if (errorCode(thrown) !== 'EBUSY') throw thrown;
      throw CsiError.failedPrecondition(
        `volume ${volumeId} is in use: its loop device is mounted or held open; unpublish and unstage it first`,
        { cause: thrown },
      );
    }
  }

  async findAttachment(volumeId: string): Promise<Attachment | null> {
    const loop = await this.#loop(volumeId);
    return loop === null ? null : attachment(loop);
  }

  async capacity(): Promise<PoolCapacity> {
    return poolCapacity(this.#layout, await this.#directory.space(), this.#policy);
  }

  async list(): Promise<PoolContents> {
    const volumes = await this.#objects(this.#layout.volumes);
    const snapshots = await this.#objects(this.#layout.snapshots);
    return {
      volumes: volumes.objects,
      snapshots: snapshots.objects,
      unknown: [...volumes.unknown, ...snapshots.unknown],
    };
  }

  async sweep(): Promise<string[]> {
    const swept: string[] = [];
    for (const directory of [this.#layout.volumes, this.#layout.snapshots]) {
      for (const name of (await readdir(directory)).filter(isTemporaryName)) {
        await this.#native.run('removeFile', { path: join(directory, name) });
        swept.push(name);
      }
    }
    await rm(temporary(this.#layout.identityFile), { force: true });
    return swept;
  }

  async scanSource(targetId: string, baseId: string | null): Promise<ScanSource> {
    return {
      kind: 'files',
      target: await this.#snapshotFile(targetId),
      base: baseId === null ? null : await this.#snapshotFile(baseId),
    };
  }

  /** The object's file, and what a creation that was killed may have left of it. */
  async #remove(path: string): Promise<void> {
    await this.#native.run('removeFile', { path: temporary(path) });
    await this.#native.run('removeFile', { path });
  }

  async #isThere(path: string, sizeBytes: bigint): Promise<boolean> {
    const { state } = await this.#native.run('fileState', { path });
    if (state === null) return false;
    if (state.sizeBytes === sizeBytes) return true;
    throw CsiError.internal(
      `${path} has ${state.sizeBytes} bytes where ${sizeBytes} were expected`,
    );
  }

  async #cut(volumeId: string, request: CutRequest): Promise<CutResult> {
    try {
      return await this.#native.run('cutSnapshot', request);
    } catch (thrown) {
      if (isMissing(thrown, request.sourcePath)) throw this.#lostVolume(volumeId, thrown);
      if (!isFrozenByAnother(thrown)) throw thrown;
      throw CsiError.failedPrecondition(
        `the file system of volume ${volumeId} at ${request.freezePath} is frozen by somebody else; ` +
          'thaw it first: the plugin freezes it itself for the moment of the cut',
        { cause: thrown },
      );
    }
  }

  #lostVolume(volumeId: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `volume ${volumeId} has lost its file ${this.#layout.volume(volumeId)} in pool '${this.pool}'; ` +
        'restore it from a snapshot or a backup',
      { cause },
    );
  }

  #lostSnapshot(snapshotId: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `snapshot ${snapshotId} has lost its file ${this.#layout.snapshot(snapshotId)} in pool ` +
        `'${this.pool}'; make a full backup of another one`,
      { cause },
    );
  }

  /** Asks the pool first: in one whose disk is away no file is there, and so nothing seems attached. */
  async #loop(volumeId: string): Promise<LoopDevice | null> {
    await this.check();
    const backingPath = this.#layout.volume(volumeId);
    return (await this.#native.run('loopFind', { backingPath })).device;
  }

  #explainAttach(volumeId: string, thrown: unknown): unknown {
    const code = errorCode(thrown);
    if (code === 'ENOENT') return this.#lostVolume(volumeId, thrown);
    if (code === 'EEXIST') {
      return CsiError.failedPrecondition(
        `volume ${volumeId} is attached with another read-only state; unstage it first`,
        { cause: thrown },
      );
    }
    return thrown;
  }

  async #objects(directory: string): Promise<{ objects: PoolObject[]; unknown: string[] }> {
    const objects: PoolObject[] = [];
    const unknown: string[] = [];
    for (const name of await readdir(directory)) {
      const path = join(directory, name);
      if (isTemporaryName(name)) continue;
      const found = await statOrNull(path);
      if (found === null) continue;
      if (isObjectName(name) && found.isFile()) objects.push({ id: name, sizeBytes: found.size });
      else unknown.push(path);
    }
    return { objects, unknown };
  }

  async #snapshotFile(snapshotId: string): Promise<SnapshotFile> {
    const path = this.#layout.snapshot(snapshotId);
    const { state } = await this.#native.run('fileState', { path });
    if (state === null) throw this.#lostSnapshot(snapshotId, undefined);
    return { path, device: state.device, inode: state.inode, sizeBytes: state.sizeBytes };
  }
}

/** Whether a call failed because the file of an object was removed behind our back. */
function isMissing(thrown: unknown, path: string): boolean {
  return thrown instanceof SystemError && thrown.code === 'ENOENT' && thrown.path === path;
}

function isFrozenByAnother(thrown: unknown): boolean {
  return thrown instanceof SystemError && thrown.code === 'EBUSY' && thrown.syscall === 'FIFREEZE';
}

function attachment(device: LoopDevice): Attachment {
  return { devicePath: device.path, readOnly: device.readOnly, sizeBytes: device.sizeBytes };
}

/**
 * A mount point of the device whose file system can be written to; any one of them freezes it. A mount
 * that another one covers is none: its path leads to the other one's file system.
 */
async function writableMount(devicePath: string): Promise<string | null> {
  const { rdev } = await stat(devicePath);
  const mounts = await readMountInfo();
  const found = mountsOfDevice(mounts, rdev).find(
    (entry) => !entry.superReadOnly && mountsAt(mounts, entry.mountPoint).at(-1) === entry,
  );
  return found?.mountPoint ?? null;
}
