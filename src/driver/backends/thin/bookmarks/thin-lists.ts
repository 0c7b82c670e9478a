/**
 * What a thin pool stores for its change lists (docs/engineering/retained-bases.md): the lists, and the bookmarks of deleted snapshots. A
 * list is made from the trees of both snapshots, or from the bookmark of a deleted base. Does not decide which lists there
 * have to be; list-rules.ts does.
 */
import { CsiError } from '../../../../base/errors.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { ThinDeviceRef } from '../../../native/thin-addon.js';
import type { Unretained } from '../../backend.js';
import { lostSnapshot } from '../../lost-objects.js';
import { DAMAGED, ListDirectory, type ListedPair } from '../../retained/list-directory.js';
import type { HeldSnapshot, StoredList } from '../../retained/list-graph.js';
import type { ListStore, StoredHistory } from '../../retained/list-store.js';
import { assertRetainedDirectories, listsIn } from '../../retained/retained-directories.js';
import { assertOwn, snapshotRecord } from '../device-records.js';
import type { BookmarkRecord, DeviceRecord } from '../ledger/ledger.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import type { MetadataReader } from '../metadata/metadata-reader.js';
import type { ThinPool } from '../pool/thin-pool.js';
import type { Bookmarks } from './bookmarks.js';

export interface ThinListsDependencies {
  native: NativeRunner;
  ledger: AsyncLedger;
  metadata: Pick<MetadataReader, 'device'>;
  bookmarks: Bookmarks;
  metadataPath: string;
  directory: string;
  pool: ThinPool;
}

interface Tree {
  device: ThinDeviceRef;
  /** The pool's time when the snapshot was created. */
  time: number;
}

/** What a list begins at: a snapshot, or the bookmark of a deleted one. */
interface Beginning {
  id: string;
  sizeBytes: bigint;
  device: ThinDeviceRef | null;
  bookmarkPath: string | null;
  time: Tree['time'];
}

/** Nodes that one native call reads: about 0.1 s in memory, or 1.5 s on a disk. */
const STEP_NODES = 65_536;

export class ThinLists implements ListStore {
  readonly lists: ListDirectory;

  constructor(private readonly deps: ThinListsDependencies) {
    const directory = listsIn(deps.directory);
    this.lists = new ListDirectory(
      deps.native,
      async (work) => {
        await assertRetainedDirectories(deps.native, deps.pool.pool, deps.directory);
        return work(directory);
      },
      () => directory,
    );
  }

  async load(): Promise<StoredHistory> {
    const { ledger } = this.deps;
    const devices = (await ledger.devices()).filter(({ kind }) => kind === 'snapshot');
    const held = new Map<string, HeldSnapshot>();
    const losses = new Map<string, string>();
    for (const bookmark of await ledger.bookmarks()) {
      const { snapshotId, invalidReason } = bookmark;
      if (invalidReason === null) held.set(snapshotId, heldBy(bookmark));
      else losses.set(snapshotId, invalidReason);
    }
    const snapshots = new Set(devices.map(({ objectId }) => objectId));
    return { lists: await this.lists.all(), snapshots, held, losses };
  }

  async lacksRoom(): Promise<null> {
    return null;
  }

  async has(snapshotId: string): Promise<boolean> {
    const { ledger } = this.deps;
    if ((await ledger.device(snapshotId)) !== null) return true;
    return (await ledger.bookmark(snapshotId))?.invalidReason === null;
  }

  /** A list cannot end at a bookmark, which says what changed since, and not what was there. */
  async canEnd(snapshotId: string): Promise<boolean> {
    return (await this.deps.ledger.device(snapshotId)) !== null;
  }

