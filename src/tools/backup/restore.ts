/**
 * Writes the content of a backup to a file, a block device or a new volume of a driver, with its holes. The images of
 * the chain are verified first, because a damaged image would be restored without any sign of damage.
 */

import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readdir, readlink, rename, rm, unlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { bestEffort, unreported } from '../../base/best-effort.js';
import { CsiError } from '../../base/errors.js';
import { at, createNew, withFile } from '../../base/system/checked-files.js';
import { deviceNumberOf, deviceSectorBytes, deviceSizeBytes } from '../../base/system/device-attributes.js';
import { tryLock } from '../../base/system/file-lock.js';
import { effectiveUser } from '../../base/system/own-files.js';
import { openDirectoryOf } from '../../base/system/own-way.js';
import type { RuntimeDirectory } from '../../base/system/runtime-directory.js';
import type { CsiDriver } from '../client/csi-driver.js';
import { publishNewVolume, removeLeftVolumes } from '../client/published-volume.js';
import { type Conversion, convertImage } from '../nbd/image.js';
import { openPlain } from '../nbd/plain-file.js';
import type { DeviceTarget } from './device-target.js';
import type { ReadOptions } from './images.js';
import type { ChosenBackup } from './select.js';
import type { Backup, Problem } from './stored-backup.js';
import { verifyBeforeReading } from './verify.js';

const { O_RDWR } = constants;

export interface RestoreOptions {
  signal: AbortSignal;
  /** Called with the share of the content that is written, from 0 to 1. */
  onProgress?: ((share: number) => void) | undefined;
}

/** Throws FAILED_PRECONDITION with everything that is wrong with the images of the chain. */
export async function assertIntact({ chain, volume }: ChosenBackup, options: ReadOptions): Promise<void> {
  assertNoProblems(await verifyBeforeReading(volume.images, chain, options));
}

export function assertNoProblems(problems: readonly Problem[]): void {
  if (problems.length === 0) return;
  const found = problems.map(({ path, found: what }) => `${path}: ${what}`).join('; ');
  throw CsiError.failedPrecondition(
    `the backup cannot be restored: ${found}; restore the file from another copy, or use an older backup`,
  );
}

/**
 * The file appears under its name once it is complete, for this user alone. Nobody else is trusted with its directory.
 *
 * @throws CsiError ALREADY_EXISTS if the file exists and may not be replaced, FAILED_PRECONDITION for a path in /dev
 *   (but not /dev/shm), or if others decide where the path leads or exchange the unfinished file
 */
export async function restoreToFile(
  chosen: ChosenBackup,
  { path, replace }: { path: string; replace: boolean },
  { signal, onProgress }: RestoreOptions,
): Promise<void> {
  await withFile(openDirectoryOf(path), async (directory) => {
    await assertNoDevices(directory, path);
    const target = at(directory.fd, basename(path));
    if (!replace && (await lstat(target).catch(() => null)) !== null) {
      throw CsiError.alreadyExists(`${path} exists; use --force to replace it`);
    }
    await removeUnfinished(directory);
    const { file, path: partial } = await makeUnfinished(directory);
    try {
      await file.truncate(Number(chosen.backup.manifest.volume.sizeBytes));
      await convert(chosen, { to: file, path, isZero: true, signal, onProgress });
      await file.sync();
      await assertUnchanged(file, partial, path);
      await rename(partial, target);
      await directory.sync();
    } catch (thrown) {
      await rm(partial, { force: true });
      throw thrown;
    } finally {
      await file.close();
    }
  });
}

const convert = ({ chain, volume }: ChosenBackup, conversion: Omit<Conversion, 'from'>): Promise<void> =>
  volume.images.open(chain, (images) => convertImage({ ...conversion, from: { chain: images } }));

/** A typing error in the name of a device must not make a file beside the devices. */
async function assertNoDevices(directory: FileHandle, path: string): Promise<void> {
  const opened = await readlink(at(directory.fd));
  if (!/^\/dev(?!\/shm(\/|$))(\/|$)/.test(opened)) return;
  throw CsiError.failedPrecondition(
    `there is no device ${path}, and no file is made in ${opened}: name a device that is there, or a file elsewhere`,
  );
}

/** Makes a new file that this process keeps locked until the process ends in any way. */
async function makeUnfinished(directory: FileHandle): Promise<{ file: FileHandle; path: string }> {
  for (;;) {
    const path = at(directory.fd, `.restore-${randomBytes(8).toString('hex')}.partial`);
    const file = await createNew(path);
    // Between the two steps, another command may have removed the file as a leftover.
    if (tryLock(file.fd) && (await file.stat()).nlink === 1) return { file, path };
    await file.close();
  }
}

