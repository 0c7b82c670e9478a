/**
 * The snapshots of a thin pool: thin devices that are never activated, so nothing can write to them.
 */
import { CsiError } from '../../../base/errors.js';
import type { PoolSnapshots, SnapshotMember, TakenSnapshots } from '../backend.js';
import type { ListRules } from '../retained/list-rules.js';
import { rootOf, snapshotRecord, volumeRecord } from './device-records.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import type { MetadataReader } from './metadata/metadata-reader.js';
import type { PoolTransactions } from './pool/pool-transaction.js';
import type { ThinCopies } from './thin-copies.js';

export interface SnapshotDependencies {
  /** The configured name of the pool. */
  poolName: string;
  ledger: AsyncLedger;
  metadata: MetadataReader;
  transactions: PoolTransactions;
  copies: ThinCopies;
  rules: ListRules;
}

export class ThinSnapshots implements PoolSnapshots {
  constructor(private readonly deps: SnapshotDependencies) {}

  async create(members: readonly SnapshotMember[], deadline?: number): Promise<TakenSnapshots> {
    const { copies, ledger, poolName } = this.deps;
    const requests = await Promise.all(
      members.map(async ({ volumeId, snapshotId }) => {
        const source = await volumeRecord(ledger, poolName, volumeId);
        const { sizeBytes, lineage } = source;
        return {
          source,
          copy: { objectId: snapshotId, kind: 'snapshot', sizeBytes, lineage } as const,
        };
      }),
    );
    const creationTimeNs = await copies.take(requests, deadline);
    return { creationTimeNs, sizesBytes: requests.map(({ copy }) => copy.sizeBytes) };
  }

  async delete(snapshotId: string): Promise<void> {
    const { ledger, transactions } = this.deps;
    await transactions.settle();
    if ((await ledger.device(snapshotId)) !== null) await transactions.delete(snapshotId);
    await this.deps.rules.removed(snapshotId);
  }

  async check(snapshotId: string, sizeBytes: bigint): Promise<void> {
    const record = await this.#record(snapshotId);
    rootOf(record, await this.deps.metadata.devices([record.deviceId]), this.deps.poolName);
    if (record.sizeBytes === sizeBytes) return;
    throw CsiError.failedPrecondition(
      `snapshot ${snapshotId} should have ${sizeBytes} bytes, but the ledger of pool ` +
        `'${this.deps.poolName}' has ${record.sizeBytes}; restore catalogue and ledger from the same point in time`,
    );
  }

  #record(snapshotId: string): Promise<DeviceRecord> {
    const { ledger, poolName } = this.deps;
    return snapshotRecord(ledger, poolName, snapshotId);
  }
}
