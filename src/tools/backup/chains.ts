/**
 * Which backup is based on which. A manifest names the snapshot that its image is based on, and not a file, because
 * pruning gives a snapshot a new image and never changes one. Reads no files.
 */
import { join } from 'node:path';
import { CsiError } from '../../base/errors.js';
import { CHAIN_MAX, type ImageChain } from '../nbd/image-chain.js';
import { snapshotStem } from './file-names.js';
import type { BaseName, Manifest } from './manifest.js';

export interface Backup {
  readonly manifest: Manifest;
  /** Name of the manifest's file. */
  readonly name: string;
  /** The directory of its volume. */
  readonly directory: string;
}

/** Something that is not as it should be, named by its path. */
export interface Problem {
  readonly path: string;
  readonly found: string;
}

export interface VolumeBackups {
  readonly volumeId: string;
  readonly directory: string;
  /** One of each snapshot, by the creation time of the snapshots, oldest first. */
  readonly backups: readonly Backup[];
  /** Others of snapshots that have a complete one among `backups`: nobody needs them. */
  readonly superseded: readonly Backup[];
  /** Manifests that cannot be read, or contradict their place or each other. */
  readonly problems: readonly Problem[];
}

/** As the base of another backup. */
export function baseNameOf({ manifest }: Backup): BaseName {
  const { driver, snapshot } = manifest;
  return { driver: driver.name, snapshotId: snapshot.id, creationTime: snapshot.creationTime };
}

const keyOf = ({ driver, snapshotId, creationTime }: BaseName): string =>
  JSON.stringify([driver, snapshotId, Date.parse(creationTime)]);

/**
 * One backup of each snapshot: the newest whose image and whose bases are all there.
 *
 * @param all by the times of their snapshots, and those of one snapshot by age, oldest first
 * @param files names in the directory
 * @returns `superseded`: the others of snapshots that have a complete one
 */
export function chooseComplete(
  all: readonly Backup[],
  files: ReadonlySet<string>,
): { backups: Backup[]; superseded: Backup[] } {
  const chosen = new Map<string, { backup: Backup; isComplete: boolean; others: Backup[] }>();
  for (const backup of all) {
    const { base, image } = backup.manifest;
    const isComplete = files.has(image.file) && (base === null || chosen.get(keyOf(base))?.isComplete === true);
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
 * The backup and all that it is based on, the full one first. FAILED_PRECONDITION that names the missing link if the
 * chain is not complete.
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

export function imagesOf(chain: readonly Backup[]): ImageChain {
  return chain.map(imagePathOf).reverse();
}

export const imagePathOf = ({ directory, manifest }: Backup): string => join(directory, manifest.image.file);

const indexes = new WeakMap<readonly Backup[], ReadonlyMap<string, Backup>>();

/** Made once for all chains of a volume: there may be as many as backups. */
function indexOf(backups: readonly Backup[]): ReadonlyMap<string, Backup> {
  const known = indexes.get(backups) ?? new Map(backups.map((each) => [keyOf(baseNameOf(each)), each]));
  indexes.set(backups, known);
  return known;
}
