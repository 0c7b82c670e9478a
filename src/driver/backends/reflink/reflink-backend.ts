/**
 * The reflink backend: a volume is a sparse file on a loop device, and a snapshot is an immutable FICLONE of it.
 *
 * Uses a directory on XFS or btrfs. Where the clone of a test file fails, it keeps an XFS image in the directory instead
 * (embedded-pool.ts). This class puts the parts of one pool together; the files beside it do the work. Knows ids, never names
 * or lineage.
 */
import { join } from 'node:path';
import type { NativeRunner } from '../../native/pool.js';
import type {
  Attachments,
  Backend,
  PoolBases,
  PoolCapacity,
  PoolContents,
  PoolKind,
  PoolSnapshots,
  PoolStatistics,
} from '../backend.js';
import { entriesIn, filesIn, namesIn, unlink } from '../directory-files.js';
import { DEFAULT_FREEZING, type Freezing } from '../freezing.js';
import type { SpacePolicy } from '../pool-account.js';
import { ListRules } from '../retained/list-rules.js';
import { sweepAtStart } from '../start-sweep.js';
import { CommittedSpace } from './committed-space.js';
import { InitializedMarks } from './initialized-marks.js';
import { ListFiles } from './list-files.js';
import { ListMaker } from './list-maker.js';
import { LowSpaceGuard } from './low-space-guard.js';
import { PoolDirectory, type ReflinkPoolOptions } from './pool-directory.js';
import { isCopyName, isTemporaryName, temporary } from './pool-layout.js';
import { poolListing } from './pool-listing.js';
import { bytesOf, poolCapacity, poolStatistics } from './pool-space.js';
import { LISTS_ARE_OFF, ReflinkChanges } from './reflink-changes.js';
import { ReflinkVolumes } from './reflink-volumes.js';
import { ReplicaFiles } from './replica-files.js';
import { SnapshotFiles } from './snapshot-files.js';
import { SpaceReservations } from './space-reservations.js';
import { VolumeFiles } from './volume-files.js';

export class ReflinkBackend implements Backend {
  readonly pool: string;
  readonly volumes: ReflinkVolumes;
  readonly snapshots: PoolSnapshots;
  readonly attachments: Attachments;
  readonly marks: InitializedMarks;
  readonly bases: PoolBases;
  readonly changes: ReflinkChanges;
  readonly replicas: ReplicaFiles;
  readonly #native: NativeRunner;
  readonly #directory: PoolDirectory;
  readonly #options: SpacePolicy & Pick<ReflinkPoolOptions, 'onEvent'>;
  readonly #committed: CommittedSpace;
  readonly #reservations: SpaceReservations;
  readonly #lists: ListFiles;
  readonly #rules: ListRules;
  readonly #guard: LowSpaceGuard;

  constructor(
    native: NativeRunner,
    /** Without `changeLists`, lists are neither used nor made. */
    options: ReflinkPoolOptions & SpacePolicy & { changeLists?: boolean; freezing?: Freezing },
  ) {
    const { pool, changeLists: storesLists = false, freezing = DEFAULT_FREEZING } = options;
    const directory = new PoolDirectory(native, options);
    const volumes = new VolumeFiles(native, pool, directory, freezing);
    const snapshots = new SnapshotFiles(native, pool, directory, volumes);
    const lists = new ListFiles(native, directory, snapshots);
    const rules = new ListRules(lists, pool, options.onEvent);
    const onMade: ListRules['made'] = (list) => rules.made(list);
    const maker = new ListMaker({ native, directory, files: lists, onMade });
    const committed = new CommittedSpace(native);
    const reservations = new SpaceReservations(committed, directory, options);
    const guard = new LowSpaceGuard(pool, directory, rules, lists, options.onEvent);
    this.pool = pool;
    this.#native = native;
    this.#directory = directory;
    this.#options = options;
    this.#committed = committed;
    this.#reservations = reservations;
    this.#lists = lists;
    this.#rules = rules;
    this.#guard = guard;
    this.attachments = volumes;
    this.marks = new InitializedMarks(native, directory);
    this.replicas = new ReplicaFiles(native, pool, directory, reservations);
    const { marks, replicas } = this;
    this.volumes = new ReflinkVolumes({
      directory,
      files: volumes,
      snapshots,
      replicas,
      marks,
      reservations,
    });
    this.changes = new ReflinkChanges({ snapshots, files: lists, rules, maker, storesLists });
    this.snapshots = {
      create: async (members, deadline) => {
        await reservations.makeRoomToRewrite();
        return snapshots.create(members, deadline);
      },
      delete: async (snapshotId) => {
        if (rules.needsHeld(snapshotId)) return;
        await directory.use((opened) => lists.removeSnapshot(opened, snapshotId));
        await rules.removed(snapshotId);
      },
      check: (snapshotId, sizeBytes) => snapshots.check(snapshotId, sizeBytes),
      open: (snapshotId) => snapshots.open(snapshotId),
    };
    this.bases = {
      retain: async (snapshotId, nextId) => {
        if (!storesLists) return { unretained: LISTS_ARE_OFF };
        const retained = await rules.retain(snapshotId, nextId);
        if (nextId === null) guard.start();
        return retained;
      },
      all: (snapshotIds) => rules.all(snapshotIds),
      get held() {
        return rules.held;
      },
      drop: (snapshotId) => rules.drop(snapshotId),
    };
  }

