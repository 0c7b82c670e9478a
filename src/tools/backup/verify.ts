/**
 * Examines backups: whether every link of a chain exists, every image is the file that its manifest describes, and the
 * tables of every image are sound. Reads everything and changes nothing.
 */
import { join } from 'node:path';
import { CsiError, messageOf } from '../../base/errors.js';
import { withFile } from '../../base/system/checked-files.js';
import { checkImage } from '../nbd/image.js';
import { readImageHeader } from '../nbd/image-header.js';
import { openPlain } from '../nbd/plain-file.js';
import { type Backup, chainOf, imagePathOf, type Problem, type VolumeBackups } from './chains.js';
import { checksumSegments } from './checksums.js';

export interface VerifyOptions {
  signal: AbortSignal;
  /** Called with the number of image bytes that were read so far. */
  onProgress?(bytes: bigint): void;
}

/** Returns the problems of a volume's backups; each problem names its file. */
export async function verifyVolume(volume: VolumeBackups, options: VerifyOptions): Promise<Problem[]> {
  const problems = [...volume.problems];
  for (const backup of volume.backups) {
    const path = join(volume.directory, backup.name);
    problems.push(...(await problemOf(path, options, async () => void chainOf(backup, volume))));
  }
  return [...problems, ...(await verifyImages(volume.backups, options))];
}

/** Returns the problems of the backups' images. */
export async function verifyImages(
  backups: readonly Backup[],
  { signal, onProgress }: VerifyOptions,
): Promise<Problem[]> {
  const problems: Problem[] = [];
  let before = 0n;
  for (const backup of backups) {
    signal.throwIfAborted();
    const path = imagePathOf(backup);
    const found = await problemOf(path, { signal }, () =>
      verifyImage(backup, { signal, onProgress: (bytes) => onProgress?.(before + bytes) }),
    );
    problems.push(...found);
    before += backup.manifest.image.bytes;
  }
  return problems;
}

/** Like verifyImages, but reads no more than the header of each image. */
export async function examineImages(backups: readonly Backup[], signal: AbortSignal): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const backup of backups) {
    const path = imagePathOf(backup);
    const found = await problemOf(path, { signal }, async () => {
      await verifySize(path, backup.manifest.image);
      await verifyHeader(backup);
    });
    problems.push(...found);
  }
  return problems;
}

/** Why backups cannot be restored, as their chains and the sizes and headers of their images show. Reads no more of an image. */
export async function brokenBackups(volume: VolumeBackups, signal: AbortSignal): Promise<ReadonlyMap<Backup, string>> {
  const damaged = new Map((await examineImages(volume.backups, signal)).map(({ path, found }) => [path, found]));
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

async function verifyImage(backup: Backup, options: VerifyOptions): Promise<void> {
  const path = imagePathOf(backup);
  // The checksums are checked first, before any QEMU program reads the image.
  await verifyChecksums(path, backup.manifest.image, options);
  await verifyHeader(backup);
  const { corruptions, errors } = await checkImage(path, options.signal);
  if (corruptions + errors > 0) {
    throw refused(`has damaged tables: qemu-img check found ${corruptions} corruptions, ${errors} errors`);
  }
}

async function verifyHeader(backup: Backup): Promise<void> {
  const { base, volume } = backup.manifest;
  const path = imagePathOf(backup);
  const header = await readImageHeader(path);
  if (header.sizeBytes !== volume.sizeBytes) {
    throw refused(`has a device of ${header.sizeBytes} bytes, and the manifest says ${volume.sizeBytes}`);
  }
  // Only the manifest identifies the base: the header may name an image that was pruned since.
  if ((header.backing === null) !== (base === null)) {
    throw refused(`is based on ${header.backing ?? 'nothing'}, and the manifest says ${base?.snapshotId ?? 'nothing'}`);
  }
}

async function verifyChecksums(
  path: string,
  image: Backup['manifest']['image'],
  options: VerifyOptions,
): Promise<void> {
  // The size is checked first, because a file without an end would be read forever.
  await verifySize(path, image);
  const { segmentBytes, sha256 } = image;
  const found = await checksumSegments(path, { ...options, segmentBytes });
  const at = found.sha256.findIndex((digest, index) => digest !== sha256[index]);
  if (at === -1 && found.sha256.length === sha256.length) return;
  const start = Math.max(at, 0) * segmentBytes;
  throw refused(`is damaged: checksum mismatch within the ${segmentBytes} bytes that begin at byte ${start}`);
}

async function verifySize(path: string, { bytes }: Backup['manifest']['image']): Promise<void> {
  const { size } = await withFile(openPlain(path), (file) => file.stat({ bigint: true }));
  if (size !== bytes) throw refused(`has ${size} bytes, and the manifest says ${bytes}`);
}

async function problemOf(
  path: string,
  { signal }: Pick<VerifyOptions, 'signal'>,
  examine: () => Promise<void>,
): Promise<Problem[]> {
  try {
    await examine();
    return [];
  } catch (thrown) {
    signal.throwIfAborted();
    return [{ path, found: messageOf(thrown) }];
  }
}

const refused = (found: string): CsiError => CsiError.failedPrecondition(`the image ${found}`);
