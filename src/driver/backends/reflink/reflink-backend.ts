/**
 * The reflink backend: a volume is a sparse file on a loop device, a snapshot an immutable FICLONE of it.
 *
 * Uses a directory on XFS or btrfs. Where cloning a test file fails it keeps an XFS image in the directory
 * instead (embedded-pool.ts). This class puts the parts of one pool together; the files beside it do the
 * work. Knows ids, never names or lineage.
 */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError } from '../../../base/errors.js';
import type { ReleaseWait } from '../../host/device-release.js';
import type { FileSystem } from '../../host/file-systems.js';
import { recognizedFileSystem } from '../../host/superblock.js';
import type { ScanSource } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type {
  Attachment,
  Backend,
  PoolCapacity,
  PoolContents,
  PoolKind,
  PoolObject,
  PoolObjectId,
  PoolStatistics,
  RetainedBase,
  RetainedBases,
  SnapshotMember,
  StorageCondition,
  TakenSnapshots,
  Unretained,
} from '../backend.js';
import type { SpacePolicy } from '../pool-account.js';
import { ChangeLists } from './change-lists.js';
import { CommittedSpace } from './committed-space.js';
import { InitializedMarks } from './initialized-marks.js';
import { LowSpaceGuard } from './low-space-guard.js';
import { PoolDirectory, type ReflinkPoolOptions } from './pool-directory.js';
import type { PoolFile } from './pool-files.js';
import { isCopyName, isTemporaryName, temporary } from './pool-layout.js';
import { poolListing } from './pool-listing.js';
import { poolCapacity, poolStatistics, statOrNull } from './pool-space.js';
import { sweepBases } from './retained-contents.js';
import { RetainedLists } from './retained-lists.js';
import { SnapshotFiles } from './snapshot-files.js';
import { SpaceReservations } from './space-reservations.js';
import { VolumeFiles } from './volume-files.js';

export class ReflinkBackend implements Backend {
  readonly pool: string;
  readonly #native: NativeRunner;
  readonly #directory: PoolDirectory;
  readonly #policy: SpacePolicy;
  readonly #volumes: VolumeFiles;
  readonly #snapshots: SnapshotFiles;
  readonly #marks: InitializedMarks;
  readonly #committed: CommittedSpace;
  readonly #reservations: SpaceReservations;
  readonly #lists: ChangeLists;
  readonly #retained: RetainedLists;
  readonly #guard: LowSpaceGuard;
  readonly #storesChanges: boolean;

  constructor(
    native: NativeRunner,
    /** Without `changeLists`, lists are neither used nor made. */
    options: ReflinkPoolOptions & SpacePolicy & { changeLists?: boolean },
  ) {
    const { pool } = options;
    this.pool = pool;
    this.#native = native;
    this.#policy = options;
    this.#directory = new PoolDirectory(native, options);
    this.#volumes = new VolumeFiles(native, pool, this.#directory);
    this.#snapshots = new SnapshotFiles(native, pool, this.#directory, this.#volumes);
    this.#marks = new InitializedMarks(native, this.#directory);
    this.#lists = new ChangeLists(native, this.#directory);
    this.#retained = new RetainedLists(native, this.#directory, this.#snapshots, this.#lists);
    this.#guard = new LowSpaceGuard(pool, this.#directory, this.#retained, options.onEvent);
    this.#storesChanges = options.changeLists ?? false;
    this.#committed = new CommittedSpace(native);
    this.#reservations = new SpaceReservations(this.#committed, this.#directory, options);
  }

  get kind(): PoolKind {
    return this.#directory.usesEmbedded ? 'embedded reflink' : 'reflink';
  }

  async start(expected: 'any' | 'existing' = 'any'): Promise<void> {
    await this.#directory.start(expected);
    this.#reservations.start();
    this.#guard.start();
  }

  async stop(): Promise<void> {
    await this.#guard.stop();
    await this.#reservations.stop();
    await this.#directory.stop();
  }

  identity(): Promise<string> {
    return this.#directory.identity();
  }

  /** Loop devices are a requirement of the plugin as a whole. */
  async checkNode(): Promise<void> {}

  check(): Promise<void> {
    return this.#directory.check();
  }

