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
  UnfinishedList,
  Unretained,
} from '../backend.js';
import type { DirectoryFile } from '../directory-files.js';
import type { SpacePolicy } from '../pool-account.js';
import { ListRules } from '../retained/list-rules.js';
import { directScan, listScan, type SnapshotScan } from '../snapshot-scan.js';
import { CommittedSpace } from './committed-space.js';
import { InitializedMarks } from './initialized-marks.js';
import { ListFiles } from './list-files.js';
import { ListMaker } from './list-maker.js';
import { LowSpaceGuard } from './low-space-guard.js';
import { PoolDirectory, type ReflinkPoolOptions } from './pool-directory.js';
import { isCopyName, isTemporaryName, temporary } from './pool-layout.js';
import { poolListing } from './pool-listing.js';
import { poolCapacity, poolStatistics, statOrNull } from './pool-space.js';
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
  readonly #stored: ListFiles;
  readonly #maker: ListMaker;
  readonly #rules: ListRules;
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
    this.#stored = new ListFiles(native, this.#directory, this.#snapshots);
    this.#rules = new ListRules(this.#stored, pool);
    this.#maker = new ListMaker({
      native,
      directory: this.#directory,
      files: this.#stored,
      onMade: (list) => this.#rules.made(list),
    });
    this.#guard = new LowSpaceGuard(
      pool,
      this.#directory,
      this.#rules,
      this.#stored,
      options.onEvent,
    );
    this.#storesChanges = options.changeLists ?? false;
    this.#committed = new CommittedSpace(native);
    this.#reservations = new SpaceReservations(this.#committed, this.#directory, options);
  }

  get kind(): PoolKind {
    return this.#directory.usesEmbedded ? 'embedded reflink' : 'reflink';
  }

  async start(expected: 'any' | 'existing' = 'any'): Promise<void> {
    await this.#directory.start(expected);
    await this.#rules.load();
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
    if (this.#rules.needsHeld(snapshotId)) return;
    await this.#directory.use((opened) => this.#stored.removeSnapshot(opened, snapshotId));
    await this.#rules.removed(snapshotId);
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
      await this.#stored.sweep(opened);
      await rm(temporary(layout.identityFile), { force: true });
      return swept;
    });
  }

  async retainBase(
    snapshotId: string,
    nextId: string | null,
  ): Promise<RetainedBase | Unretained | null> {
    if (!this.#storesChanges) return { unretained: LISTS_ARE_OFF };
    const retained = await this.#rules.retain(snapshotId, nextId);
    if (nextId === null) this.#guard.start();
    return retained;
  }

  async retainedBases(snapshotIds?: readonly string[]): Promise<RetainedBases> {
    return this.#rules.all(snapshotIds);
  }

  pendingBases(): ReadonlyMap<string, unknown> {
    return this.#rules.held;
  }

  dropBase(snapshotId: string): Promise<void> {
    return this.#rules.drop(snapshotId);
  }

  neededFor(targetId: string, baseId: string): string | null {
    return this.#storesChanges ? this.#rules.neededFor(targetId, baseId) : null;
  }

  async scan(targetId: string, baseId: string | null): Promise<SnapshotScan> {
    const isGone = baseId !== null && this.#rules.isGone(baseId);
    const files = await this.#snapshots.files(targetId, isGone ? null : baseId);
    if (isGone && !this.#storesChanges) {
      throw CsiError.failedPrecondition(
        `no delta from snapshot ${baseId} to ${targetId}: ${LISTS_ARE_OFF}; make a full backup`,
      );
    }
    const { target, base } = files;
    const { sizeBytes } = target;
    const sizes = { targetBytes: sizeBytes, baseBytes: base?.sizeBytes ?? null };
    const paths = this.#storesChanges ? await this.#listPaths(targetId, baseId) : null;
    if (paths === null) return directScan(files, { ...sizes, wantsList: true });
    return listScan({
      ...sizes,
      source: { kind: 'lists', sizeBytes, paths, targetId, baseId, target, base, thin: null },
      discard: (path) => this.#discard(path),
      direct: isGone ? null : directScan(files, sizes),
      again: () => this.scan(targetId, baseId),
    });
  }

  async #listPaths(targetId: string, baseId: string | null): Promise<string[] | null> {
    if (baseId !== null) {
      const lists = await this.#rules.listsFor(targetId, baseId);
      return lists?.map((list) => this.#stored.lists.path(list)) ?? null;
    }
    const path = this.#stored.allocatedPath(targetId);
    return (await this.#stored.head(path)) === null ? null : [path];
  }

  async beginList(targetId: string, baseId: string | null): Promise<UnfinishedList | null> {
    if (!this.#storesChanges) return null;
    const isStored =
      baseId === null
        ? (await this.#stored.head(this.#stored.allocatedPath(targetId))) !== null
        : this.#rules.isStored(baseId, targetId);
    if (isStored || (await this.#stored.lacksRoom()) !== null) return null;
    return this.#maker.begin(targetId, baseId, await this.#snapshots.files(targetId, baseId));
  }

  async joinChanges(snapshotId: string, nextId: string): Promise<void> {
    if (this.#storesChanges) await this.#rules.bridge(snapshotId, nextId);
  }

  async #discard(path: string): Promise<void> {
    const ends = this.#stored.lists.endsOf(path);
    if (ends !== null) await this.#rules.discard(ends);
    else await this.#stored.discardAllocated(path);
  }

  /** Reserves what the volume's file will grow by, while `make` creates or grows it. */
  async #reserved<T>(volumeId: string, sizeBytes: bigint, make: () => Promise<T>): Promise<T> {
    const known = await this.#directory.use(({ layout }) => statOrNull(layout.volume(volumeId)));
    const more = sizeBytes - (known?.size ?? 0n);
    return more > 0n ? this.#reservations.run(more, make) : make();
  }
}

const LISTS_ARE_OFF = 'change lists are off (BLOCKDELTA_CHANGE_LISTS)';

const objectOf = ({ name, sizeBytes }: DirectoryFile): PoolObject => ({ id: name, sizeBytes });
