/**
 * The directory `lists` of a pool, with the change lists of its snapshots:
 *
 *   <base>.to.<target>                 what differs between two snapshots of a volume
 *   <any file of it>.<random>.tmp      being made
 *
 * Every maker of a list has its own temporary file, so two may make the same list at once. Native code verifies every list
 * before using it, so nothing here has to be trusted. Knows files, not how a pool makes its lists.
 */
import { randomBytes } from 'node:crypto';
import { basename, join } from 'node:path';
import { bestEffort, unreported } from '../../../base/best-effort.js';
import { insteadOf, SystemError } from '../../../base/errors.js';
import type { BuiltStep, ChangeListNames, ChangeListSource } from '../../native/change-list-addon.js';
import type { NativeRunner } from '../../native/pool.js';
import { filesIn, unlink } from '../directory-files.js';
import type { StoredList } from './list-graph.js';

const SEPARATOR = '.to.';
const TEMPORARY = '.tmp';

/** Why no delta can begin at a snapshot whose list was refused, as a clause that follows "because". */
export const DAMAGED = 'its stored change list is damaged';

export type ListEnds = Pick<StoredList, 'baseId' | 'targetId'>;

/** Two snapshots whose list can be made and read. */
export interface ListedPair {
  /** One step of making the list. */
  build(names: ChangeListNames, progress: BigUint64Array | null): Promise<BuiltStep>;
  /** What a list of the pair is verified against. */
  readonly identity: Omit<ChangeListSource, 'kind' | 'paths'>;
}

/** Runs work on the directory; the path is valid until the work ends. */
type Use = <T>(work: (directory: string) => Promise<T>) => Promise<T>;

export const listName = ({ baseId, targetId }: ListEnds): string => `${baseId}${SEPARATOR}${targetId}`;

/** Null if the name is not that of a complete list. No id has a dot. */
export function parseListName(name: string): ListEnds | null {
  const at = name.indexOf(SEPARATOR);
  const end = at + SEPARATOR.length;
  if (at <= 0 || end === name.length || name.indexOf('.') < at || name.includes('.', end)) return null;
  return { baseId: name.slice(0, at), targetId: name.slice(end) };
}

/** The paths of a file to be made in the directory, with a temporary name that nobody else has. */
export function namesOf(directory: string, name: string, random = randomBytes(8).toString('hex')): ChangeListNames {
  const finalPath = join(directory, name);
  return { temporaryPath: `${finalPath}.${random}${TEMPORARY}`, finalPath };
}

export class ListDirectory {
  /** Temporary files that are given up and not removed yet. */
  readonly #givenUp = new Set<string>();
  /** Names of files that are no lists, from all() until sweep(). */
  readonly #others: string[] = [];

  constructor(
    private readonly native: NativeRunner,
    private readonly use: Use,
    /** The path of the directory as scans and operators know it. */
    private readonly realPath: () => string,
  ) {}

  async all(): Promise<StoredList[]> {
    // If there is no directory, no list was ever made.
    const files = await this.use((directory) => filesIn(this.native, directory).catch(insteadOf(['ENOENT'], [])));
    const lists: StoredList[] = [];
    for (const { name, allocatedBytes: storedBytes } of files) {
      const ends = parseListName(name);
      if (ends === null) this.#others.push(name);
      else lists.push({ baseId: ends.baseId, targetId: ends.targetId, storedBytes });
    }
    return lists;
  }

  /** See ListStore.build. */
  build(ends: ListEnds, pair: ListedPair): Promise<StoredList> {
    return this.use(async (directory) => {
      await this.native.run('makeDirectory', { path: directory });
      const names = namesOf(directory, listName(ends));
      await this.#finish(names, async () => {
        let progress: BigUint64Array | null = null;
        for (let done = false; !done; ) {
          const step: BuiltStep = await pair.build(names, progress);
          ({ progress, done } = step);
        }
      });
      if (await this.#reads(names.finalPath, pair)) return this.stored(directory, ends);
      await unlink(this.native, names.finalPath);
      const path = this.path(ends);
      throw new SystemError('EIO', 'read', path, `${path} cannot be read as it was written`);
    });
  }

  /** Reads the list in full. False if the list is damaged, or of other snapshots. */
  isSound(ends: ListEnds, pair: ListedPair): Promise<boolean> {
    return this.use((directory) => this.#reads(join(directory, listName(ends)), pair));
  }

  /** See ListStore.join. */
  join(older: ListEnds, newer: ListEnds): Promise<StoredList> {
    return this.use(async (directory) => {
      const ends = { baseId: older.baseId, targetId: newer.targetId };
      const names = namesOf(directory, listName(ends));
      const olderPath = join(directory, listName(older));
      const newerPath = join(directory, listName(newer));
      await this.#finish(names, () => this.native.run('joinChangeLists', { olderPath, newerPath, names }));
      return this.stored(directory, ends);
    });
  }

  remove(ends: ListEnds): Promise<void> {
    return this.use((directory) => unlink(this.native, join(directory, listName(ends))));
  }

  /**
   * Removes temporary files that are given up. Files that cannot be removed now, for example because the pool cannot be
   * reached, are removed with the next ones, or with a snapshot.
   */
  async giveUp(...unfinished: ChangeListNames[]): Promise<void> {
    for (const { temporaryPath } of unfinished) this.#givenUp.add(basename(temporaryPath));
    if (this.#givenUp.size === 0) return;
    const removal = async (directory: string): Promise<void> => {
      for (const name of this.#givenUp) {
        const removeOne = async (): Promise<void> => {
          await unlink(this.native, join(directory, name));
          this.#givenUp.delete(name);
        };
        await bestEffort(removeOne, unreported);
      }
    };
    await bestEffort(() => this.use(removal), unreported);
  }

  /** Removes the unfinished files and other useless ones that all() has found; returns their names. */
  sweep(isUseless: (name: string) => boolean = () => false): Promise<string[]> {
    return this.use(async (directory) => {
      const swept = this.#others.splice(0).filter((name) => name.endsWith(TEMPORARY) || isUseless(name));
      for (const name of swept) await unlink(this.native, join(directory, name));
      return swept;
    });
  }

  async stored(directory: string, ends: ListEnds): Promise<StoredList> {
    const path = join(directory, listName(ends));
    const { state } = await this.native.run('fileState', { path });
    if (state !== null) return { ...ends, storedBytes: state.allocatedBytes };
    throw new SystemError('ENOENT', 'open', path, (named) => `the list ${named} is gone`);
  }

  path(ends: ListEnds): string {
    return join(this.realPath(), listName(ends));
  }

  /** The list with this path; null if the path is not that of a list of the pool. */
  endsOf(path: string): ListEnds | null {
    const ends = parseListName(basename(path));
    return ends !== null && this.path(ends) === path ? ends : null;
  }

  async #reads(path: string, { identity }: ListedPair): Promise<boolean> {
    const verified = this.native.run('verifyChangeLists', { ...identity, paths: [path] });
    return verified.then(() => true, insteadOf(['LIST_INVALID'], false));
  }

  /** Runs `make`; a failure leaves no file. */
  async #finish(names: ChangeListNames, make: () => Promise<unknown>): Promise<void> {
    try {
      await make();
    } catch (thrown) {
      await this.giveUp(names);
      throw thrown;
    }
  }
}
