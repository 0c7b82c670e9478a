/**
 * The volumes of a reflink pool: sparse files, and the loop devices they are attached to.
 *
 * Which file is attached is asked of the kernel by device and inode each time. Whatever is asked of a
 * file holds the pool first: in one whose disk is away no file is there, and nothing seems attached.
 * Knows nothing of snapshots but the file to restore from.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { CsiError, errorCode, SystemError } from '../../base/errors.js';
import type { ReleaseWait } from '../../host/device-release.js';
import { mountsAt, mountsOfDevice, readMountInfo } from '../../host/mountinfo.js';
import type { FileState, LoopDevice } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { Attachment, StorageCondition } from '../backend.js';
import { deviceInUse, releaseLoop } from '../loop-release.js';
import { assertWrites, explainFailedWrite, type PoolRoom } from './freeze-failures.js';
import type { HeldDirectories } from './held-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { temporary } from './pool-layout.js';
import { statOrNull } from './pool-space.js';

/** A volume as a cut finds it: its file, and what has to stand still. */
export interface CutSource {
  sourcePath: string;
  loopPath: string | null;
  /** A mount point of its file system; null if none is mounted writable. */
  freezePath: string | null;
}

export type NamedCutSource = CutSource & { volumeId: string };

export class VolumeFiles {
  constructor(
    private readonly native: NativeRunner,
    private readonly pool: string,
    private readonly directory: PoolDirectory,
  ) {}

  /** The real one, for people. */
  path(volumeId: string): string {
    return this.directory.layout.volume(volumeId);
  }

  async create(volumeId: string, sizeBytes: bigint): Promise<void> {
    await this.directory.use(async (held) => {
      const names = await this.#names(held, volumeId, sizeBytes);
      if (names !== null) await this.native.run('createSparseFile', { ...names, sizeBytes });
    });
  }

  /** SCAN_MUTABLE, or ENOENT of the snapshot's file, is thrown as it comes. */
  async restore(volumeId: string, snapshotId: string, sizeBytes: bigint): Promise<void> {
    await this.directory.use(async (held) => {
      const names = await this.#names(held, volumeId, sizeBytes);
      if (names === null) return;
      const sourcePath = held.layout.snapshot(snapshotId);
      await this.native.run('cloneFile', { sourcePath, ...names, sizeBytes });
    });
  }

  async clone(volumeId: string, sourceVolumeId: string, sizeBytes: bigint): Promise<void> {
    const sources: NamedCutSource[] = [];
    try {
      await this.directory.use(async (held) => {
        const names = await this.#names(held, volumeId, sizeBytes);
        if (names === null) return;
        const source = await this.cutSource(held, sourceVolumeId);
        sources.push({ ...source, volumeId: sourceVolumeId });
        await this.assertWrites(held, sources);
        await this.native.run('cloneVolume', { ...source, ...names, sizeBytes });
      });
    } catch (thrown) {
      throw await this.explainCut(thrown, sources);
    }
  }

