/**
 * The volumes of a reflink pool: sparse files, and the loop devices they are attached to.
 *
 * The kernel is asked each time which file is attached, by device and inode. Every operation opens the pool's directories
 * first: without the pool's disk, no file would exist and nothing would seem attached. Knows nothing of snapshots but the file
 * to restore from.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { bestEffort, unreported } from '../../../base/best-effort.js';
import { CsiError, errorCode, insteadOf, SystemError } from '../../../base/errors.js';
import { LOOP_MAJOR, mountsAt, mountsOfDevice, rdevOf, readMountInfo } from '../../../base/system/mountinfo.js';
import type { ReleaseWait } from '../../host/device-release.js';
import { thawHeld } from '../../host/left-frozen.js';
import type { FileState, LoopDevice } from '../../native/addon.js';
import type { LookRequest } from '../../native/look-calls.js';
import { type NativeRunner, ofVolume } from '../../native/pool.js';
import type { Attachment, Attachments, AttachOptions, StorageCondition } from '../backend.js';
import {
  brokenFreeze,
  type FreezeRequest,
  type Freezing,
  freezeRequest,
  missingGuardian,
  outlastedFreeze,
} from '../freezing.js';
import { deviceInUse, releaseLoop } from '../loop-release.js';
import { assertWrites, explainFailedWrite, type PoolFreeSpace } from './freeze-failures.js';
import { type CopySource, LastCopies } from './last-copies.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { type PoolLayout, temporary } from './pool-layout.js';

/** The answer of loopFind. */
interface Found {
  device: LoopDevice | null;
  fileDevice: bigint | null;
}

export class VolumeFiles implements Attachments {
  readonly lastCopies: LastCopies;
  /** By volume id, the number of the loop device at the last look. A hint for the next look, which asks the kernel. */
  readonly #hints = new Map<string, number>();

  constructor(
    private readonly native: NativeRunner,
    private readonly pool: string,
    private readonly directory: PoolDirectory,
    readonly freezing: Freezing,
  ) {
    this.lastCopies = new LastCopies(native);
  }

  /** The real path, for messages. */
  path(volumeId: string): string {
    return this.directory.layout.volume(volumeId);
  }

  async create(volumeId: string, sizeBytes: bigint): Promise<void> {
    await this.directory.use(async (opened) => {
      const names = await this.#names(opened, volumeId, sizeBytes);
      if (names !== null) await this.native.run('createSparseFile', { ...names, sizeBytes });
    });
  }

  /** Leaves SCAN_MUTABLE, and ENOENT of the frozen file, for the caller to explain. */
  async restore(volumeId: string, frozen: (layout: PoolLayout) => string, sizeBytes: bigint): Promise<void> {
    await this.directory.use(async (opened) => {
      const names = await this.#names(opened, volumeId, sizeBytes);
      if (names === null) return;
      const sourcePath = frozen(opened.layout);
      await this.native.run('cloneFile', { sourcePath, ...names, sizeBytes }, [volumeId]);
    });
  }

  async clone(volumeId: string, sourceVolumeId: string, sizeBytes: bigint, deadline: number): Promise<void> {
    const freezing = freezeRequest(this.freezing, deadline);
    const sources: CopySource[] = [];
    try {
      await this.directory.use(async (opened) => {
        const names = await this.#names(opened, volumeId, sizeBytes);
        if (names === null) return;
        const source = await this.snapshotSource(opened, sourceVolumeId);
        sources.push({ ...source, volumeId: sourceVolumeId });
        await this.assertCopyable(opened, sources, freezing);
        const copyPath = opened.layout.copyFor(volumeId);
        const request = { ...source, ...names, copyPath, ...freezing, sizeBytes };
        const volumes = [sourceVolumeId, volumeId];
        const { frozenNs } = await this.native.run('cloneVolume', request, volumes);
        await this.lastCopies.succeeded(sources, frozenNs, freezing);
      });
    } catch (thrown) {
      throw await this.explainFailure(thrown, sources, freezing);
    }
  }

