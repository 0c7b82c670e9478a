/** The images of a repository that is a directory. */
import { CsiError, StatusCode } from '../../base/errors.js';
import { withFile } from '../../base/system/checked-files.js';
import { checkImage } from '../nbd/image.js';
import type { ImageChain } from '../nbd/image-chain.js';
import { readImageHeader } from '../nbd/image-header.js';
import { openPlain } from '../nbd/plain-file.js';
import { type Opening, openChecked, Segments } from './checked-images.js';
import { checksumSegments, readSegment } from './checksums.js';
import type { BackupImages, ReadOptions } from './images.js';
import { checkDigests, checkHeader, checkSize, checkTables, imageMissing } from './manifest-checks.js';
import { type Backup, imagePathOf, imagesOf } from './stored-backup.js';

export const DIRECTORY_IMAGES: BackupImages = {
  areCheckedWhenRead: false,

  async examine(backup: Backup): Promise<void> {
    await examineSize(backup);
    await examineHeader(backup);
  },

  async verify(backup: Backup, options: ReadOptions): Promise<void> {
    // The size is checked first, because a file without an end would be read forever.
    await examineSize(backup);
    const path = imagePathOf(backup);
    const { segmentBytes } = backup.manifest.image;
    checkDigests(backup, (await checksumSegments(path, { ...options, segmentBytes })).sha256);
    // No QEMU program reads the image before its checksums are right.
    await examineHeader(backup);
    checkTables(await checkImage(path, options.signal));
  },

  open<T>(chain: readonly Backup[], work: (images: ImageChain) => Promise<T>): Promise<T> {
    return work(imagesOf(chain));
  },

  openChecked<T>(chain: readonly Backup[], opening: Opening, work: (images: ImageChain) => Promise<T>): Promise<T> {
    const segments = new Segments((backup, offset, length) =>
      withFile(openPlain(imagePathOf(backup)), (file) => readSegment(file, offset, offset + length)),
    );
    return openChecked(chain, segments, opening, work);
  },
};

async function examineSize(backup: Backup): Promise<void> {
  const opened = openPlain(imagePathOf(backup)).catch((thrown: unknown) => {
    throw CsiError.from(thrown).code === StatusCode.NOT_FOUND ? imageMissing() : thrown;
  });
  const { size } = await withFile(opened, (file) => file.stat({ bigint: true }));
  checkSize(backup, size);
}

async function examineHeader(backup: Backup): Promise<void> {
  checkHeader(backup, await readImageHeader(imagePathOf(backup)));
}
