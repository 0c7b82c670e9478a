/**
 * Examines backups: whether every link of a chain exists, every image is the file that its manifest describes, and the
 * tables of every image are sound. Reads everything and changes nothing.
 */
import { join } from 'node:path';
import { messageOf } from '../../base/errors.js';
import { chainOf, type VolumeBackups } from './chains.js';
import type { BackupImages, ReadOptions } from './images.js';
import { StoreError } from './object-store.js';
import { type Backup, imagePathOf, type Problem } from './stored-backup.js';

/** Returns the problems of a volume's backups; each problem names its file. */
export async function verifyVolume(volume: VolumeBackups, options: ReadOptions): Promise<Problem[]> {
  const problems = [...volume.problems];
  for (const backup of volume.backups) {
    const path = join(volume.directory, backup.name);
    problems.push(...(await problemOf(path, options, async () => void chainOf(backup, volume))));
  }
  return [...problems, ...(await verifyImages(volume.images, volume.backups, options))];
}

/** Returns the problems of the backups' images. */
export async function verifyImages(
  images: BackupImages,
  backups: readonly Backup[],
  { signal, onProgress }: ReadOptions,
): Promise<Problem[]> {
  const problems: Problem[] = [];
  let before = 0n;
  for (const backup of backups) {
    signal.throwIfAborted();
    const path = imagePathOf(backup);
    const found = await problemOf(path, { signal }, () =>
      images.verify(backup, { signal, onProgress: (bytes) => onProgress?.(before + bytes) }),
    );
    problems.push(...found);
    before += backup.manifest.image.bytes;
  }
  return problems;
}

/** Returns the problems of images that are about to be read, as far as reading would not find them. */
export function verifyBeforeReading(
  images: BackupImages,
  backups: readonly Backup[],
  options: ReadOptions,
): Promise<Problem[]> {
  return images.areCheckedWhenRead
    ? examineImages(images, backups, options.signal)
    : verifyImages(images, backups, options);
}

/** Like verifyImages, but reads no more than the header of each image. */
export async function examineImages(
  images: BackupImages,
  backups: readonly Backup[],
  signal: AbortSignal,
): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const backup of backups) {
    const path = imagePathOf(backup);
    problems.push(...(await problemOf(path, { signal }, () => images.examine(backup))));
  }
  return problems;
}

/** Why backups cannot be restored, as their chains and the sizes and headers of their images show. Reads no more of an image. */
export async function brokenBackups(volume: VolumeBackups, signal: AbortSignal): Promise<ReadonlyMap<Backup, string>> {
  const examined = await examineImages(volume.images, volume.backups, signal);
  const damaged = new Map(examined.map(({ path, found }) => [path, found]));
  const broken = new Map<Backup, string>();
  for (const backup of volume.backups) {
    try {
      const path = chainOf(backup, volume)
        .map(imagePathOf)
        .find((each) => damaged.has(each));
      if (path !== undefined) broken.set(backup, `${path}: ${damaged.get(path)}`);
    } catch (thrown) {
      broken.set(backup, messageOf(thrown));
    }
  }
  return broken;
}

async function problemOf(
  path: string,
  { signal }: Pick<ReadOptions, 'signal'>,
  examine: () => Promise<void>,
): Promise<Problem[]> {
  try {
    await examine();
    return [];
  } catch (thrown) {
    signal.throwIfAborted();
    // That says nothing of the backup.
    if (thrown instanceof StoreError) throw thrown;
    return [{ path, found: messageOf(thrown) }];
  }
}