  async check(volumeId: string, sizeBytes: bigint): Promise<void> {
    const state = await this.directory.use((opened) => this.#state(opened, volumeId));
    this.#assertWhole(volumeId, state, sizeBytes);
  }

  async expand(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    try {
      return await this.directory.use(async (opened) => {
        const path = opened.layout.volume(volumeId);
        await this.#state(opened, volumeId);
        const native = ofVolume(this.native, volumeId);
        await native.run('growFile', { path, sizeBytes });
        // Even if the file had the size: a kill may have prevented the resize of the device.
        const { device } = await native.run('loopResize', { backingPath: path });
        const state = await this.#state(opened, volumeId);
        if (state === null) throw this.#lost(volumeId, undefined);
        return device === null ? state.sizeBytes : device.sizeBytes;
      });
    } catch (thrown) {
      throw isMissing(thrown, this.path(volumeId)) ? this.#lost(volumeId, thrown) : thrown;
    }
  }

  async delete(volumeId: string): Promise<void> {
    await this.directory.use(async (opened) => {
      await this.#detach(opened, volumeId);
      const path = opened.layout.volume(volumeId);
      await this.native.run('removeFile', { path: temporary(path) });
      await this.native.run('removeFile', { path });
    });
  }

  async attach(volumeId: string, { readOnly, atLeastBytes = 0n }: AttachOptions): Promise<Attachment> {
    try {
      return await this.directory.use(async (opened) => {
        this.#assertWhole(volumeId, await this.#state(opened, volumeId), atLeastBytes);
        const backingPath = opened.layout.volume(volumeId);
        const { device } = await this.native.run('loopAttach', { backingPath, readOnly, label: volumeId });
        this.#hints.set(volumeId, device.number);
        return attachment(device);
      });
    } catch (thrown) {
      throw this.#explainAttach(volumeId, readOnly, thrown);
    }
  }

  async detach(volumeId: string, wait?: ReleaseWait): Promise<void> {
    await this.directory.use((opened) => this.#detach(opened, volumeId, wait));
  }

  async find(volumeId: string): Promise<Attachment | null> {
    const loop = await this.directory.use((opened) => this.#loop(opened, volumeId));
    return loop === null ? null : attachment(loop);
  }

  async findAndLook(volumeId: string, look: LookRequest) {
    const [file, hint] = [basename(this.path(volumeId)), this.#hints.get(volumeId) ?? null];
    const found = await this.directory.useAtOnce((directories) =>
      this.native.run('findAndLook', { ...directories, file, hint, look }),
    );
    if (found === null) return null;
    const device = this.#noted(volumeId, found);
    return { attachment: device && attachment(device), look: found.seen };
  }

  async condition(volumeId: string): Promise<StorageCondition> {
    const path = this.path(volumeId);
    // Called for every volume of a list, so it opens no directories, and searches the node's loop devices
    // only for a volume without a file.
    await this.directory.check();
    const { entry: file } = await this.native.run('entryOf', { path });
    // The pool may have been unmounted meanwhile, or something mounted over it.
    if (file === null) await this.directory.check();
    else this.directory.assertOwn(path, file);
    const runsOnRemoved = file === null && (await isAttachedRemoved(path));
    const lastCopy = await this.lastCopies.condition(volumeId);
    return { storedBytes: file?.sizeBytes ?? null, runsOnRemoved, ...lastCopy };
  }

  async snapshotSource(opened: OpenDirectories, volumeId: string): Promise<Omit<CopySource, 'volumeId'>> {
    const loop = await this.#loop(opened, volumeId);
    return {
      sourcePath: opened.layout.volume(volumeId),
      loopPath: loop?.path ?? null,
      freezePath: loop === null ? null : await writableMount(loop.path),
    };
  }

  /** Thaws the volume's file system if a killed snapshot left it frozen, even if no mount leads to it any more. */
  async thaw(volumeId: string): Promise<void> {
    const { loopPath, freezePath } = await this.directory.use((opened) => this.snapshotSource(opened, volumeId));
    if (freezePath !== null) await this.native.run('thaw', { path: freezePath }, [volumeId]);
    else if (loopPath !== null) await thawHeld(ofVolume(this.native, volumeId), loopPath);
  }

  /** Rejects volumes whose file systems can no longer write, and those whose copy would outlast the freeze. */
  async assertCopyable(
    opened: OpenDirectories,
    sources: readonly CopySource[],
    freezing: FreezeRequest,
  ): Promise<void> {
    const room = this.#room(async () => (await this.directory.space(opened)).freeBytes);
    for (const source of sources) {
      await assertWrites(source, room);
      if (source.freezePath !== null) await this.lastCopies.assertShort(source, freezing);
    }
  }

  /** The error to throw when taking snapshots of these volumes has failed. */
  async explainFailure(thrown: unknown, sources: readonly CopySource[], freezing: FreezeRequest): Promise<unknown> {
    if (!(thrown instanceof SystemError)) return thrown;
    const missing = missingGuardian(thrown, freezing.guardianSocket);
    if (missing !== null) return missing;
    const source = sources.find(({ volumeId: id, sourcePath, freezePath, loopPath }) =>
      [this.path(id), sourcePath, freezePath, loopPath].includes(thrown.path),
    );
    const volumeId = source?.volumeId ?? 'of the group';
    if (source !== undefined && isMissing(thrown, this.path(volumeId))) {
      return this.#lost(volumeId, thrown);
    }
    const broken = brokenFreeze(thrown, volumeId, freezing);
    if (broken !== null) {
      if (source !== undefined && outlastedFreeze(thrown)) {
        await bestEffort(() => this.#rememberLong(volumeId, freezing), unreported);
      }
      return broken;
    }
    if (thrown.code === 'EBUSY' && thrown.syscall === 'flock') {
      return CsiError.aborted(
        `a tool of an earlier call is still working on volume ${volumeId}, whose file system is ` +
          'incomplete until it ends; try again then',
        { cause: thrown },
      );
    }
    if (thrown.code === 'SNAPSHOT_BUSY') {
      return CsiError.failedPrecondition(
        `volume ${volumeId} and another one are being written to and have no mounted file system that ` +
          'could be frozen, so no snapshots can be taken at one point in time; pause their writers, or take ' +
          'single snapshots',
        { cause: thrown },
      );
    }
    if (source === undefined) return thrown;
    const room = this.#room(() => this.directory.use(async (opened) => (await this.directory.space(opened)).freeBytes));
    return (await explainFailedWrite(source, thrown, room)) ?? thrown;
  }

  async #rememberLong(volumeId: string, freezing: FreezeRequest): Promise<void> {
    // The paths of the failed call led through directories that are closed by now.
    await this.directory.use(({ layout }) =>
      this.lastCopies.outlasted({ volumeId, sourcePath: layout.volume(volumeId) }, freezing),
    );
  }

  #room(freeBytes: () => Promise<bigint>): PoolFreeSpace {
    return { pool: this.pool, freeBytes };
  }

  async #loop(opened: OpenDirectories, volumeId: string): Promise<LoopDevice | null> {
    const backingPath = opened.layout.volume(volumeId);
    const hint = this.#hints.get(volumeId) ?? null;
    return this.#noted(volumeId, await this.native.run('loopFind', { backingPath, hint }));
  }

  /** The device that was found. FAILED_PRECONDITION if the file is not in the pool's file system. */
  #noted(volumeId: string, { device, fileDevice }: Found): LoopDevice | null {
    if (fileDevice !== null) this.directory.assertOwn(this.path(volumeId), { device: fileDevice });
    if (device === null) this.#hints.delete(volumeId);
    else this.#hints.set(volumeId, device.number);
    return device;
  }

  async #detach(opened: OpenDirectories, volumeId: string, wait?: ReleaseWait): Promise<void> {
    await this.#state(opened, volumeId);
    try {
      const path = opened.layout.volume(volumeId);
      await releaseLoop(ofVolume(this.native, volumeId), path, wait, this.#hints.get(volumeId));
      this.#hints.delete(volumeId);
    } catch (thrown) {
      throw deviceInUse(volumeId, thrown) ?? thrown;
    }
  }

  #assertWhole(volumeId: string, state: FileState | null, sizeBytes: bigint): void {
    if (state === null) throw this.#lost(volumeId, undefined);
    if (state.regular && state.sizeBytes >= sizeBytes) return;
    const found = state.regular ? `has ${state.sizeBytes} bytes` : 'is not a regular file';
    throw CsiError.failedPrecondition(
      `volume ${volumeId} should have ${sizeBytes} bytes, and its file ${this.path(volumeId)} in pool ` +
        `'${this.pool}' ${found}: another program changed it; restore it from a snapshot or a backup`,
    );
  }