  get kind(): PoolKind {
    return this.#directory.usesEmbedded ? 'embedded reflink' : 'reflink';
  }

  async start(expected: 'any' | 'existing' = 'any', claim?: (uuid: string) => Promise<unknown>): Promise<string[]> {
    await this.#directory.start(expected);
    await this.check();
    const uuid = await this.#directory.identity();
    await claim?.(uuid);
    await this.#rules.load();
    const swept = await sweepAtStart(this.pool, this.#options.onEvent, () => this.#sweep());
    this.#reservations.start();
    this.#guard.start();
    return swept;
  }

  async stop(): Promise<void> {
    await this.#guard.pause();
    await this.#reservations.pause();
    await this.#directory.stop();
  }

  /** Does not check for loop devices, which the plugin as a whole requires. */
  check(): Promise<void> {
    return this.#directory.use((opened) => this.#directory.assertRetained(opened));
  }

  capacity(age: 'now' | 'recent' = 'now'): Promise<PoolCapacity> {
    return this.#directory.use(async (opened) => {
      const committedBytes =
        age === 'recent'
          ? await this.#committed.atMost(opened.layout)
          : (await this.#committed.now(opened.layout)).unwritten;
      return poolCapacity(await this.#directory.space(opened), committedBytes, this.#options);
    });
  }

  statistics(): Promise<PoolStatistics> {
    return this.#directory.use(async (opened) =>
      poolStatistics(this.#native, opened.layout, await this.#directory.space(opened), this.#options),
    );
  }

  list(sizes: 'all' | 'volumes' = 'all'): Promise<PoolContents> {
    return this.#directory.use(async (opened) => {
      // A killed call may have given a file its name without making the name durable.
      await this.#native.run('flush', { path: opened.layout.volumes });
      await this.#native.run('flush', { path: opened.layout.snapshots });
      const looked = this.#committed.looking();
      const look = { native: this.#native, opened, named: this.#directory.layout };
      const found = await (sizes === 'all' ? poolListing(look, filesIn) : poolListing(look, entriesIn));
      looked(bytesOf(found.volumes));
      return {
        volumes: found.volumes.map(objectOf),
        snapshots: found.snapshots.map(objectOf),
        unknown: found.foreign,
      };
    });
  }

  #sweep(): Promise<string[]> {
    return this.#directory.use(async (opened) => {
      const { layout } = opened;
      const swept: string[] = [];
      const snapshots = await namesIn(this.#native, layout.snapshots);
      for (const [directory, names] of [
        [layout.volumes, await namesIn(this.#native, layout.volumes)],
        [layout.snapshots, snapshots],
      ] as const) {
        for (const name of names.filter(isTemporaryName)) {
          await this.#native.run('removeFile', { path: join(directory, name) });
          swept.push(name);
        }
      }
      for (const name of (await namesIn(this.#native, layout.root)).filter(isCopyName)) {
        await this.#native.run('removeSubvolumeCopy', { path: join(layout.root, name) });
        swept.push(name);
      }
      await this.#lists.sweep(opened, snapshots);
      await unlink(this.#native, temporary(layout.identityFile));
      return swept;
    });
  }
}

const objectOf = <S extends bigint | undefined>({ name, sizeBytes }: { name: string; sizeBytes?: S }) => ({
  id: name,
  sizeBytes: sizeBytes as S,
});
