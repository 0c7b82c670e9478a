/**
 * Finds the backups on which a new backup may be based: a named one, or those of older snapshots of the volume. All
 * their images must exist. Each excluded backup has a reason, which the new backup records. Reads no image.
 */
import { CsiError, messageOf, StatusCode } from '../../base/errors.js';
import type { CsiDriver } from '../client/csi-driver.js';
import { describeSnapshot, type SnapshotInfo } from '../client/snapshot-info.js';
import { CHAIN_MAX } from '../nbd/image-chain.js';
import { chainOf, type VolumeBackups } from './chains.js';
import type { BackupImages } from './images.js';
import type { Manifest } from './manifest.js';
import { type Backup, imagePathOf } from './stored-backup.js';

/** 'auto': the newest backup from which the driver gives a delta; 'none': a full backup; otherwise one snapshot's backup. */
export type BaseChoice = 'auto' | 'none' | { readonly snapshotId: string };

export interface Bases {
  /** In the order of the attempts. `problem` says why the backup cannot be the base; null if nothing is known against it. */
  readonly candidates: readonly { readonly backup: Backup; readonly problem: string | null }[];
  /** Why there are no other candidates. */
  readonly reasons: readonly string[];
}

/** The largest number of candidates. The driver is asked for a delta from each until it gives one. */
const MAX_BASES = 30;

interface Target {
  driver: CsiDriver;
  driverName: string;
  snapshot: SnapshotInfo;
  /** The size of the device that is copied. */
  sizeBytes: bigint;
}

/** Throws NOT_FOUND if the choice is a snapshot without a backup. */
export async function findBases(choice: BaseChoice, volume: VolumeBackups, target: Target): Promise<Bases> {
  if (choice === 'none') return { candidates: [], reasons: [] };
  const candidates: Bases['candidates'][number][] = [];
  for (const backup of candidatesOf(choice, volume, target.snapshot).slice(0, MAX_BASES)) {
    candidates.push({ backup, problem: await unusable(backup, volume, target) });
  }
  const reasons = volume.problems.map(({ found }) => found);
  if (candidates.length === 0) reasons.push('there is no backup of an earlier snapshot of the volume');
  return { candidates, reasons };
}

function candidatesOf(
  choice: Exclude<BaseChoice, 'none'>,
  { backups, volumeId, directory }: VolumeBackups,
  snapshot: SnapshotInfo,
): Backup[] {
  if (choice === 'auto') {
    const isEarlier = ({ manifest }: Backup): boolean =>
      Date.parse(manifest.snapshot.creationTime) < snapshot.creationTime.getTime();
    return backups.filter(isEarlier).reverse();
  }
  const found = backups.find(({ manifest }) => manifest.snapshot.id === choice.snapshotId);
  if (found !== undefined) return [found];
  throw CsiError.notFound(
    `${directory} has no backup of snapshot ${choice.snapshotId} of volume ${volumeId}: name a snapshot that has ` +
      'one, or let the base be chosen with --base auto',
  );
}

/** Returns why the backup cannot be the base, or null if nothing is known against it. */
async function unusable(backup: Backup, volume: VolumeBackups, target: Target): Promise<string | null> {
  const { manifest } = backup;
  const { id } = manifest.snapshot;
  if (manifest.driver.name !== target.driverName) {
    return `the backup of snapshot ${id} was made with the driver ${manifest.driver.name}`;
  }
  if (manifest.volume.sizeBytes > target.sizeBytes) {
    return `the backup of snapshot ${id} is of ${manifest.volume.sizeBytes} bytes, more than this snapshot has`;
  }
  let chain: Backup[];
  try {
    chain = chainOf(backup, volume);
  } catch (thrown) {
    return CsiError.from(thrown).message;
  }
  if (chain.length >= CHAIN_MAX) {
    return `the backup of snapshot ${id} is based on ${chain.length - 1} others, and a chain has at most ${CHAIN_MAX}`;
  }
  // Only verify checks the checksums.
  for (const link of chain) {
    if (volume.leaving.has(link)) return `another command is removing ${imagePathOf(link)}`;
    const problem = await problemOf(link, volume.images);
    if (problem !== null) return problem;
  }
  return (await isReplaced(manifest.snapshot, target.driver))
    ? `snapshot ${id} of the driver is not the one that the backup is of: its creation time differs`
    : null;
}

async function problemOf(backup: Backup, images: BackupImages): Promise<string | null> {
  try {
    await images.examine(backup);
    return null;
  } catch (thrown) {
    return `${imagePathOf(backup)}: ${messageOf(thrown)}`;
  }
}

const SAYS_NOTHING: readonly StatusCode[] = [
  StatusCode.NOT_FOUND,
  StatusCode.FAILED_PRECONDITION,
  StatusCode.UNIMPLEMENTED,
];

/** Whether another snapshot has the id by now. A delta from that snapshot would not fit the backup. */
export async function isReplaced(snapshot: Manifest['snapshot'], driver: CsiDriver): Promise<boolean> {
  try {
    const { creationTime } = await describeSnapshot(driver, snapshot.id);
    return creationTime.getTime() !== Date.parse(snapshot.creationTime);
  } catch (thrown) {
    const { code } = CsiError.from(thrown);
    // The snapshot may be deleted but retained as a base, or not ready (its delta will show that), or the driver cannot say.
    if (SAYS_NOTHING.includes(code)) return false;
    throw thrown;
  }
}
