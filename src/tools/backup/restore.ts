/**
 * Writes the content of a backup to a file, a block device or a new volume of a driver, with its holes. The images of
 * the chain are verified first, because a damaged one would be restored without any sign of it.
 */

import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import {
  type FileHandle,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  unlink,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { bestEffort, unreported } from '../../base/best-effort.js';
import { CsiError, errorCode } from '../../base/errors.js';
import { effectiveUser } from '../../base/own-files.js';
import type { RuntimeDirectory } from '../../base/runtime-directory.js';
import { tryLock } from '../../base/system/file-lock.js';
import type { CsiDriver } from '../client/driver.js';
import { publishNewVolume, removeLeftVolumes } from '../client/published-volume.js';
import { convertImage } from '../nbd/image.js';
import { createPlain, flush, openPlain } from '../nbd/plain-file.js';
import { imagesOf } from './chains.js';
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

/**
 * The file appears under its name when it is complete, for this user alone. ALREADY_EXISTS if it exists and may not be
 * replaced; FAILED_PRECONDITION for a name among the devices of /dev.
 */
export async function restoreToFile(
  { chain }: ChosenBackup,
  { path, replace }: { path: string; replace: boolean },
  { signal, onProgress }: RestoreOptions,
): Promise<void> {
  if (!replace && (await exists(path))) {
    throw CsiError.alreadyExists(`${path} exists; use --force to replace it`);
  }
  const directory = await directoryOf(path);
  await removeUnfinished(directory);
  const { file, path: partial } = await makeUnfinished(directory);
  try {
    await convertImage({
      from: { chain: imagesOf(chain) },
      to: partial,
      signal,
      ...given(onProgress),
    });
    await file.sync();
    await rename(partial, join(directory, basename(path)));
    await flush(directory);
  } catch (thrown) {
    await rm(partial, { force: true });
    throw thrown;
  } finally {
    await file.close();
  }
}

/** Without links. A typing error in the name of a device must not make a file beside the devices. */
async function directoryOf(path: string): Promise<string> {
  const directory = await realpath(dirname(path)).catch((thrown: unknown) => {
    if (errorCode(thrown) !== 'ENOENT') throw thrown;
    throw CsiError.notFound(`there is no directory ${dirname(path)} for ${path}`);
  });
  if (!/^\/dev(?!\/shm(\/|$))(\/|$)/.test(directory)) return directory;
  throw CsiError.failedPrecondition(
    `there is no device ${path}, and no file is made in ${directory}: name a device that is there, or a file elsewhere`,
  );
}

/** A new file that this process holds until it ends, however it does. */
async function makeUnfinished(directory: string): Promise<{ file: FileHandle; path: string }> {
  for (;;) {
    const path = join(directory, `.restore-${randomBytes(8).toString('hex')}.partial`);
    const file = await createPlain(path);
    // Between the two steps another command may have taken it for one that was left.
    if (tryLock(file.fd) && (await file.stat()).nlink === 1) return { file, path };
    await file.close();
  }
}

/** What killed commands have left there: files of this user that none holds. */
async function removeUnfinished(directory: string): Promise<void> {
  const names = await readdir(directory);
  for (const name of names.filter((each) => /^\.restore-[0-9a-f]{16}\.partial$/.test(each))) {
    const removal = async (): Promise<void> => {
      const path = join(directory, name);
      const file = await openPlain(path);
      try {
        const { uid, nlink } = await file.stat();
        if (uid === effectiveUser() && nlink === 1 && tryLock(file.fd)) await unlink(path);
      } finally {
        await file.close();
      }
    };
    // Anybody may have put a file with such a name there, so it says nothing that one stays.
    await bestEffort(removal, unreported);
  }
}

/**
 * FAILED_PRECONDITION if the device is smaller than the backup, or in use. What follows the end of the backup stays as
 * it is. After a failure the device may hold a part of the backup.
 *
 * @param path from blockDeviceAt
 * @param onWriting called before the first byte is written
 */
export async function restoreToDevice(
  { backup, chain }: ChosenBackup,
  path: string,
  { signal, onProgress, onWriting }: RestoreOptions & { onWriting(): void },
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
    onWriting();
    await convertImage({
      from: { chain: imagesOf(chain) },
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
  { backup, chain }: ChosenBackup,
  { driver, runtime, name }: { driver: CsiDriver; runtime: RuntimeDirectory; name: string },
  { signal, onProgress }: RestoreOptions,
): Promise<string> {
  const { sizeBytes } = backup.manifest.volume;
  await removeLeftVolumes(driver, runtime);
  const volume = await publishNewVolume(driver, runtime, { name, sizeBytes });
  try {
    await convertImage({
      from: { chain: imagesOf(chain) },
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

/** Where the path leads, if that is a block device: it is resolved once, and never again. */
export async function blockDeviceAt(path: string): Promise<string | null> {
  try {
    const resolved = await realpath(path);
    return (await stat(resolved)).isBlockDevice() ? resolved : null;
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
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

const given = (onProgress: RestoreOptions['onProgress']): Pick<RestoreOptions, 'onProgress'> =>
  onProgress === undefined ? {} : { onProgress };
