/**
 * What a reflink pool retains of deleted snapshots (docs/retained-bases.md): the list of what changed from each
 * one to the next snapshot of its volume, and, of a newest snapshot, its file until there is a next one.
 *
 * Native code verifies a list before the snapshot that it begins at is removed, and again whenever a scan reads
 * it. Callers hold the locks of the snapshots that they name. Knows ids and files, no volumes and no limits.
 */
import { link, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { CsiError, errorCode } from '../../../base/errors.js';
import { SingleFlight } from '../../../base/single-flight.js';
import type { ChangeListNames, ChangeListSource } from '../../native/change-list-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { SnapshotFile } from '../../native/snapshot-file.js';
import type { RetainedBase, RetainedBases, Unretained } from '../backend.js';
import { invalidatedBase } from '../lost-objects.js';
import { type ChangeLists, FREE_PERCENT, listsIn, MAX_LISTS } from './change-lists.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { temporary } from './pool-layout.js';
import { statOrNull } from './pool-space.js';
import {
  basesIn,
  changeMark,
  hiddenIn,
  makeBases,
  markName,
  type RetainedContents,
  removeMarks,
  retainedContents,
  type Step,
  setMark,
  stepName,
  stepsToFile,
} from './retained-contents.js';
import type { SnapshotFiles } from './snapshot-files.js';

export class RetainedLists {
  readonly #building = new SingleFlight<string, void>();
  /** Counts the beginnings and ends of removals. */
  #removals = 0;

  constructor(
    private readonly native: NativeRunner,
    private readonly directory: PoolDirectory,
    private readonly snapshots: SnapshotFiles,
    private readonly lists: ChangeLists,
  ) {}

  /** See Backend.retainBase. */
  retain(snapshotId: string, nextId: string | null): Promise<RetainedBase | Unretained | null> {
    return this.directory.use(async (opened) => {
      const stored = nextId === null ? null : await this.#stepBytes(opened, snapshotId, nextId);
      if (stored !== null) return { snapshotId, storedBytes: stored };
      const hasFile = await this.#hasFile(opened, snapshotId);
      if (!hasFile) return baseOf(await this.#contents(opened), snapshotId);
      await makeBases(opened);
      if (nextId === null) return this.#hide(opened, snapshotId);
      if (!(await this.#linkNewest(opened, snapshotId, nextId))) {
        if (!(await this.lists.hasRoom(opened))) return NO_ROOM;
        await this.#buildStep(opened, snapshotId, nextId);
      }
      const storedBytes = await this.#stepBytes(opened, snapshotId, nextId);
      return { snapshotId, storedBytes: storedBytes ?? 0n };
    });
  }

  /** Whether the file of the snapshot is all that is retained of it, so that it has to stay. */
  async needsFile(opened: OpenDirectories, snapshotId: string): Promise<boolean> {
    const mark = join(basesIn(opened.layout.root), markName(snapshotId, 'hidden'));
    if ((await statOrNull(mark)) === null) return false;
    return !hasSteps(await this.#contents(opened), snapshotId);
  }

  /** After the file of the snapshot was removed. */
  async fileIsGone(opened: OpenDirectories, snapshotId: string): Promise<void> {
    await this.#remove(opened, markName(snapshotId, 'hidden'));
  }

  /** Deleted snapshots whose files stay. */
  async hidden(opened: OpenDirectories): Promise<Set<string>> {
    return hiddenIn(await this.#contents(opened));
  }

  /** In the order in which they were taken: of immutable files the last change is when they were made. */
  async hiddenOldestFirst(opened: OpenDirectories): Promise<string[]> {
    const taken: { id: string; timeNs: bigint }[] = [];
    for (const id of await this.hidden(opened)) {
      const found = await statOrNull(opened.layout.snapshot(id));
      if (found !== null) taken.push({ id, timeNs: found.ctimeNs });
    }
    return taken.sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1)).map(({ id }) => id);
  }

  async all(opened: OpenDirectories): Promise<RetainedBases> {
    const contents = await this.#contents(opened);
    const { steps, marks, files } = contents;
    const begun = [...steps.keys()].filter((id) => !files.has(id));
    const bases: RetainedBases = { usable: [], invalidated: [] };
    for (const snapshotId of new Set([...begun, ...marks.keys()])) {
      const base = baseOf(contents, snapshotId);
      if (base !== null) bases.usable.push(base);
      else bases.invalidated.push({ snapshotId, reason: reasonOf(contents, snapshotId) });
    }
    return bases;
  }

  /**
   * Removes what is retained of the snapshot, and its file if it is hidden. Steps that end there are joined with
   * the one that begins there first, so that older bases stay usable.
   */
  drop(snapshotId: string): Promise<void> {
    return this.directory.use(async (opened) => {
      const contents = await this.#contents(opened);
      const own = (contents.steps.get(snapshotId) ?? []).find(
        ({ targetId }) => stepsToFile(contents, targetId) !== null,
      );
      const before = [...contents.steps.values()]
        .flat()
        .filter(({ targetId }) => targetId === snapshotId);
      if (own !== undefined) {
        for (const each of before) await this.#join(opened, each, own);
      }
      if (contents.marks.get(snapshotId) === 'hidden') {
        await this.snapshots.delete(snapshotId);
        await this.lists.remove(opened, snapshotId);
      }
      for (const { name } of contents.steps.get(snapshotId) ?? []) await this.#remove(opened, name);
      await removeMarks(opened, snapshotId);
    });
  }

  /**
   * The lists from a retained base to a snapshot that exists. Makes the list from the snapshot where the retained
   * ones end if it is missing, which takes as long as a scan of the two. Null: nothing is retained of the base.
   * FAILED_PRECONDITION if the pool lacks room for that list, NOT_FOUND as `find`.
   */
  sourceFor(
    targetId: string,
    baseId: string,
    target: SnapshotFile,
  ): Promise<ChangeListSource | null> {
    return this.directory.use(async (opened) => {
      let paths: string[] | null = null;
      while (paths === null) {
        const contents = await this.#contents(opened);
        const steps = findBase(contents, baseId) && stepsToFile(contents, baseId);
        if (steps === null || steps.length === 0) return null;
        paths = await this.#paths(opened, contents, steps, targetId);
      }
      if (paths.length > MAX_LISTS) {
        throw CsiError.failedPrecondition(
          `no delta from snapshot ${baseId} to ${targetId}: ${paths.length} lists lie between them, of which ` +
            `at most ${MAX_LISTS} can be joined; make a full backup`,
        );
      }
      const source = { kind: 'lists' as const, sizeBytes: target.sizeBytes, paths };
      return { ...source, targetId, baseId, target, base: null, thin: null };
    });
  }

  /** Null: nothing was retained of the snapshot. Throws NOT_FOUND with the reason if the base is no longer usable. */
  find(baseId: string): Promise<RetainedBase | null> {
    return this.directory.use(async (opened) => findBase(await this.#contents(opened), baseId));
  }

  /** Records that a scan has refused the list: the base at which it begins is lost. False: it is no such list. */
  async discard(path: string): Promise<boolean> {
    return this.directory.use(async (opened) => {
      const { steps, files } = await this.#contents(opened);
      const bases = basesIn(opened.layout.root);
      const step = [...steps.values()]
        .flat()
        .find(({ name }) => join(basesIn(this.directory.layout.root), name) === path);
      if (step === undefined) return false;
      if (files.has(step.baseId)) await rm(join(bases, step.name), { force: true });
      else await rename(join(bases, step.name), join(bases, markName(step.baseId, 'lost')));
      return true;
    });
  }

  /** Frees the blocks of a hidden snapshot. Unless its list is stored, no delta can begin there, or before it. */
  async dropFile(opened: OpenDirectories, snapshotId: string): Promise<void> {
    const isNeeded = await this.needsFile(opened, snapshotId);
    if (isNeeded) await changeMark(opened, snapshotId, 'hidden', 'dropped');
    await this.snapshots.delete(snapshotId);
    await this.lists.remove(opened, snapshotId);
    if (!isNeeded) await removeMarks(opened, snapshotId);
  }

  /** Null: the snapshot where the lists ended has become a base of its own meanwhile, and they go on. */
  async #paths(
    opened: OpenDirectories,
    contents: RetainedContents,
    steps: readonly Step[],
    targetId: string,
  ): Promise<string[] | null> {
    const bases = basesIn(this.directory.layout.root);
    const paths = steps.map(({ name }) => join(bases, name));
    const reachedId = steps.at(-1)?.targetId ?? '';
    const stored = await this.lists.chain(targetId, reachedId);
    if (stored !== null) return [...paths, ...stored];
    const name = stepName(reachedId, targetId);
    const isStored = (contents.steps.get(reachedId) ?? []).some((step) => step.name === name);
    if (!isStored) {
      if (!(await this.lists.hasRoom(opened))) {
        throw CsiError.failedPrecondition(
          `no delta to snapshot ${targetId} from a deleted one: the list from snapshot ${reachedId} is not stored, and ` +
            `at most ${FREE_PERCENT} % of the pool are free; free some space, or make a full backup`,
        );
      }
      try {
        await this.#building.run(name, async () => {
          await makeBases(opened);
          await this.#buildStep(opened, reachedId, targetId);
        });
      } catch (thrown) {
        if (await this.#hasFile(opened, reachedId)) throw thrown;
        return null;
      }
    }
    return [...paths, join(bases, name)];
  }

  /**
   * As it was at one moment as far as bases go: what makes a list unnecessary is there before the list is removed, so
   * only what is read while one is removed may lack both.
   */
  async #contents(opened: OpenDirectories): Promise<RetainedContents> {
    for (;;) {
      const removals = this.#removals;
      const contents = await retainedContents(this.native, opened);
      if (this.#removals === removals) return contents;
    }
  }

  async #hide(opened: OpenDirectories, snapshotId: string): Promise<RetainedBase | Unretained> {
    const mark = join(basesIn(opened.layout.root), markName(snapshotId, 'hidden'));
    if ((await statOrNull(mark)) === null) {
      const { totalBytes, freeBytes } = await this.directory.space(opened);
      if (freeBytes < lowWater(totalBytes)) return NO_ROOM;
      await setMark(this.native, opened, snapshotId, 'hidden');
    }
    return { snapshotId, storedBytes: 0n, pending: true };
  }

  /** Retains the list of the next snapshot, if it begins at this one and is sound. */
  async #linkNewest(opened: OpenDirectories, baseId: string, targetId: string): Promise<boolean> {
    const path = join(listsIn(opened.layout.root), `${targetId}.delta`);
    const head = await this.lists.head(path);
    if (head?.base?.id !== baseId) return false;
    const { target, base } = await this.snapshots.scanSource(targetId, baseId);
    try {
      await this.native.run('verifyChangeLists', {
        sizeBytes: target.sizeBytes,
        paths: [path],
        targetId,
        baseId,
        target,
        base,
        thin: null,
      });
    } catch (thrown) {
      if (errorCode(thrown) !== 'LIST_INVALID') throw thrown;
      await this.lists.discard(join(listsIn(this.directory.layout.root), basename(path)));
      return false;
    }
    const bases = basesIn(opened.layout.root);
    await link(path, join(bases, stepName(baseId, targetId)));
    await this.native.run('flush', { path: bases });
    return true;
  }

  async #buildStep(opened: OpenDirectories, baseId: string, targetId: string): Promise<void> {
    const { target, base } = await this.snapshots.scanSource(targetId, baseId);
    if (base === null) throw CsiError.internal(`snapshot ${baseId} has no file to list`);
    await this.lists.build(
      { target: { id: targetId, file: target }, base: { id: baseId, file: base } },
      this.#names(opened, baseId, targetId),
    );
  }

  /** A list that cannot be joined stays, and with it the base at which it begins ends at a snapshot that is gone. */
  async #join(opened: OpenDirectories, older: Step, newer: Step): Promise<void> {
    const bases = basesIn(opened.layout.root);
    const names = this.#names(opened, older.baseId, newer.targetId);
    const [olderPath, newerPath] = [join(bases, older.name), join(bases, newer.name)];
    try {
      await this.native.run('joinChangeLists', { olderPath, newerPath, names });
      await this.#remove(opened, older.name);
    } catch {
      await rm(names.temporaryPath, { force: true });
    }
  }

  #names(opened: OpenDirectories, baseId: string, targetId: string): ChangeListNames {
    const finalPath = join(basesIn(opened.layout.root), stepName(baseId, targetId));
    return { temporaryPath: temporary(finalPath), finalPath };
  }

  async #remove(opened: OpenDirectories, name: string): Promise<void> {
    this.#removals += 1;
    try {
      await rm(join(basesIn(opened.layout.root), name), { force: true });
    } finally {
      this.#removals += 1;
    }
  }

  async #hasFile(opened: OpenDirectories, snapshotId: string): Promise<boolean> {
    const path = opened.layout.snapshot(snapshotId);
    return (await this.native.run('fileState', { path })).state !== null;
  }

  /** Null: the list is not stored. */
  async #stepBytes(
    opened: OpenDirectories,
    baseId: string,
    targetId: string,
  ): Promise<bigint | null> {
    const path = join(basesIn(opened.layout.root), stepName(baseId, targetId));
    const found = await statOrNull(path);
    return found === null ? null : found.blocks * 512n;
  }
}

