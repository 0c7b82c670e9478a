/** Asks a driver about its snapshots. */
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
  return infoOf(found);
}

/** Also those that are not ready to use. Throws UNIMPLEMENTED if the driver has no ListSnapshots. */
export async function listSnapshots(driver: CsiDriver): Promise<SnapshotInfo[]> {
  const entries = await entriesOf(driver, 'ListSnapshots', 'LIST_SNAPSHOTS');
  if (entries !== null) return entries.map((entry) => infoOf(entry['snapshot'] as Message));
  throw CsiError.unimplemented(
    'the driver has no LIST_SNAPSHOTS, so it cannot say which snapshots there are; name them',
  );
}

/** The ids of its volumes; null if the driver has no ListVolumes. */
export async function listVolumeIds(driver: CsiDriver): Promise<string[] | null> {
  const entries = await entriesOf(driver, 'ListVolumes', 'LIST_VOLUMES');
  return entries?.map((entry) => String(entry['volume']?.volume_id)) ?? null;
}

/** All entries of a list; null if the driver does not have it. */
export async function entriesOf(driver: CsiDriver, rpc: string, capability: string): Promise<Message[] | null> {
  if (!(await driver.info()).controller.has(capability)) return null;
  const entries: Message[] = [];
  let token = '';
  do {
    const page = await driver.call(rpc, { starting_token: token });
    entries.push(...(page['entries'] as Message[]));
    token = String(page['next_token'] ?? '');
  } while (token !== '');
  return entries;
}

function infoOf(snapshot: Message): SnapshotInfo {
  const { seconds = 0, nanos = 0 } = (snapshot['creation_time'] ?? {}) as Message;
  return {
    snapshotId: String(snapshot['snapshot_id']),
    volumeId: String(snapshot['source_volume_id']),
    sizeBytes: BigInt(snapshot['size_bytes'] ?? 0),
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
