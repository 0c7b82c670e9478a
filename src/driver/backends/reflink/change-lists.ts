/**
 * The stored change lists of a reflink pool, beside its snapshots (docs/change-lists.md):
 *
 *   lists/<snapshot id>.delta       what differs from an earlier snapshot of the volume, which its head names
 *   lists/<snapshot id>.allocated   which ranges hold data
 *   lists/<snapshot id>.map         the extents of the newest snapshot of a volume, on XFS only
 *   lists/<any of these>.tmp        being made; replaced by the next attempt, removed at the next start
 *
 * Decides which lists answer a request and how a missing one is made, step by step. Native code verifies
 * every list before it uses it, so nothing here has to be believed. When lists are made is not decided here.
 */
import { readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { errorCode, SystemError } from '../../../base/errors.js';
import type { ScanSource } from '../../native/addon.js';
import type {
  BuildChangeListRequest,
  BuiltStep,
  ChangeListHead,
  ChangeListNames,
  ChangeListSource,
} from '../../native/change-list-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { SnapshotFile } from '../../native/snapshot-file.js';
import { makeDirectory, type OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { isObjectName, temporary } from './pool-layout.js';

type ListKind = 'delta' | 'allocated' | 'map';
const LIST_KINDS: readonly ListKind[] = ['delta', 'allocated', 'map'];
type FilesSource = Extract<ScanSource, { kind: 'files' }>;

/** As many as native code opens at once. A longer chain is scanned directly. */
export const MAX_LISTS = 1024;
/** Extents of one step: 50 ms of reading maps of shared files on XFS. */
const STEP_EXTENTS = 32768;
/** Lists are made only while more than this share of the pool is free. */
export const FREE_PERCENT = 5n;

/** Two snapshots to list. */
export type ListedFiles = Pick<BuildChangeListRequest, 'target' | 'base'>;

/** @param root of the pool: its real path, or one through an open directory */
export const listsIn = (root: string): string => join(root, 'lists');

/** Where the making of a list goes on. */
interface Progress {
  readonly words: BigUint64Array;
  readonly request: Omit<BuildChangeListRequest, 'progress' | 'names' | 'mapNames' | 'baseMapPath'>;
  readonly storesMap: boolean;
  readonly usesMap: boolean;
}

export class ChangeLists {
  /** False once the file system has refused: it moves extents, so maps of them age. */
  #hasMaps = true;

  constructor(
    private readonly native: NativeRunner,
    private readonly directory: PoolDirectory,
  ) {}

  /** The lists from which the request can be answered in place of `files`; null: some are missing. */
  async sourceFor(
    targetId: string,
    baseId: string | null,
    { target, base }: FilesSource,
  ): Promise<ChangeListSource | null> {
    const paths =
      baseId === null ? await this.#allocated(targetId) : await this.chain(targetId, baseId);
    if (paths === null) return null;
    const source = { kind: 'lists' as const, sizeBytes: target.sizeBytes, paths };
    return { ...source, targetId, baseId, target, base, thin: null };
  }

  /** The lists from the base to the target, oldest first; null: some are missing, or there are too many. */
  async chain(targetId: string, baseId: string): Promise<string[] | null> {
    const real = listsIn(this.directory.layout.root);
    const paths: string[] = [];
    for (let id = targetId; id !== baseId; ) {
      const path = this.#path(real, id, 'delta');
      const head = await this.head(path);
      if (head?.base == null || head.target.id !== id || paths.length === MAX_LISTS) return null;
      paths.unshift(path);
      id = head.base.id;
    }
    return paths;
  }

  async #allocated(snapshotId: string): Promise<string[] | null> {
    const path = this.#path(listsIn(this.directory.layout.root), snapshotId, 'allocated');
    return (await this.head(path)) === null ? null : [path];
  }

  /** Makes a list of what differs between two snapshots in one go, under its own name, without maps. */
  async build(request: ListedFiles, names: ChangeListNames): Promise<void> {
    let progress: BigUint64Array | null = null;
    let done = false;
    try {
      while (!done) {
        const step: BuiltStep = await this.native.run('buildChangeList', {
          ...{ ...request, maxExtents: STEP_EXTENTS, names, progress },
          baseMapPath: null,
          mapNames: null,
        });
        ({ progress, done } = step);
      }
    } catch (thrown) {
      await rm(names.temporaryPath, { force: true });
      throw thrown;
    }
  }

  /** Makes one step of the list; see Backend.storeChanges. */
  async step(
    targetId: string,
    baseId: string | null,
    files: FilesSource,
    progress: object | null,
  ): Promise<object | null> {
    return this.directory.use(async (opened) => {
      const started = progress as Progress | null;
      if (started === null && !(await this.#isWanted(opened, targetId, baseId))) return null;
      try {
        return await this.#step(
          opened,
          started ?? (await this.#first(opened, targetId, baseId, files)),
        );
      } catch (thrown) {
        await this.#removeUnfinished(opened, targetId);
        throw thrown;
      }
    });
  }

  /**
   * Joins the list that ends at a snapshot with the one that begins there, which it replaces: the snapshot
   * is about to be deleted. Changes nothing if they are not there, or not valid.
   */
  async join(snapshotId: string, nextId: string): Promise<void> {
    await this.directory.use(async (opened) => {
      const [olderPath, newerPath] = [snapshotId, nextId].map((id) =>
        this.#at(opened, id, 'delta'),
      );
      if (olderPath === undefined || newerPath === undefined) return;
      const [older, newer] = [await this.head(olderPath), await this.head(newerPath)];
      if (older === null || newer?.base?.id !== snapshotId) return;
      if (!(await this.hasRoom(opened))) return;
      // Not the temporary name under which the list of the next snapshot may be in the making.
      const names = { temporaryPath: temporary(`${newerPath}.joined`), finalPath: newerPath };
      try {
        await this.native.run('joinChangeLists', { olderPath, newerPath, names });
      } catch (thrown) {
        await rm(names.temporaryPath, { force: true });
        if (errorCode(thrown) !== 'LIST_INVALID') throw thrown;
      }
    });
  }

  /** Removes a list that native code has refused. Ignores paths that are no lists of the pool. */
  async discard(path: string): Promise<void> {
    const lists = listsIn(this.directory.layout.root);
    if (join(lists, basename(path)) !== path) return;
    await this.directory.use(async (opened) => {
      await rm(join(listsIn(opened.layout.root), basename(path)), { force: true });
    });
  }

  /** Removes what is stored of a snapshot, and what is being made: the next step finds no snapshot. */
  async remove(opened: OpenDirectories, snapshotId: string): Promise<void> {
    for (const kind of LIST_KINDS) {
      await rm(this.#at(opened, snapshotId, kind), { force: true });
    }
    await this.#removeUnfinished(opened, snapshotId);
  }

  async #removeUnfinished(opened: OpenDirectories, snapshotId: string): Promise<void> {
    for (const kind of LIST_KINDS) {
      await rm(temporary(this.#at(opened, snapshotId, kind)), { force: true });
    }
  }

  /** Removes unfinished lists, and lists of snapshots that do not exist. */
  async sweep(opened: OpenDirectories): Promise<void> {
    const lists = listsIn(opened.layout.root);
    const names = await readdir(lists).catch((thrown: unknown) => {
      if (errorCode(thrown) === 'ENOENT') return [];
      throw thrown;
    });
    if (names.length === 0) return;
    const snapshots = new Set(await readdir(opened.layout.snapshots));
    for (const name of names) {
      const [id = '', kind, ...rest] = name.split('.');
      if (!isObjectName(id) || kind === undefined) continue;
      if (rest.length > 0 || !snapshots.has(id)) await rm(join(lists, name), { force: true });
    }
  }

  #path(lists: string, snapshotId: string, kind: ListKind): string {
    return join(lists, `${snapshotId}.${kind}`);
  }

  #at({ layout }: OpenDirectories, snapshotId: string, kind: ListKind): string {
    return this.#path(listsIn(layout.root), snapshotId, kind);
  }

  #names(opened: OpenDirectories, snapshotId: string, kind: ListKind): ChangeListNames {
    const finalPath = this.#at(opened, snapshotId, kind);
    return { temporaryPath: temporary(finalPath), finalPath };
  }

  /** Null: there is none, or it is damaged. */
  async head(path: string): Promise<ChangeListHead | null> {
    try {
      return await this.native.run('changeListHead', { path });
    } catch (thrown) {
      if (thrown instanceof SystemError) return null;
      throw thrown;
    }
  }

  /** Whether there is no such list yet, and room for one. */
  async #isWanted(
    opened: OpenDirectories,
    targetId: string,
    baseId: string | null,
  ): Promise<boolean> {
    const kind = baseId === null ? 'allocated' : 'delta';
    const head = await this.head(this.#at(opened, targetId, kind));
    if (head !== null && (head.base?.id ?? null) === baseId) return false;
    return this.hasRoom(opened);
  }

  /** Whether the pool has enough free space for lists. */
  async hasRoom(opened: OpenDirectories): Promise<boolean> {
    const { totalBytes, freeBytes } = await this.directory.space(opened);
    return freeBytes * 100n > totalBytes * FREE_PERCENT;
  }

  async #first(
    opened: OpenDirectories,
    targetId: string,
    baseId: string | null,
    { target, base }: FilesSource,
  ): Promise<Progress | { request: Progress['request']; storesMap: boolean; usesMap: boolean }> {
    await makeDirectory(listsIn(opened.layout.root));
    const listed = (id: string, file: SnapshotFile) => ({ id, file });
    const request = {
      target: listed(targetId, target),
      base: baseId === null || base === null ? null : listed(baseId, base),
      maxExtents: STEP_EXTENTS,
    };
    const map = baseId === null ? null : await this.head(this.#at(opened, baseId, 'map'));
    return { request, storesMap: this.#hasMaps && baseId !== null, usesMap: map !== null };
  }

  async #step(
    opened: OpenDirectories,
    at: Omit<Progress, 'words'> & { words?: BigUint64Array },
  ): Promise<object | null> {
    const { request, storesMap, usesMap, words } = at;
    const { id } = request.target;
    const baseId = request.base?.id ?? null;
    try {
      const step = await this.native.run('buildChangeList', {
        ...request,
        names: this.#names(opened, id, baseId === null ? 'allocated' : 'delta'),
        baseMapPath: usesMap && baseId !== null ? this.#at(opened, baseId, 'map') : null,
        mapNames: storesMap ? this.#names(opened, id, 'map') : null,
        progress: words ?? null,
      });
      if (!step.done) return { ...at, words: step.progress } satisfies Progress;
      // The next list begins with the map of this one.
      if (baseId !== null) await rm(this.#at(opened, baseId, 'map'), { force: true });
      return null;
    } catch (thrown) {
      if (words !== undefined) throw thrown;
      if (errorCode(thrown) === 'SCAN_UNSUPPORTED' && (storesMap || usesMap)) {
        this.#hasMaps = false;
        await this.#removeUnfinished(opened, id);
        return this.#step(opened, { request, storesMap: false, usesMap: false });
      }
      // The map of the base is damaged or of a file that has changed.
      if (errorCode(thrown) === 'LIST_INVALID' && usesMap) {
        return this.#step(opened, { request, storesMap, usesMap: false });
      }
      throw thrown;
    }
  }
}
