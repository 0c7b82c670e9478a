/** Finds the backup that a command means, by volume and snapshot. */
import { CsiError } from '../../base/errors.js';
import { chainOf, type VolumeBackups } from './chains.js';
import type { Repository } from './repository.js';
import type { Backup } from './stored-backup.js';

export interface BackupChoice {
  /** Empty for the only volume, or the only volume with a backup of the snapshot. */
  readonly volumeId: string;
  /** Empty for the newest backup. */
  readonly snapshotId: string;
}

export interface ChosenBackup {
  readonly volume: VolumeBackups;
  readonly backup: Backup;
  /** The full backup first. */
  readonly chain: readonly Backup[];
}

/** Throws NOT_FOUND if there is no such backup, FAILED_PRECONDITION if its chain is not complete or the choice is not clear. */
export async function chooseBackup(
  repository: Repository,
  { volumeId, snapshotId }: BackupChoice,
): Promise<ChosenBackup> {
  const volume = await chooseVolume(repository, volumeId, snapshotId);
  const { backups, directory, problems } = volume;
  const backup =
    snapshotId === '' ? backups.at(-1) : backups.find(({ manifest }) => manifest.snapshot.id === snapshotId);
  if (backup === undefined) {
    const damaged = problems.map(({ found }) => `; ${found}`).join('');
    const which = snapshotId === '' ? 'any snapshot' : `snapshot ${snapshotId}`;
    throw CsiError.notFound(`${directory} has no backup of ${which}${damaged}`);
  }
  return { volume, backup, chain: chainOf(backup, volume) };
}

async function chooseVolume(repository: Repository, volumeId: string, snapshotId: string): Promise<VolumeBackups> {
  if (volumeId !== '') return repository.backupsOf(volumeId);
  const volumes = await repository.all();
  const holding = volumes.filter(
    ({ backups }) => snapshotId === '' || backups.some(({ manifest }) => manifest.snapshot.id === snapshotId),
  );
  const [first, ...others] = holding;
  if (first !== undefined && others.length === 0) return first;
  if (first === undefined) {
    const what = snapshotId === '' ? 'no backups' : `no backup of snapshot ${snapshotId}`;
    throw CsiError.notFound(
      `${repository.location} has ${what}; name the directory that \`backup --to\` was given, not that of one volume in it`,
    );
  }
  const ids = holding.map((each) => each.volumeId).join(', ');
  throw CsiError.failedPrecondition(
    `${repository.location} has backups of several volumes (${ids}); name one with --volume`,
  );
}
