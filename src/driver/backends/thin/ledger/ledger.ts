/**
 * What a thin pool's ledger remembers: only what neither the kernel nor the pool's metadata can know.
 *
 * dm-thin knows devices by a number of 24 bits and a pool by a transaction id; the ledger says which volume or snapshot a
 * number is, and which change of the pool was under way when its transaction id was raised (pool-transaction.ts). Each pool
 * has one ledger, in its directory. Sizes are bytes; `null` means absent. Contains no rules.
 */

/**
 * A replica of a snapshot of another node is a device that a pull writes and, once it is complete, a seal of it
 * (thin-replicas.ts). 'opened' is a copy of a snapshot that a process reads as a block device, and never outlives the process.
 */
export type DeviceKind = 'volume' | 'snapshot' | 'replica' | 'seal' | 'opened';

/**
 * creating, deleting: the device is part of the open transaction, and no object; live: the device is in the pool as of the
 * transaction that was applied last.
 */
export type DeviceState = 'creating' | 'live' | 'deleting';

export interface NewDevice {
  /** The volume's or snapshot's id; for other kinds, the snapshot's id with a suffix that begins with a dot. */
  objectId: string;
  kind: DeviceKind;
  sizeBytes: bigint;
  /**
   * The volume whose content the device continues: for a snapshot its source volume, for everything else (also a clone) the
   * device itself. Volume ids are never reused, so neither are lineages.
   */
  lineage: string;
}

export interface DeviceRecord extends NewDevice {
  deviceId: number;
  state: DeviceState;
  /** The pool's transaction id when the device was created, as in its details in the metadata. */
  madeAt: bigint;
  /**
   * A volume is attached for writing, or was when a plugin or machine stopped; then writes since the last
   * commit may be lost. Cleared after the commit that follows its detaching.
   */
  open: boolean;
  /** The promise of a replica, or null. */
  promiseId: string | null;
}

/** A change of the pool that was begun and not finished. Its devices are those in another state than live. */
export interface OpenTransaction {
  /** The pool's transaction id after the change: one more than before. */
  opens: bigint;
  creates: DeviceRecord[];
  deletes: DeviceRecord[];
}

/** The content of the superblock when nobody used the pool any more. */
export interface StopStamp {
  transactionId: bigint;
  time: number;
  mappingRoot: bigint;
  detailsRoot: bigint;
}

export interface PoolRecord {
  uuid: string;
  /**
   * new: nothing was written to the metadata device; formatting: all-zero metadata was found and handed to the kernel; ready:
   * the device is formatted, and never will be again.
   */
  state: 'new' | 'formatting' | 'ready';
  /** Size of a data block; fixed from the beginning. */
  dataBlockBytes: bigint;
  /** Size of the data device that determines where its label is (device-label.ts); null if it was never labelled. */
  labelledBytes: bigint | null;
  /** The pool's transaction id, as of the last transaction applied. */
  transactionId: bigint;
  /** The plugin holds a metadata snapshot, or was about to take one. */
  holdsMetadataSnapshot: boolean;
  /** Boot in which the pool was last used; null if never. */
  bootId: string | null;
  /** In that use, discards of volumes may have reached the data device. */
  passesDiscards: boolean;
  /** Null while the pool is in use, and after a use that ended without an orderly stop. */
  stopped: StopStamp | null;
}

/** The record of a retained base; the blocks are in a file that createThinBookmark wrote. */
export interface BookmarkRecord {
  snapshotId: string;
  /** See NewDevice. */
  lineage: string;
  sizeBytes: bigint;
  /** The pool's time when the snapshot was taken. */
  creationTime: number;
  /** Size of the file. */
  storedBytes: bigint;
  /** Why the bookmark is unsound as a base; null if it is sound. */
  invalidReason: string | null;
}
