/** What the ledger and the metadata of a thin pool say of one volume or snapshot. */
import { CsiError } from '../../../base/errors.js';
import type { ThinDeviceRef } from '../../native/thin-addon.js';
import { lostSnapshot, lostVolume } from '../lost-objects.js';
import type { DeviceRecord } from './ledger/ledger.js';
import type { AsyncLedger } from './ledger/ledger-client.js';
import type { FoundDevices } from './metadata/metadata-reader.js';

type Devices = Pick<AsyncLedger, 'device'>;

/**
 * FAILED_PRECONDITION if the pool has lost it.
 *
 * @param pool the configured name of the pool
 */
export async function volumeRecord(
  ledger: Devices,
  pool: string,
  volumeId: string,
): Promise<DeviceRecord> {
  const record = await ledger.device(volumeId);
  if (record?.kind === 'volume') return record;
  throw lostVolume(volumeId, pool);
}

/** FAILED_PRECONDITION if the volume is smaller. By the ledger alone: if the pool has lost the device, attaching it fails. */
export function assertWhole(record: DeviceRecord, pool: string, sizeBytes: bigint): void {
  if (record.sizeBytes >= sizeBytes) return;
  throw CsiError.failedPrecondition(
    `volume ${record.objectId} should have ${sizeBytes} bytes, but the ledger of pool ` +
      `'${pool}' has ${record.sizeBytes}; restore catalogue and ledger from the same point in time`,
  );
}

/** As volumeRecord. */
export async function snapshotRecord(
  ledger: Devices,
  pool: string,
  snapshotId: string,
): Promise<DeviceRecord> {
  const record = await ledger.device(snapshotId);
  if (record?.kind === 'snapshot') return record;
  throw lostSnapshot(snapshotId, pool);
}

/** The tree of a snapshot's device. FAILED_PRECONDITION if the metadata have no such device, or another one by now. */
export function rootOf(record: DeviceRecord, found: FoundDevices, pool: string): ThinDeviceRef {
  const device = found.get(record.deviceId);
  if (device?.transactionId !== record.madeAt) throw lostSnapshot(record.objectId, pool);
  return { deviceId: record.deviceId, root: device.root };
}
