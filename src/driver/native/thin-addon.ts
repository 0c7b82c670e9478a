/**
 * The dm-thin metadata part of the addon's contract: what the trees of a pool contain.
 *
 * No function writes to the metadata; bookmarks are files of their own. A metadata device is read past the page cache (as the
 * kernel writes it), a metadata file through the page cache. Every block is checked (own number, checksum, bounds, order and
 * range of keys) before use. Failures: THIN_METADATA_INVALID names the block, the expectation and the finding; ENODATA if a
 * device id is not in the trees; SCAN_REPLACED if a device's tree is not the expected one; SCAN_BUSY if the pool commits faster
 * than it can be read, and a retry may succeed; errno names. Data blocks are counted in the pool's own block size; metadata
 * blocks have 4096 bytes. Source: Linux drivers/md/dm-thin-metadata.c.
 */
import type { NativeResult } from '../../base/system/native-result.js';

/** The device or file that contains the trees, and the superblock they start from. */
export interface ThinMetadata {
  /** Path of a block device or a file. */
  metadata: string;
  /** Block of the superblock: 0n is the current one, any other the copy of a metadata snapshot. */
  superblock: bigint;
}

/** One thin device of a scan. */
export interface ThinDeviceRef {
  deviceId: number;
  /**
   * Root of its mapping tree, from thinDevices. The scan starts there and at its end fails with SCAN_REPLACED unless the
   * current superblock still leads to the same root. No metadata snapshot has to be held during a stream: the tree of a device
   * that nobody writes to or deletes stays in place. If `root` is null, each call looks the root up at its start.
   */
  root: bigint | null;
}

/** A file written by createThinBookmark about a snapshot that has been deleted since. */
export interface ThinBookmark {
  path: string;
}

/** The 'thin' kind of ScanSource. */
export interface ThinScanSource extends ThinMetadata {
  kind: 'thin';
  /** Size of the target; mappings beyond it are ignored. */
  sizeBytes: bigint;
  target: ThinDeviceRef;
  /**
   * At most one of `base` and `bookmark`; with neither, the scan lists what is allocated in the
   * target.
   */
  base: ThinDeviceRef | null;
  bookmark: ThinBookmark | null;
}

export interface ThinSuperblock {
  /**
   * Checksum of the superblock: differs between commits, even if their roots are in the same
   * blocks.
   */
  checksum: number;
  /** The pool needs thin_check or thin_repair. */
  needsCheck: boolean;
  /** The pool's time, incremented by every snapshot. */
  time: number;
  transactionId: bigint;
  /** Block of the superblock copy of the held metadata snapshot; null if none is held. */
  heldRoot: bigint | null;
  mappingRoot: bigint;
  detailsRoot: bigint;
  /** Size of one data block. */
  dataBlockBytes: bigint;
  /**
   * Blocks of the data device; 0n in the copy of a metadata snapshot, which does not contain it.
   */
  dataBlocks: bigint;
  metadataBlocks: bigint;
}

export interface ThinDeviceDetails {
  deviceId: number;
  /** Root of its mapping tree. */
  root: bigint;
  mappedBlocks: bigint;
  /** The pool's transaction id when the device was created. */
  transactionId: bigint;
  /** The pool's time when the device was created, and when it was last snapshotted. */
  creationTime: number;
  snapshottedTime: number;
}

/** Kind of a run of blocks, named as in thin_delta(8). */
export const ThinDeltaKind = { SAME: 0, LEFT_ONLY: 1, RIGHT_ONLY: 2, DIFFERENT: 3 } as const;

export interface ThinAddon {
  /** The checked superblock. */
  thinSuperblock(request: ThinMetadata): NativeResult<{ superblock: ThinSuperblock }>;

  /**
   * Devices in the order of their ids: the requested devices that exist, or all devices if `deviceIds` is null. At most 65,536;
   * `truncated` is true if there are more.
   */
  thinDevices(
    request: ThinMetadata & { deviceIds: readonly number[] | null },
  ): NativeResult<{ devices: ThinDeviceDetails[]; truncated: boolean }>;

  /**
   * For each device, in the order of their ids, how many data blocks it holds alone: what its deletion gives back. Reads all
   * trees from the current superblock. A held metadata snapshot, which may hold blocks too, counts as no user. The result means
   * nothing if the pool commits meanwhile.
   */
  thinExclusive(
    request: Pick<ThinMetadata, 'metadata'>,
  ): NativeResult<{ devices: { deviceId: number; exclusiveBlocks: bigint }[] }>;

  /**
   * Runs of blocks from `firstBlock` on, for printing: 3 words each (kind, first block, count), ascending, with neighbours of
   * one kind joined within the call, at most maxRecords (1 to 65,536). `base` is the left side of thin_delta; if it is null,
   * every mapped block is RIGHT_ONLY. Blocks mapped on neither side have no record. SAME appears only with includeSame, which
   * walks both trees completely. Runs are not clipped to a volume's size, which the metadata does not contain.
   */
  thinDelta(
    request: ThinMetadata & {
      base: number | null;
      target: number;
      firstBlock: bigint;
      includeSame: boolean;
      maxRecords: number;
    },
  ): NativeResult<{ words: BigUint64Array; nextBlock: bigint; done: boolean; nodes: number }>;

  /**
   * Writes a bookmark of a snapshot that is about to be deleted: its creation time and which blocks
   * it maps (ranges or a bitmap, whichever is smaller, clipped to sizeBytes), with checksums. The
   * file is written under the temporary name, made durable and renamed. An existing bookmark is
   * verified and returned instead. EINVAL if a mapping of the snapshot is as young as the snapshot:
   * it has been written to.
   */
  createThinBookmark(
    request: ThinMetadata & {
      device: ThinDeviceRef;
      sizeBytes: bigint;
      temporaryPath: string;
      path: string;
    },
  ): NativeResult<WrittenBookmark>;
  /** Reads a bookmark in full. THIN_METADATA_INVALID if the bookmark is damaged; ENOENT if there is none. */
  verifyThinBookmark(request: { path: string }): NativeResult<WrittenBookmark>;
}

interface WrittenBookmark {
  fileBytes: bigint;
  /** The pool's time when the snapshot was created, which differs between all snapshots of a pool. */
  creationTime: number;
  mappedBlocks: bigint;
}
