/**
 * What cutting one snapshot and cutting a group of them have in common: the rows come first in state
 * `creating`, then all are cut at one point in time, then all rows become `ready` at once.
 *
 * Knows neither names nor requests; whoever calls holds the locks of the volumes.
 */
import type { Backend, SnapshotMember, TakenSnapshots } from '../backends/backend.js';
import { bestEffort } from '../base/best-effort.js';
import { CsiError } from '../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { NewSnapshot, SnapshotRecord, VolumeRecord } from '../catalogue/records.js';
import { newSnapshotId } from '../domain/identifiers.js';
import { isPristine } from './first-use.js';
import { type LockRequest, volumeKey } from './operation-locks.js';
import { volumeDeleting } from './ready-volume.js';

/**
 * A volume that can be cut. Throws NOT_FOUND for any other id, FAILED_PRECONDITION for one that is being
 * deleted; `field` is where it was asked for.
 */
export async function findSourceVolume(
  catalogue: AsyncCatalogue,
  volumeId: string,
  field: string,
): Promise<VolumeRecord> {
  const volume = await catalogue.volumeById(volumeId);
  if (volume?.state === 'deleting') throw volumeDeleting(volumeId);
  if (volume?.state !== 'ready') {
    throw CsiError.notFound(`${field}: volume ${volumeId} does not exist on this node`);
  }
  return volume;
}

type Belonging = Pick<NewSnapshot, 'name' | 'groupSnapshotId' | 'parameters'>;

/** The row of a snapshot that is about to be cut. FAILED_PRECONDITION if the pool does not hold the whole volume. */
export async function pendingSnapshot(
  { backend, nodeKey }: { backend: Backend; nodeKey: string },
  volume: VolumeRecord,
  belonging: Belonging,
): Promise<NewSnapshot> {
  await backend.checkVolume(volume.volumeId, volume.sizeBytes);
  return {
    ...belonging,
    snapshotId: newSnapshotId(nodeKey),
    volumeId: volume.volumeId,
    pool: volume.pool,
    sizeBytes: volume.sizeBytes,
    state: 'creating',
    creationTimeNs: 0n,
    pristine: await isPristine(backend, volume),
  };
}

export interface Cutting<T> {
  backend: Backend;
  snapshots: readonly SnapshotRecord[];
  /** Makes the rows ready. */
  commit(cut: TakenSnapshots): Promise<T>;
  /** Drops the rows. */
  forget(): Promise<void>;
}

/** Cuts what has rows. A failure leaves neither files nor rows behind. */
export async function takeSnapshots<T>({
  backend,
  snapshots,
  commit,
  forget,
}: Cutting<T>): Promise<T> {
  try {
    const cut = await backend.createSnapshots(membersOf(snapshots));
    assertWhole(snapshots, cut);
    return await commit(cut);
  } catch (thrown) {
    await bestEffort(async () => {
      for (const { snapshotId } of snapshots) await backend.deleteSnapshot(snapshotId);
      await forget();
    });
    throw thrown;
  }
}

/** A volume may have grown since its size was recorded; what is smaller lacks some of its content. */
function assertWhole(snapshots: readonly SnapshotRecord[], cut: TakenSnapshots): void {
  for (const [index, { volumeId, sizeBytes }] of snapshots.entries()) {
    const found = sizeAt(cut, index);
    if (found >= sizeBytes) continue;
    throw CsiError.failedPrecondition(
      `the snapshot of volume ${volumeId} would have ${found} bytes and the volume should have ` +
        `${sizeBytes}: it was cut short behind the plugin; restore it from a snapshot or a backup`,
    );
  }
}

/** The real size of the snapshot with that place in the list of those that were cut. */
export function sizeAt(cut: TakenSnapshots, index: number): bigint {
  const sizeBytes = cut.sizesBytes[index];
  if (sizeBytes === undefined) throw CsiError.internal(`the cut has no size for member ${index}`);
  return sizeBytes;
}

export const membersOf = (snapshots: readonly SnapshotRecord[]): SnapshotMember[] =>
  snapshots.map(({ volumeId, snapshotId }) => ({ volumeId, snapshotId }));

/** Locks of the snapshots' volumes, but of those that the caller has locked already. */
export function otherVolumes(
  snapshots: readonly SnapshotRecord[],
  lockedIds: readonly string[],
): LockRequest[] {
  const ids = new Set(snapshots.map(({ volumeId }) => volumeId));
  return [...ids].filter((volumeId) => !lockedIds.includes(volumeId)).map(volumeKey);
}

/** Throws FAILED_PRECONDITION, for a snapshot that must not be deleted now. */
export function refuseInUse(snapshotId: string): never {
  throw CsiError.failedPrecondition(
    `snapshot ${snapshotId} is being read (a metadata stream or a restore); try again when it has ended`,
  );
}
