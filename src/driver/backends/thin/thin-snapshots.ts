/**
 * The snapshots of a thin pool: thin devices that are never activated, so nothing can write to them.
 */
import { CsiError } from '../../../base/errors.js';
import type { ThinDeviceRef, ThinScanSource } from '../../native/thin-addon.js';
import type { SnapshotMember, TakenSnapshots } from '../backend.js';
import { lostSnapshot } from '../lost-objects.js';
import type { ListRules } from '../retained/list-rules.js';
import { directScan, listScan, type SnapshotScan } from '../snapshot-scan.js';
import type { Bookmarks } from './bookmarks/bookmarks.js';
import type { ThinLists } from './bookmarks/thin-lists.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import { CURRENT, type FoundDevices, type MetadataReader } from './metadata/metadata-reader.js';
import type { PoolTransactions } from './pool/pool-transaction.js';
import type { ThinCopies } from './thin-copies.js';
import type { ThinVolumes } from './thin-volumes.js';
import type { VolumeDevices } from './volume-devices.js';

export interface SnapshotDependencies {
  /** The configured name of the pool. */
  poolName: string;
  ledger: AsyncLedger;
  metadata: MetadataReader;
  transactions: PoolTransactions;
  devices: VolumeDevices;
  copies: ThinCopies;
  volumes: ThinVolumes;
  bookmarks: Bookmarks;
  lists: ThinLists;
  rules: ListRules;
  metadataPath: string;
}

export class ThinSnapshots {
  constructor(private readonly deps: SnapshotDependencies) {}

  /** FAILED_PRECONDITION if the pool has lost it. */
  async record(snapshotId: string): Promise<DeviceRecord> {
    const record = await this.deps.ledger.device(snapshotId);
    if (record?.kind === 'snapshot') return record;
    throw this.#lost(snapshotId);
  }

  async create(members: readonly SnapshotMember[]): Promise<TakenSnapshots> {
    const { copies, volumes } = this.deps;
    const requests = await Promise.all(
      members.map(async ({ volumeId, snapshotId }) => {
        const source = await volumes.record(volumeId);
        const { sizeBytes, lineage } = source;
        return {
          source,
          copy: { objectId: snapshotId, kind: 'snapshot', sizeBytes, lineage } as const,
        };
      }),
    );
    const creationTimeNs = await copies.take(requests);
    return { creationTimeNs, sizesBytes: requests.map(({ copy }) => copy.sizeBytes) };
  }

  async delete(snapshotId: string): Promise<void> {
    const { ledger, transactions } = this.deps;
    await transactions.settle();
    if ((await ledger.device(snapshotId)) !== null) await transactions.delete(snapshotId);
    await this.deps.rules.removed(snapshotId);
  }

  async check(snapshotId: string, sizeBytes: bigint): Promise<void> {
    const record = await this.record(snapshotId);
    this.#rootOf(record, await this.deps.metadata.devices([record.deviceId]));
    if (record.sizeBytes === sizeBytes) return;
    throw CsiError.failedPrecondition(
      `snapshot ${snapshotId} should have ${sizeBytes} bytes, but the ledger of pool ` +
        `'${this.deps.poolName}' has ${record.sizeBytes}; restore catalogue and ledger from the same point in time`,
    );
  }

  async abandon(members: readonly SnapshotMember[]): Promise<void> {
    // All of them first: a suspended device blocks its users.
    for (const { volumeId } of members) await this.deps.devices.resume(volumeId);
    for (const { snapshotId } of members) await this.delete(snapshotId);
  }

  /**
   * The roots are read while both snapshots exist; the scan holds no metadata snapshot. Nobody writes to a
   * snapshot, so its tree keeps its root and its nodes until it is deleted: the roots of the last commit are
   * those that a metadata snapshot would show. Each chunk of the scan proves at its end, after its last read,
   * that the superblock still leads to these roots.
   */
  async scan(targetId: string, baseId: string | null): Promise<SnapshotScan> {
    const { ledger, bookmarks, metadataPath } = this.deps;
    const target = await this.record(targetId);
    const base = baseId === null ? null : await ledger.device(baseId);
    const lists = baseId === null || base !== null ? null : await this.#lists(target, baseId);
    if (lists !== null) return lists;
    const bookmark =
      baseId === null || base !== null ? null : await bookmarks.source(baseId, target);
    if (baseId !== null && base === null && bookmark === null) throw this.#lost(baseId);
    const wanted = [target, ...(base === null ? [] : [base])];
    const found = await this.#find(wanted);
    const source: ThinScanSource = {
      kind: 'thin',
      metadata: metadataPath,
      superblock: CURRENT,
      sizeBytes: target.sizeBytes,
      target: this.#rootOf(target, found),
      base: base === null ? null : this.#rootOf(base, found),
      bookmark,
    };
    return directScan(source, { targetBytes: target.sizeBytes });
  }

  /** From a deleted base; null: no lists begin there. */
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
      ...{ targetBytes: sizeBytes, baseBytes: null, direct: null },
      discard: (path) => this.#discard(path),
      again: () => this.scan(targetId, baseId),
    });
  }

  async #discard(path: string): Promise<void> {
    const { lists, rules } = this.deps;
    const ends = lists.lists.endsOf(path);
    if (ends !== null) await rules.discard(ends);
  }

  /** Asks the pool, in its queue, only for what the last commit does not show beyond doubt. */
  async #find(records: readonly DeviceRecord[]): Promise<FoundDevices> {
    const { metadata } = this.deps;
    const ids = records.map(({ deviceId }) => deviceId);
    const committed = await metadata.committedDevices(ids);
    const isComplete = records.every(
      ({ deviceId, madeAt }) => committed?.get(deviceId)?.transactionId === madeAt,
    );
    return committed !== null && isComplete ? committed : metadata.devices(ids);
  }

  #rootOf(record: DeviceRecord, found: FoundDevices): ThinDeviceRef {
    const device = found.get(record.deviceId);
    if (device?.transactionId !== record.madeAt) throw this.#lost(record.objectId);
    return { deviceId: record.deviceId, root: device.root };
  }

  #lost(snapshotId: string): CsiError {
    return lostSnapshot(snapshotId, this.deps.poolName);
  }
}
