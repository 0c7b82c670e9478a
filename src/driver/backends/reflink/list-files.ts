/**
 * What a reflink pool stores for deltas, beside its snapshots (docs/engineering/change-lists.md): the marks of deleted snapshots
 * (deleted-marks.ts) and, in the directory `lists`, the change lists (list-directory.ts) and these files:
 *
 *   <snapshot>.allocated       which ranges hold data
 *   <snapshot>.map             the extents of the newest snapshot of a volume, on XFS only
 *
 * Does not decide which lists there have to be; list-rules.ts does.
 */
import { basename, join } from 'node:path';
import { CsiError, SystemError } from '../../../base/errors.js';
import type { FileState } from '../../native/addon.js';
import type { ChangeListHead } from '../../native/change-list-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { Unretained } from '../backend.js';
import { namesIn, unlink } from '../directory-files.js';
import { LISTS_FREE_PERCENT, lowWater } from '../pool-levels.js';
import { DAMAGED, ListDirectory, type ListedPair, listName } from '../retained/list-directory.js';
import type { HeldSnapshot, StoredList } from '../retained/list-graph.js';
import type { ListStore, StoredHistory } from '../retained/list-store.js';
import { listsIn } from '../retained/retained-directories.js';
import {
  changeMark,
  hasOwnMarks,
  makeMarks,
  markPath,
  marksIn,
  removeMarks,
  setMark,
  sweepMarks,
} from './deleted-marks.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { isObjectName } from './pool-layout.js';
import type { SnapshotFiles } from './snapshot-files.js';

/** Extents that one step reads: 50 ms for the maps of shared files on XFS. */
export const STEP_EXTENTS = 32768;

/** The suffixes of a snapshot's own files. */
const OWN_KINDS = ['.allocated', '.map'];

/** Why no delta can begin at a deleted snapshot, as a clause that follows "because". */
const LOSSES = {
  dropped: 'its blocks were freed when the pool was running out of space',
  lost: DAMAGED,
  changed: 'its file was changed by another program',
};

export class ListFiles implements ListStore {
  readonly lists: ListDirectory;

  constructor(
    private readonly native: NativeRunner,
    private readonly directory: PoolDirectory,
    private readonly snapshots: SnapshotFiles,
  ) {
    this.lists = new ListDirectory(
      native,
      (work) => directory.use(({ layout: { root } }) => work(listsIn(root))),
      () => listsIn(directory.layout.root),
    );
  }

