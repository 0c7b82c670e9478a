/**
 * The snapshots of a thin pool: thin devices that are never activated, so nothing can write to them.
 */
import { CsiError } from '../../../base/errors.js';
import type { PoolSnapshots, SnapshotMember, TakenSnapshots } from '../backend.js';
import type { ListRules } from '../retained/list-rules.js';
import { rootOf, snapshotRecord, volumeRecord } from './device-records.js';
import type { PoolParts } from './pool-parts.js';
import type { ThinCopies } from './thin-copies.js';

export interface SnapshotDependencies extends Omit<PoolParts, 'devices'> {
  copies: ThinCopies;
  rules: ListRules;
}

export class ThinSnapshots implements PoolSnapshots {
  constructor(private readonly deps: SnapshotDependencies) {}

  async create(members: readonly SnapshotMember[], deadline?: number): Promise<TakenSnapshots> {
    const requests = await Promise.all(
      members.map(async ({ volumeId, snapshotId }) => {
        const source = await volumeRecord(this.deps, volumeId);
        const { sizeBytes, lineage } = source;
        return {
          source,
          copy: { objectId: snapshotId, kind: 'snapshot', sizeBytes, lineage } as const,
        };
      }),
    );
    const creationTimeNs = await this.deps.copies.take(requests, deadline);
    return { creationTimeNs, sizesBytes: requests.map(({ copy }) => copy.sizeBytes) };
  }

  async delete(snapshotId: string): Promise<void> {
    const { ledger, transactions } = this.deps;
    await transactions.settle();
    if ((await ledger.device(snapshotId)) !== null) await transactions.delete(snapshotId);
    await this.deps.rules.removed(snapshotId);
  }

  async check(snapshotId: string, sizeBytes: bigint): Promise<void> {
    const { metadata, pool } = this.deps;
    const record = await snapshotRecord(this.deps, snapshotId);
    rootOf(record, await metadata.devices([record.deviceId]), pool);
    if (record.sizeBytes === sizeBytes) return;
    throw CsiError.failedPrecondition(
      `snapshot ${snapshotId} should have ${sizeBytes} bytes, but the ledger of pool ` +
        `'${pool.pool}' has ${record.sizeBytes}; restore catalogue and ledger from the same point in time`,
    );
  }
}
