/**
 * The snapshots of a thin pool: thin devices that are never activated, so nothing can write to them. Whoever reads a snapshot
 * as a block device gets a copy of it, which the ledger knows and the next start removes.
 */
import { randomBytes } from 'node:crypto';
import { bestEffort, unreported } from '../../../base/best-effort.js';
import { CsiError } from '../../../base/errors.js';
import type { OpenSnapshot, PoolSnapshots, SnapshotMember, TakenSnapshots } from '../backend.js';
import type { ListRules } from '../retained/list-rules.js';
import { rootOf, snapshotRecord, volumeRecord } from './device-records.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { PoolParts } from './pool-parts.js';
import type { ThinCopies } from './thin-copies.js';

export interface SnapshotDependencies extends PoolParts {
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
    const { pool } = this.deps;
    const record = await this.#whole(snapshotId);
    if (record.sizeBytes === sizeBytes) return;
    throw CsiError.failedPrecondition(
      `snapshot ${snapshotId} should have ${sizeBytes} bytes, but the ledger of pool ` +
        `'${pool.pool}' has ${record.sizeBytes}; restore catalogue and ledger from the same point in time`,
    );
  }

  async open(snapshotId: string): Promise<OpenSnapshot> {
    return openCopy(this.deps, snapshotId, await this.#whole(snapshotId));
  }

  /** Removes what a killed process had open, and returns the ids. */
  async sweep(): Promise<string[]> {
    const opened = (await this.deps.ledger.devices()).filter(({ kind }) => kind === 'opened');
    for (const { objectId } of opened) await closeCopy(this.deps, objectId);
    return opened.map(({ objectId }) => objectId);
  }

  async #whole(snapshotId: string): Promise<DeviceRecord> {
    const { metadata, pool } = this.deps;
    const record = await snapshotRecord(this.deps, snapshotId);
    rootOf(record, await metadata.devices([record.deviceId]), pool);
    return record;
  }
}

/** A copy of a device that is never activated itself, as a block device that refuses writes. The next start removes what is left. */
export async function openCopy(
  deps: Pick<SnapshotDependencies, 'copies' | 'devices' | 'ledger' | 'transactions'>,
  snapshotId: string,
  source: DeviceRecord,
): Promise<OpenSnapshot> {
  const objectId = `${snapshotId}.opened-${randomBytes(4).toString('hex')}`;
  const { sizeBytes } = source;
  const copy = await deps.copies.fork({ objectId, kind: 'opened', sizeBytes, lineage: objectId }, source);
  const close = () => closeCopy(deps, objectId);
  try {
    return { path: (await deps.devices.activate(copy, true)).path, close };
  } catch (thrown) {
    await bestEffort(close, unreported);
    throw thrown;
  }
}

async function closeCopy(
  { devices, ledger, transactions }: Parameters<typeof openCopy>[0],
  objectId: string,
): Promise<void> {
  await devices.release(objectId);
  await transactions.settle();
  if ((await ledger.device(objectId)) !== null) await transactions.delete(objectId);
}
