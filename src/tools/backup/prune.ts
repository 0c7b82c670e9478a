/**
 * Removes backups that no rule keeps, and makes a chain one image. It never breaks a chain: a kept backup on top of a
 * removed one first gets another image, which includes the data that it needs from the removed backup. No existing file
 * changes, and unneeded files go last. A kill at any moment leaves every kept backup restorable, and the next run continues.
 */
import { CsiError } from '../../base/errors.js';
import { chainOf, type VolumeBackups } from './chains.js';
import { type KeepRules, kept } from './keep-rules.js';
import { rebase } from './rebase.js';
import type { Repository } from './repository.js';
import type { Backup } from './stored-backup.js';
import { examineImages, verifyBeforeReading } from './verify.js';

export interface PrunePlan {
  readonly volume: VolumeBackups;
  readonly kept: readonly Backup[];
  readonly removed: readonly Backup[];
  /** Kept backups that get another image, which is based on `onto`, or is full if `onto` is null. */
  readonly rebased: readonly { backup: Backup; onto: Backup | null }[];
  /** The backup that is to be full, and how many images its chain has: one if it is full already. */
  readonly compacted: Compacted | null;
}

interface Compacted {
  readonly backup: Backup;
  readonly images: number;
}

export type CompactPlan = PrunePlan & { readonly compacted: Compacted };

/**
 * Throws FAILED_PRECONDITION if a kept backup's chain is not complete, or a manifest is damaged. Nothing may go then.
 *
 * @param mostImages the newest backup becomes a full one if more kept ones than that would be in its chain
 */
export function planPrune(volume: VolumeBackups, rules: KeepRules, mostImages = Number.POSITIVE_INFINITY): PrunePlan {
  assertKnown(volume);
  const { backups } = volume;
  const times = backups.map(({ manifest }) => new Date(manifest.snapshot.creationTime));
  const stay = kept(times, rules);
  const isKept = (backup: Backup): boolean => stay.has(backups.indexOf(backup));
  const newest = backups.at(-1);
  const chain = newest === undefined ? [] : chainOf(newest, volume);
  const isTooLong = chain.filter(isKept).length > mostImages;
  const rebased = backups.filter(isKept).flatMap((backup) => {
    const below = chainOf(backup, volume).slice(0, -1).reverse();
    const [base] = below;
    if (base === undefined) return [];
    if (isTooLong && backup === newest) return [{ backup, onto: null }];
    return isKept(base) ? [] : [{ backup, onto: below.find(isKept) ?? null }];
  });
  return {
    volume,
    kept: backups.filter(isKept),
    removed: backups.filter((backup) => !isKept(backup)),
    rebased,
    compacted: isTooLong && newest !== undefined ? { backup: newest, images: chain.length } : null,
  };
}

/**
 * The backup becomes a full one, and no other one changes. Throws like planPrune, and NOT_FOUND if there is no such backup.
 *
 * @param snapshotId empty for the newest backup
 */
export function planCompact(volume: VolumeBackups, snapshotId: string): CompactPlan {
  assertKnown(volume);
  const { backups, directory } = volume;
  const backup = backups.findLast(({ manifest }) => ['', manifest.snapshot.id].includes(snapshotId));
  if (backup === undefined) throw CsiError.notFound(`${directory} has no backup of snapshot ${snapshotId} any more`);
  const images = chainOf(backup, volume).length;
  const rebased = images === 1 ? [] : [{ backup, onto: null }];
  return { volume, kept: backups, removed: [], rebased, compacted: { backup, images } };
}

function assertKnown({ directory, problems: [problem] }: VolumeBackups): void {
  if (problem === undefined) return;
  throw CsiError.failedPrecondition(
    `nothing changes in ${directory}, because it is not known what is based on what: ${problem.found}`,
  );
}

export interface PruneOptions {
  signal: AbortSignal;
  onBackup?(backup: Backup): void;
}

/**
 * The caller holds the lock of the volume, and made the plan under this lock. Throws FAILED_PRECONDITION before
 * anything changes if the size or header of an image that stays contradicts its manifest, or if an image from which a
 * new image is made is damaged: the checksums of the new image would make the damage look sound.
 */
export async function prune(
  repository: Repository,
  plan: PrunePlan,
  { signal, onBackup }: PruneOptions,
): Promise<void> {
  const { volume, rebased, removed } = plan;
  const { images } = volume;
  const sources = sourcesOf(plan);
  const others = plan.kept.filter((each) => !sources.includes(each));
  const [damage] = [
    ...(await examineImages(images, others, signal)),
    ...(await verifyBeforeReading(images, sources, { signal })),
  ];
  if (damage !== undefined) {
    throw CsiError.failedPrecondition(
      `nothing changes in ${volume.directory}, because backups that stay need ${damage.path}: ${damage.found}; restore ` +
        'the file from another copy, or remove its backup and those based on it',
    );
  }
  for (const { backup, onto } of rebased) {
    signal.throwIfAborted();
    onBackup?.(backup);
    await rebase(repository, volume, { backup, onto, signal });
  }
  const replaced = rebased.map(({ backup }) => backup);
  const gone = volume.backups.filter((each) => removed.includes(each) || replaced.includes(each));
  // The newest backup goes first, so that no remaining backup is ever based on a removed backup.
  for (const backup of [...gone.reverse(), ...volume.superseded]) {
    signal.throwIfAborted();
    onBackup?.(backup);
    await repository.remove(backup);
  }
}

/** Returns the backups from whose images new images are made. */
function sourcesOf({ volume, rebased }: PrunePlan): Backup[] {
  const sources = rebased.flatMap(({ backup, onto }) =>
    chainOf(backup, volume).slice(onto === null ? 0 : chainOf(onto, volume).length),
  );
  return [...new Set(sources)];
}
