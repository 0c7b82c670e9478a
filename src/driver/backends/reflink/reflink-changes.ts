/**
 * The allocated ranges of a reflink pool's snapshots and the differences between them: from stored lists or, where no list
 * answers, from the files themselves. The rules in backends/retained decide which lists answer.
 */
import { CsiError } from '../../../base/errors.js';
import type { SnapshotChanges, UnfinishedList } from '../backend.js';
import { invalidatedBase } from '../lost-objects.js';
import type { ListRules } from '../retained/list-rules.js';
import { directScan, listScan, type SnapshotScan } from '../snapshot-scan.js';
import type { ListFiles } from './list-files.js';
import type { ListMaker } from './list-maker.js';
import type { SnapshotFiles } from './snapshot-files.js';

export interface ChangeParts {
  snapshots: SnapshotFiles;
  files: ListFiles;
  rules: ListRules;
  maker: ListMaker;
  /** If false, lists are neither used nor made. */
  storesLists: boolean;
}

export class ReflinkChanges implements SnapshotChanges {
  constructor(private readonly parts: ChangeParts) {}

  async scan(targetId: string, baseId: string | null): Promise<SnapshotScan> {
    const { snapshots, rules, storesLists } = this.parts;
    if (baseId !== null) await rules.examineFor(targetId, baseId);
    const isGone = baseId !== null && rules.isGone(baseId);
    const files = await snapshots.files(targetId, isGone ? null : baseId);
    if (isGone && !storesLists) {
      const [lost] = rules.all([baseId]).invalidated;
      if (lost !== undefined) throw invalidatedBase(baseId, lost.reason);
      throw CsiError.failedPrecondition(
        `no delta from snapshot ${baseId} to ${targetId}: ${LISTS_ARE_OFF}; make a full backup`,
      );
    }
    const { target, base } = files;
    const { sizeBytes } = target;
    const sizes = { targetBytes: sizeBytes, baseBytes: base?.sizeBytes ?? null };
    const paths = storesLists ? await this.#listPaths(targetId, baseId) : null;
    if (paths === null) return directScan(files, { ...sizes, wantsList: true });
    return listScan({
      ...sizes,
      source: { kind: 'lists', sizeBytes, paths, targetId, baseId, target, base, thin: null },
      discard: (path) => this.#discard(path),
      direct: isGone ? null : directScan(files, sizes),
      again: () => this.scan(targetId, baseId),
    });
  }

  neededFor(targetId: string, baseId: string): string | null {
    const { rules, storesLists } = this.parts;
    return storesLists ? rules.neededFor(targetId, baseId) : null;
  }

  async begin(targetId: string, baseId: string | null): Promise<UnfinishedList | null> {
    const { snapshots, files, rules, maker, storesLists } = this.parts;
    if (!storesLists) return null;
    if (baseId !== null) await rules.examine(baseId);
    if (baseId !== null && rules.isGone(baseId)) return null;
    const isStored =
      baseId === null ? (await files.head(files.allocatedPath(targetId))) !== null : rules.isStored(baseId, targetId);
    if (isStored || (await files.lacksRoom()) !== null) return null;
    return maker.begin(targetId, baseId, await snapshots.files(targetId, baseId));
  }

  async join(snapshotId: string, nextId: string): Promise<void> {
    const { rules, storesLists } = this.parts;
    if (storesLists) await rules.bridge(snapshotId, nextId);
  }

  async #listPaths(targetId: string, baseId: string | null): Promise<string[] | null> {
    const { files, rules } = this.parts;
    if (baseId !== null) {
      const lists = await rules.listsFor(targetId, baseId);
      return lists?.map((list) => files.lists.path(list)) ?? null;
    }
    const path = files.allocatedPath(targetId);
    return (await files.head(path)) === null ? null : [path];
  }

  async #discard(path: string): Promise<void> {
    const { files, rules } = this.parts;
    const ends = files.lists.endsOf(path);
    if (ends !== null) await rules.discard(ends);
    else await files.discardAllocated(path);
  }
}

export const LISTS_ARE_OFF = 'change lists are off (BLOCKDELTA_CHANGE_LISTS)';
