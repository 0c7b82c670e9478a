/**
 * Writes the content of a backup to a file, a block device or a new volume of a driver, with its holes. The images of
 * the chain are verified first, because a damaged one would be restored without any sign of it.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CsiError, errorCode } from '../../base/errors.js';
import type { RuntimeDirectory } from '../../base/runtime-directory.js';
import type { CsiDriver } from '../client/driver.js';
import { publishNewVolume, removeLeftVolumes } from '../client/published-volume.js';
import { convertImage } from '../nbd/image.js';
import { imagePathOf } from './repository.js';
import type { ChosenBackup } from './select.js';
import { verifyImages } from './verify.js';

export interface RestoreOptions {
  signal: AbortSignal;
  /** 0 to 1, of the writing. */
  onProgress?(share: number): void;
}

/** FAILED_PRECONDITION with everything that is wrong with the images of the chain. */
export async function assertIntact(
  { chain }: ChosenBackup,
  options: { signal: AbortSignal; onProgress?(bytes: bigint): void },
): Promise<void> {
  const problems = await verifyImages(chain, options);
  if (problems.length === 0) return;
  const found = problems.map(({ path, found: what }) => `${path}: ${what}`).join('; ');
  throw CsiError.failedPrecondition(
    `the backup cannot be restored: ${found}; restore the file from another copy, or use an older backup`,
  );
}

/** The file appears under its name when it is complete. ALREADY_EXISTS if it exists and may not be replaced. */
export async function restoreToFile(
  { backup }: ChosenBackup,
  { path, replace }: { path: string; replace: boolean },
  { signal, onProgress }: RestoreOptions,
): Promise<void> {
  if (!replace && (await exists(path))) {
    throw CsiError.alreadyExists(`${path} exists; use --force to replace it`);
  }
  const partial = `${path}.partial`;
  try {
    await convertImage({ from: imagePathOf(backup), to: partial, signal, ...given(onProgress) });
    await flush(partial);
    await rename(partial, path);
    await flush(dirname(path));
  } catch (thrown) {
    await rm(partial, { force: true });
    throw thrown;
  }
}

/**
 * FAILED_PRECONDITION if the device is smaller than the backup, or in use. What follows the end of the backup stays as
 * it is.
 */
export async function restoreToDevice(
  { backup }: ChosenBackup,
  path: string,
  { signal, onProgress }: RestoreOptions,
): Promise<void> {
  const { sizeBytes } = backup.manifest.volume;
  const found = await deviceBytes(path);
  if (found < sizeBytes) {
    throw CsiError.failedPrecondition(
      `${path} has ${found} bytes, and the backup needs ${sizeBytes}; use a larger device`,
    );
  }
  const held = await openUnused(path);
  try {
    await convertImage({
      from: imagePathOf(backup),
      to: path,
      isExisting: true,
      signal,
      ...given(onProgress),
    });
    await held.sync();
  } finally {
    await held.close();
  }
}

/** A new volume, whose name is `name` with a random part; resolves to its id. A failure leaves no volume. */
export async function restoreToVolume(
  { backup }: ChosenBackup,
  { driver, runtime, name }: { driver: CsiDriver; runtime: RuntimeDirectory; name: string },
  { signal, onProgress }: RestoreOptions,
): Promise<string> {
  const { sizeBytes } = backup.manifest.volume;
  await removeLeftVolumes(driver, runtime);
  const volume = await publishNewVolume(driver, runtime, { name, sizeBytes });
  try {
    await convertImage({
      from: imagePathOf(backup),
      to: volume.devicePath,
      isExisting: true,
      isZero: true,
      signal,
      ...given(onProgress),
    });
    volume.keep();
    return volume.volumeId;
  } finally {
    await volume.close();
  }
}

export async function isBlockDevice(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isBlockDevice();
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return false;
    throw thrown;
  }
}

async function deviceBytes(path: string): Promise<bigint> {
  const { rdev } = await stat(path);
  // As glibc packs a device number.
  const major = ((rdev >> 8) & 0xfff) | ((rdev / 2 ** 32) & ~0xfff);
  const minor = (rdev & 0xff) | ((rdev >> 12) & ~0xff);
  const sectors = await readFile(`/sys/dev/block/${major}:${minor}/size`, 'utf8');
  return BigInt(sectors.trim()) * 512n;
}

/** O_EXCL of a block device fails while it is mounted, or belongs to another one. */
async function openUnused(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDWR | constants.O_EXCL);
  } catch (thrown) {
    if (errorCode(thrown) !== 'EBUSY') throw thrown;
    throw CsiError.failedPrecondition(`${path} is in use: unmount it, or use another device`, {
      cause: thrown,
    });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return false;
    throw thrown;
  }
}

async function flush(path: string): Promise<void> {
  const file = await open(path, constants.O_RDONLY);
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

const given = (onProgress: RestoreOptions['onProgress']): Pick<RestoreOptions, 'onProgress'> =>
  onProgress === undefined ? {} : { onProgress };