  /** Null if there is no file. FAILED_PRECONDITION if the path leads out of the pool's file system. */
  async #state({ layout }: OpenDirectories, volumeId: string): Promise<FileState | null> {
    const { state } = await this.native.run('fileState', { path: layout.volume(volumeId) });
    if (state !== null) this.directory.assertOwn(this.path(volumeId), state);
    return state;
  }

  /** Names for a file to create; null if it exists with this size. */
  async #names(
    opened: OpenDirectories,
    volumeId: string,
    sizeBytes: bigint,
  ): Promise<{ temporaryPath: string; finalPath: string } | null> {
    const state = await this.#state(opened, volumeId);
    const finalPath = opened.layout.volume(volumeId);
    if (state === null) return { temporaryPath: temporary(finalPath), finalPath };
    if (state.sizeBytes === sizeBytes) return null;
    throw CsiError.internal(`${this.path(volumeId)} has ${state.sizeBytes} bytes where ${sizeBytes} were expected`);
  }

  #lost(volumeId: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `volume ${volumeId} has lost its file ${this.path(volumeId)} in pool '${this.pool}'; ` +
        'restore it from a snapshot or a backup',
      { cause },
    );
  }

  #explainAttach(volumeId: string, readOnly: boolean, thrown: unknown): unknown {
    if (isMissing(thrown, this.path(volumeId))) return this.#lost(volumeId, thrown);
    if (errorCode(thrown) === 'EEXIST') {
      return CsiError.failedPrecondition(
        `volume ${volumeId} is attached ${readOnly ? 'writable' : 'read-only'}; unstage it first`,
        { cause: thrown },
      );
    }
    return thrown;
  }
}

