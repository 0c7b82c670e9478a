/** Where the images of backups are read: beside their manifests (directory-images.ts), or at a remote (remote-images.ts). */
import type { ImageChain } from '../nbd/image-chain.js';
import type { Opening } from './checked-images.js';
import type { Backup } from './stored-backup.js';

export interface ReadOptions {
  signal: AbortSignal;
  /** Called with the number of bytes of the image that were read so far. */
  onProgress?(bytes: bigint): void;
}

export interface BackupImages {
  /** Whether programs get no byte whose checksum is not that of the manifest. */
  readonly areCheckedWhenRead: boolean;

  /** Throws if the image is not what the manifest says, as far as that is known without reading the image. */
  examine(backup: Backup): Promise<void>;
  /** Throws if the checksums, the header or the tables of the image are not those of the manifest. */
  verify(backup: Backup, options: ReadOptions): Promise<void>;
  /**
   * Opens images for QEMU's programs until `work` ends.
   *
   * @param chain the full backup first
   */
  open<T>(chain: readonly Backup[], work: (images: ImageChain) => Promise<T>): Promise<T>;
  /** Like open, but programs get no byte whose checksum is not that of the manifest, and only what they read is checked. */
  openChecked<T>(chain: readonly Backup[], opening: Opening, work: (images: ImageChain) => Promise<T>): Promise<T>;
}