  async check(volumeId: string, sizeBytes: bigint): Promise<void> {
    const state = await this.directory.use((held) => this.#state(held, volumeId));
    if (state === null) throw this.#lost(volumeId, undefined);
    if (state.regular && state.sizeBytes >= sizeBytes) return;
    const found = state.regular ? `has ${state.sizeBytes} bytes` : 'is not a regular file';
    throw CsiError.failedPrecondition(
      `volume ${volumeId} should have ${sizeBytes} bytes, and its file ${this.path(volumeId)} in pool ` +
        `'${this.pool}' ${found}: it was changed behind the plugin; restore it from a snapshot or a backup`,
    );
  }

  async expand(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    try {
      return await this.directory.use(async (held) => {
        const path = held.layout.volume(volumeId);
        await this.#state(held, volumeId);
        await this.native.run('growFile', { path, sizeBytes });
        // Also when the file had the size already: a kill may have come before the device got it.
        const { device } = await this.native.run('loopResize', { backingPath: path });
        const state = await this.#state(held, volumeId);
        if (state === null) throw this.#lost(volumeId, undefined);
        return device === null ? state.sizeBytes : device.sizeBytes;
      });
    } catch (thrown) {
      throw isMissing(thrown, this.path(volumeId)) ? this.#lost(volumeId, thrown) : thrown;
    }
  }

  async delete(volumeId: string): Promise<void> {
    await this.directory.use(async (held) => {
      await this.#detach(held, volumeId);
      const path = held.layout.volume(volumeId);
      await this.native.run('removeFile', { path: temporary(path) });
      await this.native.run('removeFile', { path });
    });
  }

  async attach(volumeId: string, readOnly: boolean): Promise<Attachment> {
    try {
      return await this.directory.use(async (held) => {
        await this.#state(held, volumeId);
        const backingPath = held.layout.volume(volumeId);
        const request = { backingPath, readOnly, label: volumeId };
        return attachment((await this.native.run('loopAttach', request)).device);
      });
    } catch (thrown) {
      throw this.#explainAttach(volumeId, thrown);
    }
  }

  async detach(volumeId: string, wait?: ReleaseWait): Promise<void> {
    await this.directory.use((held) => this.#detach(held, volumeId, wait));
  }

  async findAttachment(volumeId: string): Promise<Attachment | null> {
    const loop = await this.directory.use((held) => this.#loop(held, volumeId));
    return loop === null ? null : attachment(loop);
  }

  async condition(volumeId: string): Promise<StorageCondition> {
    const path = this.path(volumeId);
    // Lists ask this of every volume, so nothing is held; and the devices of the machine are gone
    // through for lost ones only.
    await this.directory.check();
    const file = await statOrNull(path);
    // The pool may have gone meanwhile, or something may be mounted over it.
    if (file === null) await this.directory.check();
    else this.directory.assertOwn(path, { device: file.dev });
    const runsOnRemoved = file === null && (await isAttachedRemoved(path));
    return { storedBytes: file?.size ?? null, runsOnRemoved };
  }

  async cutSource(held: HeldDirectories, volumeId: string): Promise<CutSource> {
    const loop = await this.#loop(held, volumeId);
    return {
      sourcePath: held.layout.volume(volumeId),
      loopPath: loop?.path ?? null,
      freezePath: loop === null ? null : await writableMount(loop.path),
    };
  }

  /** Lets the volume's file system go on, where a cut that was killed left it frozen. */
  async thaw(volumeId: string): Promise<void> {
    const { freezePath } = await this.directory.use((held) => this.cutSource(held, volumeId));
    if (freezePath !== null) await this.native.run('thaw', { path: freezePath });
  }

  /** Refuses volumes whose file systems have given up writing. */
  async assertWrites(held: HeldDirectories, sources: readonly NamedCutSource[]): Promise<void> {
    const room = this.#room(async () => (await this.directory.space(held)).freeBytes);
    for (const source of sources) await assertWrites(source, room);
  }

  /** What a failed cut of these volumes means. */
  async explainCut(thrown: unknown, sources: readonly NamedCutSource[]): Promise<unknown> {
    if (!(thrown instanceof SystemError)) return thrown;
    const source = sources.find(({ volumeId: id, freezePath, loopPath }) =>
      [this.path(id), freezePath, loopPath].includes(thrown.path),
    );
    const volumeId = source?.volumeId ?? 'of the group';
    if (source !== undefined && isMissing(thrown, this.path(volumeId))) {
      return this.#lost(volumeId, thrown);
    }
    if (thrown.code === 'EBUSY' && thrown.syscall === 'FIFREEZE') {
      return CsiError.failedPrecondition(
        `the file system of volume ${volumeId} at ${source?.freezePath} is frozen by somebody else; ` +
          'thaw it first: the plugin freezes it itself for the moment of the cut',
        { cause: thrown },
      );
    }
    if (thrown.code === 'EBUSY' && thrown.syscall === 'flock') {
      return CsiError.aborted(
        `a tool of an earlier call is still working on volume ${volumeId}, and what it has done so far is ` +
          'no file system; try again when it has ended',
        { cause: thrown },
      );
    }
    if (thrown.code === 'SNAPSHOT_BUSY') {
      return CsiError.failedPrecondition(
        `volume ${volumeId} and another one are being written to and hold no mounted file system that ` +
          'could be frozen, so they cannot be cut at one point in time; pause their writers, or take ' +
          'single snapshots',
        { cause: thrown },
      );
    }
    if (source === undefined) return thrown;
    const room = this.#room(() =>
      this.directory.use(async (held) => (await this.directory.space(held)).freeBytes),
    );
    return (await explainFailedWrite(source, thrown, room)) ?? thrown;
  }

  #room(freeBytes: () => Promise<bigint>): PoolRoom {
    return { pool: this.pool, freeBytes };
  }

  async #loop(held: HeldDirectories, volumeId: string): Promise<LoopDevice | null> {
    await this.#state(held, volumeId);
    const backingPath = held.layout.volume(volumeId);
    return (await this.native.run('loopFind', { backingPath })).device;
  }

