/**
 * The images of a repository at a remote, read where they are (checked-images.ts): a remote that answers differently from one time to
 * the next changes nothing.
 */
import { checkImage } from '../nbd/image.js';
import type { ImageChain, ServedImage } from '../nbd/image-chain.js';
import { type Opening, openChecked, Segments } from './checked-images.js';
import type { BackupImages, ReadOptions } from './images.js';
import { checkSize, checkTables, imageMissing } from './manifest-checks.js';
import type { RcloneStore } from './rclone.js';
import type { Backup } from './stored-backup.js';

export interface RemoteImagesOptions extends Opening {
  store: RcloneStore;
  /** The name of the volume's directory. */
  directory: string;
  /** The sizes of its objects. */
  objects: ReadonlyMap<string, bigint>;
}

export class RemoteImages implements BackupImages {
  readonly areCheckedWhenRead = true;

  constructor(private readonly options: RemoteImagesOptions) {}

  async examine(backup: Backup): Promise<void> {
    const size = this.options.objects.get(backup.manifest.image.file);
    if (size === undefined) throw imageMissing();
    checkSize(backup, size);
  }

  async verify(backup: Backup, { signal, onProgress }: ReadOptions): Promise<void> {
    await this.examine(backup);
    const segments = this.#segments();
    await forEachSegment(backup, segments, signal, async (_segment, end) => onProgress?.(end));
    await openChecked([backup], segments, this.options, async ([image]) =>
      checkTables(await checkImage(image as ServedImage, signal)),
    );
  }

  open<T>(chain: readonly Backup[], work: (images: ImageChain) => Promise<T>): Promise<T> {
    return openChecked(chain, this.#segments(), this.options, work);
  }

  /** All are checked. */
  openChecked<T>(chain: readonly Backup[], _opening: Opening, work: (images: ImageChain) => Promise<T>): Promise<T> {
    return this.open(chain, work);
  }

  #segments(): Segments {
    const { store, directory } = this.options;
    return new Segments(({ manifest }, ...part) => store.read(`${directory}/${manifest.image.file}`, ...part));
  }
}

/** @param work called with each segment and its end, in their order */
async function forEachSegment(
  backup: Backup,
  segments: Segments,
  signal: AbortSignal,
  work: (segment: Buffer, end: bigint) => Promise<void>,
): Promise<void> {
  let end = 0n;
  for (const index of backup.manifest.image.sha256.keys()) {
    signal.throwIfAborted();
    const segment = await segments.get(backup, index);
    end += BigInt(segment.length);
    await work(segment, end);
  }
}