/** Throws FAILED_PRECONDITION if the name no longer leads to the file, because somebody who can write there exchanged it. */
async function assertUnchanged(file: FileHandle, name: string, path: string): Promise<void> {
  const { dev, ino } = await file.stat({ bigint: true });
  const found = await lstat(name, { bigint: true }).catch(() => null);
  if (found?.dev === dev && found.ino === ino) return;
  throw CsiError.failedPrecondition(
    `${path} was not restored: the unfinished file beside it was exchanged or removed meanwhile; restore to a directory to ` +
      'which others cannot write',
  );
}

/** Removes what killed commands have left in the directory: files of this user that no process has locked. */
async function removeUnfinished(directory: FileHandle): Promise<void> {
  const names = await readdir(at(directory.fd));
  for (const name of names.filter((each) => /^\.restore-[0-9a-f]{16}\.partial$/.test(each))) {
    const path = at(directory.fd, name);
    const removal = (): Promise<void> =>
      // NFS cannot lock a file that is open for reading only.
      withFile(openPlain(path, O_RDWR), async (file) => {
        const { uid, nlink } = await file.stat();
        if (uid === effectiveUser() && nlink === 1 && tryLock(file.fd)) await unlink(path);
      });
    // Anybody may have put a file with such a name there, so nobody is told about a file that stays.
    await bestEffort(removal, unreported);
  }
}

/**
 * Throws FAILED_PRECONDITION if the device is smaller than the backup, or has sectors on which the backup's file system
 * might not mount. Data beyond the end of the backup stays. After a failure, the device may hold a part of the backup.
 *
 * @param device from openDevice
 * @param onWriting called before the first byte is written
 */
export async function restoreToDevice(
  chosen: ChosenBackup,
  { file, path }: DeviceTarget,
  { signal, onProgress, onWriting, ...options }: DeviceOptions & { onWriting(): void },
): Promise<void> {
  const { backup } = chosen;
  const { sizeBytes } = backup.manifest.volume;
  const found = (await deviceSizeBytes(deviceNumberOf(await file.stat()))) ?? 0n;
  if (found < sizeBytes) {
    throw CsiError.failedPrecondition(
      `${path} has ${found} bytes, and the backup needs ${sizeBytes}; use a larger device`,
    );
  }
  await checkSectors(backup, { file, path }, options);
  onWriting();
  await convert(chosen, { to: file, path, signal, onProgress });
  await file.sync();
}

export interface DeviceOptions extends RestoreOptions {
  /** Accepts a device with larger sectors than those of the volume. */
  force: boolean;
  onNotice(message: string): void;
}

async function checkSectors(
  { manifest }: Backup,
  { file, path }: DeviceTarget,
  { force, onNotice }: Pick<DeviceOptions, 'force' | 'onNotice'>,
): Promise<void> {
  const state = await file.stat();
  const found = state.isBlockDevice() ? await deviceSectorBytes(deviceNumberOf(state)) : null;
  const { sectorBytes } = manifest.volume;
  if (found === null || found <= (sectorBytes ?? SMALLEST_SECTOR)) return;
  const problem =
    `${path} has sectors of ${found} bytes, and the backup ` +
    (sectorBytes === null
      ? 'does not say how large those of the volume were'
      : `is of a volume with sectors of ${sectorBytes}`) +
    ': its file system may not mount there';
  if (force || sectorBytes === null) return onNotice(problem);
  throw CsiError.failedPrecondition(
    `${problem}; restore to a file or to a device with smaller sectors, or use --force`,
  );
}

const SMALLEST_SECTOR = 512;

/** Restores to a new volume, named `name` with a random part, and resolves to the volume's id. A failure leaves no volume. */
export async function restoreToVolume(
  chosen: ChosenBackup,
  { driver, runtime, name }: { driver: CsiDriver; runtime: RuntimeDirectory; name: string },
  { signal, onProgress, ...options }: DeviceOptions,
): Promise<string> {
  const { backup } = chosen;
  const { sizeBytes } = backup.manifest.volume;
  await removeLeftVolumes(driver, runtime);
  const volume = await publishNewVolume(driver, runtime, { name, sizeBytes });
  const path = volume.devicePath;
  try {
    await withFile(open(path, O_RDWR), async (file) => {
      await checkSectors(backup, { file, path }, options);
      await convert(chosen, { to: file, path, isZero: true, signal, onProgress });
      await file.sync();
    });
    volume.keep();
    return volume.volumeId;
  } finally {
    await volume.close();
  }
}