/** Whether a call failed because the object's file does not exist. */
export function isMissing(thrown: unknown, path: string): boolean {
  return thrown instanceof SystemError && thrown.code === 'ENOENT' && thrown.path === path;
}

function attachment({ path, number, readOnly, sizeBytes }: LoopDevice): Attachment {
  return { devicePath: path, rdev: rdevOf(LOOP_MAJOR, number), readOnly, sizeBytes };
}

/**
 * A writable mount point of the device's file system; any of them can freeze it. Ignores a mount that is
 * covered by another, because its path leads to the other file system.
 */
export async function writableMount(devicePath: string): Promise<string | null> {
  const { rdev } = await stat(devicePath);
  const mounts = await readMountInfo();
  const found = mountsOfDevice(mounts, rdev).find(
    (entry) => !entry.superReadOnly && mountsAt(mounts, entry.mountPoint).at(-1) === entry,
  );
  return found?.mountPoint ?? null;
}

/** What sysfs appends to the last path of a backing file that was unlinked. */
const REMOVED_SUFFIX = ' (deleted)';

/** Compares paths, because the file has no inode any more: good enough for a report, not for detaching. */
async function isAttachedRemoved(path: string): Promise<boolean> {
  for (const name of await readdir('/sys/block')) {
    if (!name.startsWith('loop')) continue;
    const label = readFile(`/sys/block/${name}/loop/backing_file`, 'utf8');
    const found = await label.catch(insteadOf(['ENOENT', 'ENXIO', 'ENODEV'], ''));
    if (found.trimEnd() === `${path}${REMOVED_SUFFIX}`) return true;
  }
  return false;
}