  async build(baseId: string, targetId: string): Promise<StoredList> {
    const ends = { baseId, targetId };
    return this.lists.build(ends, await this.#pair(baseId, targetId));
  }

  async isSound(list: StoredList): Promise<boolean> {
    return this.lists.isSound(list, await this.#pair(list.baseId, list.targetId));
  }

  join(older: StoredList, newer: StoredList): Promise<StoredList> {
    return this.lists.join(older, newer);
  }

  remove(list: StoredList): Promise<void> {
    return this.lists.remove(list);
  }

  async lose(list: StoredList): Promise<string> {
    await this.#lose(list, DAMAGED);
    return DAMAGED;
  }

  async hold(snapshotId: string): Promise<HeldSnapshot | Unretained> {
    const { bookmarks, pool } = this.deps;
    const bookmark = await bookmarks.create(snapshotId);
    if (bookmark === null) throw lostSnapshot(snapshotId, pool.pool);
    return heldBy(bookmark);
  }

  async spoiled(snapshotId: string): Promise<string | null> {
    const { ledger, bookmarks } = this.deps;
    const bookmark = await ledger.bookmark(snapshotId);
    return bookmark === null ? null : (bookmark.invalidReason ?? bookmarks.spoiled(bookmark));
  }

  async loseHeld(snapshotId: string, loss: string): Promise<void> {
    await this.deps.ledger.invalidateBookmark(snapshotId, loss);
  }

  async forget(snapshotId: string): Promise<void> {
    await this.deps.bookmarks.drop(snapshotId);
  }

  /** Removes all lists: replaced metadata may give other content to the snapshots that the lists name. */
  async distrust(reason: string): Promise<void> {
    const { lists, snapshots } = await this.load();
    for (const list of lists) {
      if (snapshots.has(list.baseId)) await this.remove(list);
      else await this.#lose(list, reason);
    }
  }

  /** The pool's time when the snapshot was created. */
  async timeOf(snapshot: DeviceRecord): Promise<number> {
    return (await this.#tree(snapshot)).time;
  }

  /** Removes the list and records the reason; an existing bookmark stays as it is. */
  async #lose(list: StoredList, invalidReason: string): Promise<void> {
    const none = { lineage: '', sizeBytes: 0n, creationTime: 0, storedBytes: 0n };
    await this.deps.ledger.insertBookmark({ snapshotId: list.baseId, ...none, invalidReason });
    await this.remove(list);
  }

  async #pair(baseId: string, targetId: string): Promise<ListedPair> {
    const { native, metadataPath: metadata } = this.deps;
    const target = await this.#target(targetId);
    const { time: baseTime, ...base } = await this.#beginning(baseId, target);
    const { sizeBytes, device, time: targetTime } = target;
    const request = { metadata, target: { id: targetId, sizeBytes, device }, base };
    const thin = { targetTime, baseTime };
    return {
      build: (names, progress) => native.run('buildThinList', { ...request, names, maxNodes: STEP_NODES, progress }),
      identity: { sizeBytes, targetId, baseId, target: null, base: null, thin },
    };
  }

  async #target(snapshotId: string): Promise<Target> {
    const record = await snapshotRecord(this.deps, snapshotId);
    return { ...record, ...(await this.#tree(record)) };
  }

  /** Fails as Bookmarks.source does. */
  async #beginning(snapshotId: string, target: Target): Promise<Beginning> {
    const { bookmarks, ledger, pool } = this.deps;
    const device = await ledger.device(snapshotId);
    const bookmark = device === null ? await ledger.bookmark(snapshotId) : null;
    const lineage = device?.lineage ?? bookmark?.lineage;
    if (lineage !== undefined && lineage !== target.lineage) {
      throw CsiError.failedPrecondition(
        `no delta from snapshot ${snapshotId} to ${target.objectId}: the first one is of volume ${lineage}, the ` +
          `target of volume ${target.lineage}; make a full backup`,
      );
    }
    if (device !== null) {
      const { sizeBytes } = device;
      return { id: snapshotId, sizeBytes, bookmarkPath: null, ...(await this.#tree(device)) };
    }
    if (bookmark === null) throw lostSnapshot(snapshotId, pool.pool);
    const { path: bookmarkPath } = await bookmarks.source(snapshotId, target);
    const { sizeBytes, creationTime: time } = bookmark;
    return { id: snapshotId, sizeBytes, device: null, bookmarkPath, time };
  }

  async #tree(snapshot: DeviceRecord): Promise<Tree> {
    const { metadata, pool } = this.deps;
    const found = await metadata.device(snapshot.deviceId);
    const { deviceId, root, creationTime } = assertOwn(snapshot, found, pool);
    return { device: { deviceId, root }, time: creationTime };
  }
}

type Target = DeviceRecord & Tree;

const heldBy = ({ storedBytes, creationTime }: BookmarkRecord): HeldSnapshot => ({
  storedBytes,
  takenAt: BigInt(creationTime),
});
