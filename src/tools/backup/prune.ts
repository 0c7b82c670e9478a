/**
 * Removes backups that no rule keeps, and never breaks a chain: what a kept backup needs of a removed one is copied
 * into its image first. A kill at any moment leaves every kept backup restorable; the next run goes on.
 */

import { constants } from 'node:fs';
import { chmod, copyFile, rm } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import { rebaseImage } from '../nbd/image.js';
import { checksumSegments, SEGMENT_BYTES } from './checksums.js';
import { type KeepRules, kept } from './keep-rules.js';
import type { Manifest } from './manifest.js';
import {
  type Backup,
  chainOf,
  imagePathOf,
  type Repository,
  type VolumeBackups,
} from './repository.js';

const { COPYFILE_EXCL, COPYFILE_FICLONE } = constants;

export interface PrunePlan {
  readonly volume: VolumeBackups;
  readonly kept: readonly Backup[];
  readonly removed: readonly Backup[];
  /** Kept ones that are based on a removed one, and what they will be based on. */
  readonly rebased: readonly { backup: Backup; onto: Backup | null }[];
}

/** FAILED_PRECONDITION if a kept backup's chain is not complete, or a manifest is damaged: then nothing may go. */
export function planPrune(volume: VolumeBackups, rules: KeepRules): PrunePlan {
  const [problem] = volume.problems;
  if (problem !== undefined) {
    throw CsiError.failedPrecondition(
      `nothing is pruned in ${volume.directory}, because it is not known what is based on what: ${problem.found}`,
    );
  }
  const { backups } = volume;
  const times = backups.map(({ manifest }) => new Date(manifest.snapshot.creationTime));
  const stay = kept(times, rules);
  const isKept = (backup: Backup): boolean => stay.has(backups.indexOf(backup));
  const rebased = backups.filter(isKept).flatMap((backup) => {
    const below = chainOf(backup, volume).slice(0, -1).reverse();
    const [base] = below;
    if (base === undefined || isKept(base)) return [];
    return [{ backup, onto: below.find(isKept) ?? null }];
  });
  return {
    volume,
    kept: backups.filter(isKept),
    removed: backups.filter((backup) => !isKept(backup)),
    rebased,
  };
}

/** The caller holds the lock of the volume, under which the plan was made. */
export async function prune(
  repository: Repository,
  { volume, rebased, removed }: PrunePlan,
  { signal, onBackup }: { signal: AbortSignal; onBackup?(backup: Backup): void },
): Promise<void> {
  for (const { backup, onto } of rebased) {
    signal.throwIfAborted();
    onBackup?.(backup);
    await rebase(repository, volume, { backup, onto }, signal);
  }
  // The newest first: nothing that is left is based on a removed one at any moment.
  for (const backup of [...removed].reverse()) {
    signal.throwIfAborted();
    onBackup?.(backup);
    await repository.remove(backup);
  }
}

async function rebase(
  repository: Repository,
  volume: VolumeBackups,
  { backup, onto }: { backup: Backup; onto: Backup | null },
  signal: AbortSignal,
): Promise<void> {
  const partial = `${imagePathOf(backup)}.partial`;
  try {
    await copyFile(imagePathOf(backup), partial, COPYFILE_EXCL | COPYFILE_FICLONE);
    await chmod(partial, 0o600);
    const backing = onto?.manifest.image.file ?? null;
    await rebaseImage({ path: partial, backing, signal });
    const { bytes, sha256 } = await checksumSegments(partial, { signal });
    const { manifest } = backup;
    const passed =
      chainOf(backup, volume).length - (onto === null ? 0 : chainOf(onto, volume).length);
    const base = onto && { snapshotId: onto.manifest.snapshot.id, manifest: onto.name };
    const next: Manifest = {
      ...manifest,
      base,
      method: onto === null ? 'full' : 'delta',
      reason:
        onto === null
          ? `it contains ${passed - 1} backups that it was based on, which were pruned`
          : null,
      image: { file: manifest.image.file, bytes, segmentBytes: SEGMENT_BYTES, sha256 },
    };
    await repository.putImage({ ...backup, manifest: next }, partial);
  } catch (thrown) {
    await rm(partial, { force: true });
    throw thrown;
  }
}