  load(): Promise<StoredHistory> {
    return this.directory.use(async (opened) => {
      // Other names in the directory are those of no snapshot in a list.
      const snapshots = new Set(await namesIn(this.native, opened.layout.snapshots));
      const held = new Map<string, HeldSnapshot>();
      const losses = new Map<string, string>();
      for (const [id, mark] of await marksIn(opened)) {
        if (mark !== 'hidden') losses.set(id, LOSSES[mark]);
        else if (snapshots.delete(id)) held.set(id, await this.#heldFile(opened, id));
      }
      return { lists: await this.lists.all(), snapshots, held, losses };
    });
  }

  lacksRoom(): Promise<string | null> {
    return this.directory.use(async (opened) => {
      const { totalBytes, freeBytes } = await this.directory.space(opened);
      if (freeBytes * 100n > totalBytes * LISTS_FREE_PERCENT) return null;
      return `at most ${LISTS_FREE_PERCENT} % of its pool are free`;
    });
  }

  async has(snapshotId: string): Promise<boolean> {
    return (await this.#state(snapshotId)) !== null;
  }

  canEnd(snapshotId: string): Promise<boolean> {
    return this.has(snapshotId);
  }

  async build(baseId: string, targetId: string): Promise<StoredList> {
    const ends = { baseId, targetId };
    return this.lists.build(ends, await this.#pair(baseId, targetId));
  }

  /**
   * An interrupted deletion has removed the immutable flag of the base, after it read the list. The list is then not compared
   * with the base's file any more: the list stays true of the base as it was.
   */
  async isSound(list: StoredList): Promise<boolean> {
    const { identity, ...pair } = await this.#pair(list.baseId, list.targetId);
    const base = (await this.#state(list.baseId))?.immutable === true ? identity.base : null;
    return this.lists.isSound(list, { ...pair, identity: { ...identity, base } });
  }

  join(older: StoredList, newer: StoredList): Promise<StoredList> {
    return this.lists.join(older, newer);
  }

  remove(list: StoredList): Promise<void> {
    return this.lists.remove(list);
  }

  lose(list: StoredList): Promise<string> {
    return this.directory.use(async (opened) => {
      const path = join(listsIn(opened.layout.root), listName(list));
      if ((await this.native.run('entryOf', { path })).entry === null) {
        await setMark(opened, list.baseId, 'lost');
      } else {
        await makeMarks(opened);
        await this.native.run('renameFile', {
          from: path,
          to: markPath(opened, list.baseId, 'lost'),
        });
      }
      return DAMAGED;
    });
  }

  hold(snapshotId: string): Promise<HeldSnapshot | Unretained> {
    return this.directory.use(async (opened) => {
      const { totalBytes, freeBytes } = await this.directory.space(opened);
      if (freeBytes < lowWater(totalBytes)) return { unretained: 'its pool had too little free space' };
      if (!(await hasOwnMarks(opened)))
        return { unretained: 'something is mounted over the directory bases of its pool' };
      await this.snapshots.check(snapshotId);
      await setMark(opened, snapshotId, 'hidden');
      return this.#heldFile(opened, snapshotId);
    });
  }

  async giveUp(snapshotId: string): Promise<string> {
    await this.#free(snapshotId, 'dropped');
    return LOSSES.dropped;
  }

  /** An immutable file that was touched, or swapped with another one, has another change time. */
  async spoiled(snapshotId: string, { takenAt }: HeldSnapshot): Promise<string | null> {
    const change = await this.snapshots.change(snapshotId);
    const held = await this.directory.use((opened) => this.#heldFile(opened, snapshotId));
    if (change === null && held.takenAt === takenAt) return null;
    return `its file ${this.snapshots.path(snapshotId)} ${change ?? 'was changed by another program'}`;
  }

  loseHeld(snapshotId: string): Promise<void> {
    return this.#free(snapshotId, 'changed');
  }

  forget(snapshotId: string): Promise<void> {
    return this.directory.use(async (opened) => {
      const path = markPath(opened, snapshotId, 'hidden');
      if ((await this.native.run('entryOf', { path })).entry !== null) await this.removeSnapshot(opened, snapshotId);
      await removeMarks(opened, snapshotId);
    });
  }

  /** Removes the snapshot's own files in `lists`, and its file. */
  async removeSnapshot({ layout }: OpenDirectories, snapshotId: string): Promise<void> {
    for (const kind of OWN_KINDS) await unlink(this.native, join(listsIn(layout.root), `${snapshotId}${kind}`));
    await this.lists.giveUp();
    await this.snapshots.delete(snapshotId);
  }

  /**
   * Removes unfinished files, and the own files in `lists` of snapshots that do not exist.
   *
   * @param names of the files of all snapshots
   */
  async sweep(opened: OpenDirectories, names: readonly string[]): Promise<void> {
    await sweepMarks(opened);
    const snapshots = new Set(names);
    await this.lists.sweep((name) => {
      const [id = '', kind] = name.split('.');
      return kind !== undefined && isObjectName(id) && !snapshots.has(id);
    });
  }

  /** The path of the snapshot's allocated ranges, as scans and operators know it. */
  allocatedPath(snapshotId: string): string {
    return join(listsIn(this.directory.layout.root), `${snapshotId}.allocated`);
  }

  /** Removes a list of allocated ranges that a scan has refused. Ignores other paths. */
  async discardAllocated(path: string): Promise<void> {
    const [id = ''] = basename(path).split('.');
    if (!isObjectName(id) || this.allocatedPath(id) !== path) return;
    await this.directory.use(({ layout }) => unlink(this.native, join(listsIn(layout.root), basename(path))));
  }

  /** The head of a list; null if there is none, or if it is damaged or unreadable. */
  async head(path: string): Promise<ChangeListHead | null> {
    try {
      return await this.native.run('changeListHead', { path });
    } catch (thrown) {
      if (thrown instanceof SystemError) return null;
      throw thrown;
    }
  }

  #free(snapshotId: string, mark: keyof typeof LOSSES): Promise<void> {
    return this.directory.use(async (opened) => {
      await changeMark(opened, snapshotId, 'hidden', mark);
      await this.removeSnapshot(opened, snapshotId);
    });
  }

  /** The state of the snapshot's file; null if there is none. */
  #state(snapshotId: string): Promise<FileState | null> {
    return this.directory.use(async ({ layout }) => {
      const { state } = await this.native.run('fileState', { path: layout.snapshot(snapshotId) });
      return state;
    });
  }

  async #pair(baseId: string, targetId: string): Promise<ListedPair> {
    const { target, base } = await this.snapshots.files(targetId, baseId);
    if (base === null) throw CsiError.internal(`snapshot ${baseId} has no file to list`);
    const files = { target: { id: targetId, file: target }, base: { id: baseId, file: base } };
    const withoutMaps = { baseMapPath: null, mapNames: null, maxExtents: STEP_EXTENTS };
    const { sizeBytes } = target;
    return {
      build: (names, progress) => this.native.run('buildChangeList', { ...files, ...withoutMaps, names, progress }),
      identity: { sizeBytes, targetId, baseId, target, base, thin: null },
    };
  }

  /** The last change of an immutable file is its creation, so its change time is when the snapshot was taken. */
  async #heldFile({ layout }: OpenDirectories, snapshotId: string): Promise<HeldSnapshot> {
    const { entry } = await this.native.run('entryOf', { path: layout.snapshot(snapshotId) });
    return { storedBytes: 0n, takenAt: entry?.changedNs ?? 0n };
  }
}
