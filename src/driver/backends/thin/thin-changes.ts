/**
 * The allocated ranges of a thin pool's snapshots and the differences between them: from the trees of the pool's metadata or,
 * where the base is deleted, from lists and bookmarks. Stores no lists of existing snapshots: the trees answer at once.
 */
import type { ThinScanSource } from '../../native/thin-addon.js';
import type { SnapshotChanges } from '../backend.js';
import { lostSnapshot } from '../lost-objects.js';
import type { ListRules } from '../retained/list-rules.js';
import { directScan, listScan, type SnapshotScan } from '../snapshot-scan.js';
import type { Bookmarks } from './bookmarks/bookmarks.js';
import type { ThinLists } from './bookmarks/thin-lists.js';
import { rootOf, snapshotRecord } from './device-records.js';
import type { DeviceRecord } from './ledger/ledger.js';
import { CURRENT, type FoundDevices } from './metadata/metadata-reader.js';
import type { PoolParts } from './pool-parts.js';

export interface ChangeDependencies extends Pick<PoolParts, 'ledger' | 'pool' | 'metadata'> {
  bookmarks: Bookmarks;
  lists: ThinLists;
  rules: ListRules;
  metadataPath: string;
}

export class ThinChanges implements SnapshotChanges {
  constructor(private readonly deps: ChangeDependencies) {}

  /**
   * The roots are read while both snapshots exist; the scan holds no metadata snapshot. Nobody writes to a
   * snapshot, so its tree keeps its root and its nodes until it is deleted: the roots of the last commit are
   * those that a metadata snapshot would show. Each chunk of the scan proves at its end, after its last read,
   * that the superblock still leads to these roots.
   */
  async scan(targetId: string, baseId: string | null): Promise<SnapshotScan> {
    const { ledger, bookmarks, metadataPath, pool } = this.deps;
    const target = await snapshotRecord(this.deps, targetId);
    const base = baseId === null ? null : await ledger.device(baseId);
    if (baseId !== null && base === null) await this.deps.rules.examineFor(targetId, baseId);
    const lists = baseId === null || base !== null ? null : await this.#lists(target, baseId);
    if (lists !== null) return lists;
    const bookmark = baseId === null || base !== null ? null : await bookmarks.source(baseId, target);
    if (baseId !== null && base === null && bookmark === null) throw lostSnapshot(baseId, pool.pool);
    const wanted = [target, ...(base === null ? [] : [base])];
    const found = await this.#find(wanted);
    const source: ThinScanSource = {
      kind: 'thin',
      metadata: metadataPath,
      superblock: CURRENT,
      sizeBytes: target.sizeBytes,
      target: rootOf(target, found, pool),
      base: base === null ? null : rootOf(base, found, pool),
      bookmark,
    };
    return directScan(source, { targetBytes: target.sizeBytes });
  }

  neededFor(targetId: string, baseId: string): string | null {
    return this.deps.rules.neededFor(targetId, baseId);
  }

  async begin(): Promise<null> {
    return null;
  }

  async join(): Promise<void> {}

  /** A scan of lists from a deleted base; null if its bookmark has to answer. */
  async #lists(target: DeviceRecord, baseId: string): Promise<SnapshotScan | null> {
    const { lists, rules } = this.deps;
    const targetId = target.objectId;
    const found = await rules.listsFor(targetId, baseId);
    if (found === null) return null;
    const { sizeBytes } = target;
    const thin = { targetTime: await lists.timeOf(target), baseTime: null };
    const paths = found.map((list) => lists.lists.path(list));
    return listScan({
      source: { kind: 'lists', sizeBytes, paths, targetId, baseId, target: null, base: null, thin },
      targetBytes: sizeBytes,
      baseBytes: null,
      direct: null,
      discard: (path) => this.#discard(path),
      again: () => this.scan(targetId, baseId),
    });
  }

  async #discard(path: string): Promise<void> {
    const { lists, rules } = this.deps;
    const ends = lists.lists.endsOf(path);
    if (ends !== null) await rules.discard(ends);
  }

  /** Asks the pool, in its queue, only if the last commit does not show the devices beyond doubt. */
  async #find(records: readonly DeviceRecord[]): Promise<FoundDevices> {
    const { metadata } = this.deps;
    const ids = records.map(({ deviceId }) => deviceId);
    const committed = await metadata.committedDevices(ids);
    const isComplete = records.every(({ deviceId, madeAt }) => committed?.get(deviceId)?.transactionId === madeAt);
    return committed !== null && isComplete ? committed : metadata.devices(ids);
  }
}
