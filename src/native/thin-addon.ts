/**
 * The part of the addon's contract about dm-thin metadata: what a pool's trees say.
 *
 * Everything here reads only. A metadata device is read past the page cache (the kernel writes it past
 * the page cache too), a file through it. Every block is checked (its own number, checksum, bounds, the
 * order and range of keys) before it is believed. Failures: THIN_METADATA_INVALID names the block, what
 * was expected there and what was found; ENODATA a device id that is not in the trees; SCAN_REPLACED a
 * device whose tree is not the expected one any more; SCAN_BUSY a pool that commits faster than it can
 * be looked at, so that trying again may help; errnos. Data blocks are counted in the pool's own
 * block size, metadata blocks have 4096 bytes. Format: Linux drivers/md/dm-thin-metadata.c.
 */
import type { NativeResult } from './addon.js';

/** What holds the trees, and from which superblock on. */
export interface ThinMetadata {
  /** A block device or a file. */
  metadata: string;
  /** Block of the superblock: 0n the current one, otherwise the copy that a metadata snapshot made. */
  superblock: bigint;
}

/** One thin device of a scan. */
export interface ThinDeviceRef {
  deviceId: number;
  /**
   * Root of its mapping tree, as thinDevices tells it: the scan begins there, and at its end fails with
   * SCAN_REPLACED unless the current superblock leads to the same root still. So nothing has to hold a
   * metadata snapshot while a stream is read: the tree of a device that nobody writes to or deletes
   * stays where it is. Null: looked up at the beginning of each call.
   */
  root: bigint | null;
}

/** A file that thinKeepBase wrote about a snapshot which is deleted since. */
export interface ThinBookmark {
  path: string;
}

/** Of kind 'thin' in ScanSource. */
export interface ThinScanSource extends ThinMetadata {
  kind: 'thin';
  /** Of the target; mappings beyond it do not count. */
  sizeBytes: bigint;
  target: ThinDeviceRef;
  /** At most one of them; neither: what is allocated in the target. */
  base: ThinDeviceRef | null;
  retainedBase: ThinBookmark | null;
}

export interface ThinSuperblock {
  /** Of its whole block: commits have different ones, also where their roots are in the same blocks. */
  checksum: number;
  /** The pool asks for thin_check or thin_repair. */
  needsCheck: boolean;
  /** Raised by each snapshot. */
  time: number;
  transactionId: bigint;
  /** Block of the copy that a metadata snapshot made; null: none is held. */
  heldRoot: bigint | null;
  mappingRoot: bigint;
  detailsRoot: bigint;
  /** Of one data block. */
  dataBlockBytes: bigint;
  /** Blocks of the data device; 0n in the copy of a metadata snapshot, which does not know. */
  dataBlocks: bigint;
  metadataBlocks: bigint;
}

export interface ThinDeviceDetails {
  deviceId: number;
  /** Of its mapping tree. */
  root: bigint;
  mappedBlocks: bigint;
  /** The pool's transaction id when it was made. */
  transactionId: bigint;
  /** The pool's time when it was made, and when it was last forked. */
  creationTime: number;
  snapshottedTime: number;
}

/** What a run of blocks is in a delta record, as thin_delta calls it. */
export const ThinDeltaKind = { SAME: 0, LEFT_ONLY: 1, RIGHT_ONLY: 2, DIFFERENT: 3 } as const;

export interface ThinAddon {
  /** The checked superblock. */
  thinSuperblock(request: ThinMetadata): NativeResult<{ superblock: ThinSuperblock }>;

  /**
   * Devices in the order of their ids: those asked for that exist, or all (null). At most 65,536 of
   * them; `truncated` tells that there are more.
   */
  thinDevices(
    request: ThinMetadata & { deviceIds: readonly number[] | null },
  ): NativeResult<{ devices: ThinDeviceDetails[]; truncated: boolean }>;

  /**
   * Runs of blocks, for printing, from `firstBlock` on: 3 words each (kind, first block, count), in
   * ascending order, neighbours of one kind joined within the call, maxRecords (1 to 65,536) at most. `base` is the left side
   * of thin_delta, null: every mapped block is RIGHT_ONLY. Blocks mapped on neither side have no
   * record. SAME only with includeSame, which costs the walk of both trees whole. Runs are not cut to
   * a volume's size: the metadata does not know it.
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
   * Writes what later deltas need of a snapshot that is about to be deleted: its creation time and
   * which blocks it maps (ranges or a bitmap, whichever is smaller, cut to sizeBytes), with a checksum,
   * under a temporary name, durable and renamed when it returns. A file that is there is read, checked
   * and told instead. EINVAL if a mapping of the snapshot is as young as itself: it was written to.
   */
  thinKeepBase(
    request: ThinMetadata & {
      device: ThinDeviceRef;
      sizeBytes: bigint;
      temporaryPath: string;
      path: string;
    },
  ): NativeResult<{ fileBytes: bigint; creationTime: number; mappedBlocks: bigint }>;
}
