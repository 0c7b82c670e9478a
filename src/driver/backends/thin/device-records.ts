/** What the ledger and the metadata of a thin pool say of one volume or snapshot. */
import { CsiError } from '../../../base/errors.js';
import type { ThinDeviceDetails, ThinDeviceRef } from '../../native/thin-addon.js';
import { lostSnapshot, lostVolume } from '../lost-objects.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import type { FoundDevices } from './metadata/metadata-reader.js';
import type { ThinPool } from './pool/thin-pool.js';

interface RecordedPool {
  ledger: Pick<AsyncLedger, 'device'>;
  pool: Pick<ThinPool, 'pool'>;
}

/** FAILED_PRECONDITION if the pool has lost the volume. */
export async function volumeRecord({ ledger, pool }: RecordedPool, volumeId: string): Promise<DeviceRecord> {
  const record = await ledger.device(volumeId);
  if (record?.kind === 'volume') return record;
  throw lostVolume(volumeId, pool.pool);
}

/** FAILED_PRECONDITION if the volume is smaller. Asks only the ledger: if the pool has lost the device, attaching it fails. */
export function assertWhole(record: DeviceRecord, pool: string, sizeBytes: bigint): void {
  if (record.sizeBytes >= sizeBytes) return;
  throw CsiError.failedPrecondition(
    `volume ${record.objectId} should have ${sizeBytes} bytes, but the ledger of pool ` +
      `'${pool}' has ${record.sizeBytes}; restore catalogue and ledger from the same point in time`,
  );
}

/** FAILED_PRECONDITION if the pool has lost the snapshot. */
export async function snapshotRecord({ ledger, pool }: RecordedPool, snapshotId: string): Promise<DeviceRecord> {
  const record = await ledger.device(snapshotId);
  if (record?.kind === 'snapshot') return record;
  throw lostSnapshot(snapshotId, pool.pool);
}

/** The tree of a snapshot's device. FAILED_PRECONDITION if the metadata has no such device, or another one by now. */
export function rootOf(record: DeviceRecord, found: FoundDevices, pool: RecordedPool['pool']): ThinDeviceRef {
  const { deviceId, root } = assertOwn(record, found.get(record.deviceId), pool);
  return { deviceId, root };
}

/** Returns the device if it is that of the snapshot; FAILED_PRECONDITION otherwise. */
export function assertOwn(
  { objectId, deviceId, madeAt }: DeviceRecord,
  device: ThinDeviceDetails | null | undefined,
  { pool }: RecordedPool['pool'],
): ThinDeviceDetails {
  if (device?.transactionId === madeAt) return device;
  throw CsiError.failedPrecondition(
    `snapshot ${objectId} is lost: pool '${pool}' has no device for it, because device ${deviceId} is gone or is that ` +
      'of another object; make a full backup of another snapshot',
  );
}
