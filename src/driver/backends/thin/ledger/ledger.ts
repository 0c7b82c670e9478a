/**
 * What a thin pool's ledger remembers: only what neither the kernel nor the pool's metadata can know.
 *
 * dm-thin knows devices by a number of 24 bits and a pool by a transaction id; the ledger says which
 * volume or snapshot a number is, and which change of the pool was under way when its transaction id
 * was raised (pool-transaction.ts). One ledger a pool, in the pool's directory. Sizes are bytes, `null`
 * is absent. No rule lives here.
 */
export type DeviceKind = 'volume' | 'snapshot';

/**
 * creating and deleting: part of the transaction that is open, and no object; live: in the pool as of
 * the transaction that was applied last.
 */
export type DeviceState = 'creating' | 'live' | 'deleting';

export interface NewDevice {
  objectId: string;
  kind: DeviceKind;
  sizeBytes: bigint;
  /**
   * The volume whose content it continues: for a snapshot its source volume, for a volume (also a clone)
   * the volume itself. Volume ids are never reused, so neither are lineages.
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
}

/** A change of the pool that was begun and not finished. Its devices are those in another state than live. */
export interface OpenTransaction {
  /** The pool's transaction id when the change has happened: one more than before. */
  opens: bigint;
  creates: DeviceRecord[];
  deletes: DeviceRecord[];
}

/** What the superblock said when nobody used the pool any more. */
export interface StopStamp {
  transactionId: bigint;
  time: number;
  mappingRoot: bigint;
  detailsRoot: bigint;
}

export interface PoolRecord {
  uuid: string;
  /**
   * new: nothing was written to the metadata device; formatting: all-zero metadata was found and handed
   * to the kernel; ready: it is formatted, and never will be again.
   */
  state: 'new' | 'formatting' | 'ready';
  /** Of a data block; fixed from the beginning. */
  dataBlockBytes: bigint;
  /** Size of the data device at whose end its label stands (device-label.ts); null: never labelled. */
  labelledBytes: bigint | null;
  /** The pool's transaction id, as of the last transaction applied. */
  transactionId: bigint;
  /** A metadata snapshot is held by us, or was about to be. */
  holdsMetadataSnapshot: boolean;
  /** Boot in which the pool was last used; null: never. */
  bootId: string | null;
  /** Discards of volumes may have gone on to the data device in that use. */
  passesDiscards: boolean;
  /** Null while the pool is used, and after it went away unattended. */
  stopped: StopStamp | null;
}

/** The record of a retained base; the blocks are in a file that createThinBookmark wrote. */
export interface BookmarkRecord {
  snapshotId: string;
  /** As DeviceRecord has it. */
  lineage: string;
  sizeBytes: bigint;
  /** The pool's time when the snapshot was taken. */
  creationTime: number;
  /** Size of the file. */
  storedBytes: bigint;
  /** Why it is unsound as a base; null: it is sound. */
  invalidReason: string | null;
}