/** A pool with less free space than this keeps no files of deleted snapshots. */
export function lowWater(totalBytes: bigint): bigint {
  const tenth = totalBytes / 10n;
  const wanted = tenth < MIN_LOW_WATER ? MIN_LOW_WATER : tenth;
  const capped = wanted < MAX_LOW_WATER ? wanted : MAX_LOW_WATER;
  return capped < totalBytes / 4n ? capped : totalBytes / 4n;
}

/** What a fast disk takes in some seconds, so that the space is free before a writer needs it. */
const MIN_LOW_WATER = 1n << 30n;
const MAX_LOW_WATER = 16n << 30n;

const NO_ROOM: Unretained = { unretained: 'its pool had too little free space' };

/** Null: nothing usable is retained of the snapshot. */
function baseOf(contents: RetainedContents, snapshotId: string): RetainedBase | null {
  const steps = contents.steps.get(snapshotId) ?? [];
  const storedBytes = steps.reduce((sum, step) => sum + step.storedBytes, 0n);
  if (contents.marks.get(snapshotId) === 'hidden' && contents.files.has(snapshotId)) {
    return { snapshotId, storedBytes, pending: true };
  }
  return hasSteps(contents, snapshotId) ? { snapshotId, storedBytes } : null;
}

/** As `baseOf`. Throws NOT_FOUND with the reason if something is retained, and not usable. */
function findBase(contents: RetainedContents, snapshotId: string): RetainedBase | null {
  const base = baseOf(contents, snapshotId);
  const { steps, marks } = contents;
  if (base !== null || !(steps.has(snapshotId) || marks.has(snapshotId))) return base;
  throw invalidatedBase(snapshotId, reasonOf(contents, snapshotId));
}

/** Whether stored lists lead from the snapshot to another one that has a file. */
function hasSteps(contents: RetainedContents, snapshotId: string): boolean {
  const steps = contents.steps.get(snapshotId) ?? [];
  return steps.some(({ targetId }) => stepsToFile(contents, targetId) !== null);
}

/** What happened to the snapshot, or to the one at which the lists from it end. */
function reasonOf(contents: RetainedContents, snapshotId: string): string {
  const { steps, marks } = contents;
  const seen = new Set<string>();
  let id = snapshotId;
  for (
    let next = steps.get(id)?.[0];
    next !== undefined && !seen.has(id);
    next = steps.get(id)?.[0]
  ) {
    seen.add(id);
    id = next.targetId;
  }
  const whose =
    id === snapshotId ? 'its' : `snapshot ${id} comes after it and is deleted too, and its`;
  switch (marks.get(id)) {
    case 'dropped':
      return `${whose} blocks were freed when the pool was running out of space`;
    case 'lost':
      return `${whose} stored change list is damaged`;
    default:
      return `${whose} change list to the next snapshot is not in the pool`;
  }
}