  createVolume(volumeId: string, sizeBytes: bigint): Promise<void> {
    return this.#reserved(volumeId, sizeBytes, () => this.#volumes.create(volumeId, sizeBytes));
  }

  async restoreVolume(volumeId: string, snapshotId: string, sizeBytes: bigint): Promise<void> {
    try {
      await this.#reserved(volumeId, sizeBytes, () =>
        this.#volumes.restore(volumeId, snapshotId, sizeBytes),
      );
    } catch (thrown) {
      throw this.#snapshots.explain(snapshotId, thrown);
    }
  }

  cloneVolume(volumeId: string, sourceVolumeId: string, sizeBytes: bigint): Promise<void> {
    return this.#reserved(volumeId, sizeBytes, () =>
      this.#volumes.clone(volumeId, sourceVolumeId, sizeBytes),
    );
  }

  async abandonClone(volumeId: string, sourceVolumeId: string): Promise<void> {
    await this.#volumes.thaw(sourceVolumeId);
    await this.deleteVolume(volumeId);
  }

  expandVolume(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    return this.#reserved(volumeId, sizeBytes, () => this.#volumes.expand(volumeId, sizeBytes));
  }

  async deleteVolume(volumeId: string): Promise<void> {
    await this.#volumes.delete(volumeId);
    await this.#marks.remove(volumeId);
  }

  checkVolume(volumeId: string, sizeBytes: bigint): Promise<void> {
    return this.#volumes.check(volumeId, sizeBytes);
  }

  markInitialized(volumeIds: readonly string[]): Promise<void> {
    return this.#marks.set(volumeIds);
  }

  isInitialized(volumeId: string): Promise<boolean> {
    return this.#marks.has(volumeId);
  }

  initializedVolumes(): Promise<ReadonlySet<string>> {
    return this.#marks.all();
  }

  async createSnapshots(members: readonly SnapshotMember[]): Promise<TakenSnapshots> {
    await this.#reservations.makeRoomToRewrite();
    return this.#snapshots.create(members);
  }

  async deleteSnapshot(snapshotId: string): Promise<void> {
    await this.#directory.use(async (opened) => {
      if (await this.#retained.needsFile(opened, snapshotId)) return;
      await this.#snapshots.delete(snapshotId);
      await this.#lists.remove(opened, snapshotId);
      await this.#retained.fileIsGone(opened, snapshotId);
    });
  }

  checkSnapshot(snapshotId: string, sizeBytes: bigint): Promise<void> {
    return this.#snapshots.check(snapshotId, sizeBytes);
  }

  abandonSnapshots(members: readonly SnapshotMember[]): Promise<void> {
    return this.#snapshots.abandon(members);
  }

  attach(volumeId: string, options: { readOnly: boolean }): Promise<Attachment> {
    return this.#volumes.attach(volumeId, options.readOnly);
  }

  detach(volumeId: string, wait?: ReleaseWait): Promise<void> {
    return this.#volumes.detach(volumeId, wait);
  }

  fileSystemIn(object: PoolObjectId): Promise<FileSystem | null> {
    return this.#directory.use(({ layout }) =>
      recognizedFileSystem(
        'volumeId' in object ? layout.volume(object.volumeId) : layout.snapshot(object.snapshotId),
      ),
    );
  }

  findAttachment(volumeId: string): Promise<Attachment | null> {
    return this.#volumes.findAttachment(volumeId);
  }

  condition(volumeId: string): Promise<StorageCondition> {
    return this.#volumes.condition(volumeId);
  }

  capacity(age: 'now' | 'recent' = 'now'): Promise<PoolCapacity> {
    return this.#directory.use(async (opened) => {
      const committedBytes =
        age === 'recent'
          ? await this.#committed.atMost(opened.layout)
          : (await this.#committed.now(opened.layout)).unwritten;
      return poolCapacity(await this.#directory.space(opened), committedBytes, this.#policy);
    });
  }

  statistics(): Promise<PoolStatistics> {
    return this.#directory.use(async (opened) =>
      poolStatistics(
        this.#native,
        opened.layout,
        await this.#directory.space(opened),
        this.#policy,
      ),
    );
  }

  list(): Promise<PoolContents> {
    return this.#directory.use(async (opened) => {
      const found = await poolListing(this.#native, opened, this.#directory.layout);
      return {
        volumes: found.volumes.map(objectOf),
        snapshots: found.snapshots.map(objectOf),
        unknown: found.foreign,
      };
    });
  }

  sweep(): Promise<string[]> {
    return this.#directory.use(async (opened) => {
      const { layout } = opened;
      const swept: string[] = [];
      for (const directory of [layout.volumes, layout.snapshots]) {
        for (const name of (await readdir(directory)).filter(isTemporaryName)) {
          await this.#native.run('removeFile', { path: join(directory, name) });
          swept.push(name);
        }
      }
      for (const name of (await readdir(layout.root)).filter(isCopyName)) {
        await this.#native.run('removeSubvolumeCopy', { path: join(layout.root, name) });
        swept.push(name);
      }
      await this.#marks.sweep(opened);
      await this.#lists.sweep(opened);
      await sweepBases(this.#native, opened);
      await rm(temporary(layout.identityFile), { force: true });
      return swept;
    });
  }

  async retainBase(
    snapshotId: string,
    nextId: string | null,
  ): Promise<RetainedBase | Unretained | null> {
    if (!this.#storesChanges) return { unretained: LISTS_ARE_OFF };
    const retained = await this.#retained.retain(snapshotId, nextId);
    if (nextId === null) this.#guard.start();
    return retained;
  }

  retainedBases(): Promise<RetainedBases> {
    return this.#directory.use((opened) => this.#retained.all(opened));
  }

  dropBase(snapshotId: string): Promise<void> {
    return this.#retained.drop(snapshotId);
  }

  async scanSource(targetId: string, baseId: string | null): Promise<ScanSource> {
    const retained = baseId === null ? null : await this.#fromRetained(targetId, baseId);
    if (retained !== null) return retained;
    const files = await this.#snapshots.scanSource(targetId, baseId);
    if (!this.#storesChanges) return files;
    return (await this.#lists.sourceFor(targetId, baseId, files)) ?? files;
  }

  async storeChanges(
    targetId: string,
    baseId: string | null,
    progress: object | null,
  ): Promise<object | null> {
    if (!this.#storesChanges) return null;
    const files = await this.#snapshots.scanSource(targetId, baseId);
    return this.#lists.step(targetId, baseId, files, progress);
  }

  async joinChanges(snapshotId: string, nextId: string): Promise<void> {
    if (this.#storesChanges) await this.#lists.join(snapshotId, nextId);
  }

  async discardChanges(path: string): Promise<void> {
    if (!(await this.#retained.discard(path))) await this.#lists.discard(path);
  }

  async #holds(snapshotId: string): Promise<boolean> {
    return this.#directory.use(async ({ layout }) => {
      const { state } = await this.#native.run('fileState', { path: layout.snapshot(snapshotId) });
      return state !== null;
    });
  }

  /** Null: the pool holds the base itself, or nothing of it. */
  async #fromRetained(targetId: string, baseId: string): Promise<ScanSource | null> {
    if (await this.#holds(baseId)) return null;
    if ((await this.#retained.find(baseId)) === null) return null;
    const { target } = await this.#snapshots.scanSource(targetId, null);
    if (this.#storesChanges) return this.#retained.sourceFor(targetId, baseId, target);
    throw CsiError.failedPrecondition(
      `no delta from snapshot ${baseId} to ${targetId}: ${LISTS_ARE_OFF}; make a full backup`,
    );
  }

  /** Reserves what the volume's file will grow by, while `make` creates or grows it. */
  async #reserved<T>(volumeId: string, sizeBytes: bigint, make: () => Promise<T>): Promise<T> {
    const known = await this.#directory.use(({ layout }) => statOrNull(layout.volume(volumeId)));
    const more = sizeBytes - (known?.size ?? 0n);
    return more > 0n ? this.#reservations.run(more, make) : make();
  }
}

const LISTS_ARE_OFF = 'change lists are off (BLOCKDELTA_CHANGE_LISTS)';

const objectOf = ({ name, sizeBytes }: PoolFile): PoolObject => ({ id: name, sizeBytes });
