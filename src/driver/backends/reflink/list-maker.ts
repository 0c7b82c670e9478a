/**
 * Makes the stored lists of a reflink pool's snapshots step by step, in the background: the allocated ranges of a snapshot,
 * or its differences from the snapshot before, with a map of its extents that the next list reads. Does not decide when to
 * make a list.
 */
import { randomBytes } from 'node:crypto';
import { errorCode } from '../../../base/errors.js';
import type { ScanSource } from '../../native/addon.js';
import type { ChangeListNames } from '../../native/change-list-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { UnfinishedList } from '../backend.js';
import { unlink } from '../directory-files.js';
import { listName, namesOf } from '../retained/list-directory.js';
import type { StoredList } from '../retained/list-graph.js';
import { listsIn } from '../retained/retained-directories.js';
import { type ListFiles, STEP_EXTENTS } from './list-files.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';

export type FilesSource = Extract<ScanSource, { kind: 'files' }>;

export interface ListMakerDependencies {
  native: NativeRunner;
  directory: PoolDirectory;
  files: ListFiles;
  /** Called when a list of differences is stored. */
  onMade(list: StoredList): void;
}

export class ListMaker {
  /** False once the file system has refused maps, because it moves extents and so makes maps stale. */
  hasMaps = true;

  constructor(readonly deps: ListMakerDependencies) {}

  begin(targetId: string, baseId: string | null, { target, base }: FilesSource): UnfinishedList {
    const listed = { id: targetId, file: target };
    if (baseId === null || base === null) return new Unfinished(this, listed, null);
    return new Unfinished(this, listed, { id: baseId, file: base });
  }
}

type Listed = { id: string; file: FilesSource['target'] };

class Unfinished implements UnfinishedList {
  readonly #random = randomBytes(8).toString('hex');
  readonly #name: string;
  #progress: BigUint64Array | null = null;
  /** Whether the map of the base is read; null until the first step decides. */
  #readsMap: boolean | null;
  #storesMap: boolean;

  constructor(
    private readonly maker: ListMaker,
    private readonly target: Listed,
    private readonly base: Listed | null,
  ) {
    const ends = base === null ? null : { baseId: base.id, targetId: target.id };
    this.#name = ends === null ? `${target.id}.allocated` : listName(ends);
    this.#readsMap = base === null ? false : null;
    this.#storesMap = base !== null && maker.hasMaps;
  }

  async step(): Promise<boolean> {
    try {
      return await this.maker.deps.directory.use((opened) => this.#step(opened));
    } catch (thrown) {
      await this.abandon();
      throw thrown;
    }
  }

  abandon(): Promise<void> {
    const made = [this.#name, `${this.target.id}.map`].map((name) => namesOf('', name, this.#random));
    return this.maker.deps.files.lists.giveUp(...made);
  }

  async #step(opened: OpenDirectories): Promise<boolean> {
    const { files, native, onMade } = this.maker.deps;
    const { base, target } = this;
    const path = listsIn(opened.layout.root);
    if (this.#progress === null) await native.run('makeDirectory', { path });
    const baseMap = base === null ? null : this.#map(opened, base.id);
    if (baseMap !== null) this.#readsMap ??= (await files.head(baseMap.finalPath)) !== null;
    try {
      const { done, progress } = await native.run('buildChangeList', {
        target,
        base,
        names: namesOf(path, this.#name, this.#random),
        baseMapPath: this.#readsMap === true ? (baseMap?.finalPath ?? null) : null,
        mapNames: this.#storesMap ? this.#map(opened, target.id) : null,
        maxExtents: STEP_EXTENTS,
        progress: this.#progress,
      });
      this.#progress = progress;
      if (!done || base === null || baseMap === null) return done;
      const ends = { baseId: base.id, targetId: target.id };
      onMade(await files.lists.stored(path, ends));
      // The next list reads the map of this target, so the map of the base is of no use any more.
      await unlink(native, baseMap.finalPath);
      return true;
    } catch (thrown) {
      if (this.#progress !== null || !this.#usesLess(errorCode(thrown))) throw thrown;
      await this.abandon();
      return this.#step(opened);
    }
  }

  /** Call after the first step has failed. Whether the list can be made with fewer maps; if so, turns them off. */
  #usesLess(code: string | undefined): boolean {
    if (code === 'SCAN_UNSUPPORTED' && (this.#storesMap || this.#readsMap === true)) {
      this.maker.hasMaps = false;
      this.#storesMap = false;
      this.#readsMap = false;
      return true;
    }
    // The map of the base is damaged or of a file that has changed.
    if (code !== 'LIST_INVALID' || this.#readsMap !== true) return false;
    this.#readsMap = false;
    return true;
  }

  #map(opened: OpenDirectories, snapshotId: string): ChangeListNames {
    return namesOf(listsIn(opened.layout.root), `${snapshotId}.map`, this.#random);
  }
}