  async #detach(held: HeldDirectories, volumeId: string, wait?: ReleaseWait): Promise<void> {
    await this.#state(held, volumeId);
    try {
      await releaseLoop(this.native, held.layout.volume(volumeId), wait);
    } catch (thrown) {
      throw deviceInUse(volumeId, thrown) ?? thrown;
    }
  }

  /** Null if there is no file. FAILED_PRECONDITION if what is there is not the pool's. */
  async #state({ layout }: HeldDirectories, volumeId: string): Promise<FileState | null> {
    const { state } = await this.native.run('fileState', { path: layout.volume(volumeId) });
    if (state !== null) this.directory.assertOwn(this.path(volumeId), state);
    return state;
  }

  /** Of a file to be made; null if it is there already. */
  async #names(
    held: HeldDirectories,
    volumeId: string,
    sizeBytes: bigint,
  ): Promise<{ temporaryPath: string; finalPath: string } | null> {
    const state = await this.#state(held, volumeId);
    const finalPath = held.layout.volume(volumeId);
    if (state === null) return { temporaryPath: temporary(finalPath), finalPath };
    if (state.sizeBytes === sizeBytes) return null;
    throw CsiError.internal(
      `${this.path(volumeId)} has ${state.sizeBytes} bytes where ${sizeBytes} were expected`,
    );
  }

  #lost(volumeId: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `volume ${volumeId} has lost its file ${this.path(volumeId)} in pool '${this.pool}'; ` +
        'restore it from a snapshot or a backup',
      { cause },
    );
  }

  #explainAttach(volumeId: string, thrown: unknown): unknown {
    if (isMissing(thrown, this.path(volumeId))) return this.#lost(volumeId, thrown);
    if (errorCode(thrown) === 'EEXIST') {
      return CsiError.failedPrecondition(
        `volume ${volumeId} is attached with another read-only state; unstage it first`,
        { cause: thrown },
      );
    }
    return thrown;
  }
}

/** Whether a call failed because the file of an object was removed behind our back. */
export function isMissing(thrown: unknown, path: string): boolean {
  return thrown instanceof SystemError && thrown.code === 'ENOENT' && thrown.path === path;
}

function attachment(device: LoopDevice): Attachment {
  return { devicePath: device.path, readOnly: device.readOnly, sizeBytes: device.sizeBytes };
}

/**
 * A mount point of the device whose file system can be written to; any one of them freezes it. A mount
 * that another one covers is none: its path leads to the other one's file system.
 */
export async function writableMount(devicePath: string): Promise<string | null> {
  const { rdev } = await stat(devicePath);
  const mounts = await readMountInfo();
  const found = mountsOfDevice(mounts, rdev).find(
    (entry) => !entry.superReadOnly && mountsAt(mounts, entry.mountPoint).at(-1) === entry,
  );
  return found?.mountPoint ?? null;
}

/** sysfs names a backing file that was unlinked by its last path and this. */
const REMOVED_SUFFIX = ' (deleted)';

/** By the path alone, since the file is gone: good for telling people, not for detaching. */
async function isAttachedRemoved(path: string): Promise<boolean> {
  for (const name of await readdir('/sys/block')) {
    if (!name.startsWith('loop')) continue;
    try {
      const label = await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8');
      if (label.trimEnd() === `${path}${REMOVED_SUFFIX}`) return true;
    } catch (thrown) {
      if (!['ENOENT', 'ENXIO', 'ENODEV'].includes(errorCode(thrown) ?? '')) throw thrown;
    }
  }
  return false;
}
