/**
 * Finds which backup is based on which. A manifest names the snapshot of its base and not a file, because pruning gives
 * a snapshot a new image and never changes an image. Reads no files.
 */
import { join } from 'node:path';
import { CsiError } from '../../base/errors.js';
import { CHAIN_MAX } from '../nbd/image-chain.js';
import { snapshotStem } from './file-names.js';
import type { BackupImages } from './images.js';
import type { BaseName, Manifest } from './manifest.js';
import type { Backup, Problem } from './stored-backup.js';

export interface VolumeBackups {
  readonly volumeId: string;
  readonly directory: string;
  /** One backup of each snapshot, sorted by the creation times of the snapshots, oldest first. */
  readonly backups: readonly Backup[];
  /** Backups that nobody needs, because `backups` has another, complete backup of the same snapshot. */
  readonly superseded: readonly Backup[];
  /** Manifests that cannot be read, or contradict their place or each other. */
  readonly problems: readonly Problem[];
  /** Those that another command is about to remove: nothing may be based on them any more. */
  readonly leaving: ReadonlySet<Backup>;
  readonly images: BackupImages;
}

/** Names the backup as the base of another backup. */
export function baseNameOf({ manifest }: Backup): BaseName {
  const { driver, snapshot } = manifest;
  return { driver: driver.name, snapshotId: snapshot.id, creationTime: snapshot.creationTime };
}

const keyOf = ({ driver, snapshotId, creationTime }: BaseName): string =>
  JSON.stringify([driver, snapshotId, Date.parse(creationTime)]);

/** Returns the backups whose images, and those of backups of all snapshots that they are based on, exist. Sorted as below. */
export function completeAmong(
  all: readonly Backup[],
  hasImage: (image: Manifest['image']) => boolean,
): ReadonlySet<Backup> {
  const complete = new Set<Backup>();
  const keys = new Set<string>();
  for (const backup of all) {
    const { base, image } = backup.manifest;
    if (!hasImage(image) || (base !== null && !keys.has(keyOf(base)))) continue;
    complete.add(backup);
    keys.add(keyOf(baseNameOf(backup)));
  }
  return complete;
}

/** Whether a base with that name is the backup, or another one of its snapshot, which serves as well. */
export const isNamed = (backup: Backup, base: BaseName): boolean => keyOf(baseNameOf(backup)) === keyOf(base);

/**
 * Chooses one backup of each snapshot: the newest whose image and bases all exist, or else the newest.
 *
 * @param all sorted by the times of the snapshots; backups of one snapshot are sorted by age, oldest first
 * @param hasImage whether the image of a manifest is there
 * @returns `superseded`: the other backups of snapshots that have a complete backup
 */
export function chooseComplete(
  all: readonly Backup[],
  hasImage: (image: Manifest['image']) => boolean,
): { backups: Backup[]; superseded: Backup[] } {
  const complete = completeAmong(all, hasImage);
  const chosen = new Map<string, { backup: Backup; isComplete: boolean; others: Backup[] }>();
  for (const backup of all) {
    const isComplete = complete.has(backup);
    const key = keyOf(baseNameOf(backup));
    const known = chosen.get(key);
    if (known === undefined) chosen.set(key, { backup, isComplete, others: [] });
    else if (isComplete || !known.isComplete) {
      chosen.set(key, { backup, isComplete, others: [...known.others, known.backup] });
    } else known.others.push(backup);
  }
  const found = [...chosen.values()];
  return {
    backups: found.map(({ backup }) => backup),
    superseded: found.filter(({ isComplete }) => isComplete).flatMap(({ others }) => others),
  };
}

/**
 * Returns the backup and all backups below it, the full backup first. Throws FAILED_PRECONDITION if a link of the chain
 * is missing (the message names it), if a base is larger than the backup on it, or if the chain exceeds CHAIN_MAX.
 */
export function chainOf(backup: Backup, { backups, directory }: VolumeBackups): Backup[] {
  const bySnapshot = indexOf(backups);
  const path = (of: Backup): string => join(directory, of.name);
  const chain = [backup];
  for (;;) {
    const first = chain.at(-1) as Backup;
    const { base, volume } = first.manifest;
    if (base === null) return chain.reverse();
    const below = bySnapshot.get(keyOf(base));
    if (below === undefined) {
      throw CsiError.failedPrecondition(
        `the backup ${path(first)} is based on ${snapshotStem(base.snapshotId, new Date(base.creationTime))}, that of snapshot ` +
          `${base.snapshotId}, which is missing or damaged: restore its files from another copy, or use an older backup`,
      );
    }
    if (below.manifest.volume.sizeBytes > volume.sizeBytes) {
      throw CsiError.failedPrecondition(
        `the backup ${path(first)} is of ${volume.sizeBytes} bytes and based on ${path(below)} of ` +
          `${below.manifest.volume.sizeBytes}: a volume does not shrink, so one of them was not made by this program`,
      );
    }
    if (chain.length === CHAIN_MAX) {
      throw CsiError.failedPrecondition(
        `the backup ${path(backup)} is based on more than ${CHAIN_MAX - 1} others, or on itself by way of ${path(below)}`,
      );
    }
    chain.push(below);
  }
}

const indexes = new WeakMap<readonly Backup[], ReadonlyMap<string, Backup>>();

/** Builds the index once for all chains of a volume, because there may be as many chains as backups. */
function indexOf(backups: readonly Backup[]): ReadonlyMap<string, Backup> {
  const known = indexes.get(backups) ?? new Map(backups.map((each) => [keyOf(baseNameOf(each)), each]));
  indexes.set(backups, known);
  return known;
}
