/** Asks a driver about one snapshot. */
import { CsiError } from '../../base/errors.js';
import type { CsiDriver, Message } from './csi-driver.js';

export interface SnapshotInfo {
  readonly snapshotId: string;
  readonly volumeId: string;
  /** 0 if the driver does not report the size. */
  readonly sizeBytes: bigint;
  readonly creationTime: Date;
}

/**
 * Uses ListSnapshots, or GetSnapshot if the driver has no ListSnapshots. Throws NOT_FOUND if there is no such snapshot,
 * FAILED_PRECONDITION if it is not ready to use, UNIMPLEMENTED if the driver has neither call.
 */
export async function describeSnapshot(driver: CsiDriver, snapshotId: string): Promise<SnapshotInfo> {
  const found = await find(driver, snapshotId);
  if (found === null) throw CsiError.notFound(`the driver has no snapshot ${snapshotId}`);
  if (found['ready_to_use'] === false) {
    throw CsiError.failedPrecondition(`snapshot ${snapshotId} is not ready to use; try again when it is`);
  }
  const { seconds = 0, nanos = 0 } = (found['creation_time'] ?? {}) as Message;
  return {
    snapshotId,
    volumeId: String(found['source_volume_id']),
    sizeBytes: BigInt(found['size_bytes'] ?? 0),
    creationTime: new Date(Number(seconds) * 1000 + Math.floor(Number(nanos) / 1_000_000)),
  };
}

async function find(driver: CsiDriver, snapshotId: string): Promise<Message | null> {
  const { controller } = await driver.info();
  if (controller.has('LIST_SNAPSHOTS')) {
    const request = { snapshot_id: snapshotId };
    const { entries } = await driver.call('ListSnapshots', request);
    const found = (entries as Message[]).map((entry) => entry['snapshot'] as Message);
    return found.find((each) => each['snapshot_id'] === snapshotId) ?? null;
  }
  if (controller.has('GET_SNAPSHOT')) {
    const { snapshot } = await driver.call('GetSnapshot', { snapshot_id: snapshotId });
    return snapshot as Message;
  }
  throw CsiError.unimplemented(
    'the driver has neither LIST_SNAPSHOTS nor GET_SNAPSHOT, so it cannot say of which volume a snapshot is; ' +
      'name the volume with --volume',
  );
}
