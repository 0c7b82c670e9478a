/**
 * What a thin pool's ledger remembers: only what neither the kernel nor the pool's metadata can know.
 *
 * dm-thin knows devices by a number of 24 bits and a pool by a transaction id; the ledger says which
 * volume or snapshot a number is, and which change of the pool was under way when its transaction id
 * was raised (pool-transaction.ts). One ledger a pool, in the pool's directory. Sizes are bytes, `null`
 * is absent. No rule lives here.
 */
import type { OnThread, OpenDatabase } from '../../../database/database-thread.js';

export type DeviceKind = 'volume' | 'snapshot';

/**
 * creating and deleting: part of the transaction that is open, and no object; live: in the pool as of
 * the transaction that was applied last.
 */
export type DeviceState = 'creating' | 'live' | 'deleting';

/** A device to be made. */
export interface NewDevice {
  objectId: string;
  kind: DeviceKind;
  sizeBytes: bigint;
  /**
   * The volume whose content it continues: for a snapshot the one it is cut of, for a volume, a copy
   * too, itself. Volume ids are never given twice, so neither are lineages.
   */
  lineage: string;
}

export interface DeviceRecord extends NewDevice {
  deviceId: number;
  state: DeviceState;
  /** The pool's transaction id when it was made, as its details in the metadata tell it. */
  madeAt: bigint;
  /**
   * Of a volume: attached writable, or was when a plugin or machine went away; what was written since the
   * last commit may be lost then. Cleared after a commit that follows its detaching.
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

/** What is kept of a deleted snapshot beside the file that createThinBookmark wrote. */
export interface RetainedBaseRecord {
  snapshotId: string;
  /** As DeviceRecord has it. */
  lineage: string;
  sizeBytes: bigint;
  /** The pool's time when the snapshot was cut. */
  creationTime: number;
  /** Of the file. */
  storedBytes: bigint;
  /** Why it must not be compared with any more; null: it may. */
  lost: string | null;
}

/** Every call is one transaction, durable when it returns. */
export interface Ledger {
  /** Makes the ledger one of a pool with that block size; it is already: done. Before all other calls. */
  makePool(dataBlockBytes: bigint): void;
  pool(): PoolRecord;
  setPoolState(state: PoolRecord['state']): void;
  setLabelledBytes(deviceBytes: bigint): void;
  setHoldsMetadataSnapshot(holds: boolean): void;
  /** The pool is used from now on: forgets the stamp of the last stop. */
  recordStart(bootId: string, passesDiscards: boolean): void;
  recordStop(stamp: StopStamp): void;

  /** Live ones, and those being deleted; in the order of their ids. */
  devices(): DeviceRecord[];
  /** Null unless it is live. */
  device(objectId: string): DeviceRecord | null;
  /** Those that begin() gives next. */
  upcomingIds(count: number): number[];
  /** The next ids are those after this one: it is taken in the pool. */
  skipDeviceIds(last: number): void;
  /** Never smaller. Returns the size it has then; null: no such volume. */
  growVolume(volumeId: string, sizeBytes: bigint): bigint | null;
  setOpen(volumeId: string, open: boolean): void;

  /**
   * Opens a transaction that makes these devices and deletes those (object ids of live ones), and gives
   * the new ones their ids: never one that is known here. Throws if one is open already, or an object
   * id is taken.
   */
  begin(creates: readonly NewDevice[], deletes: readonly string[]): OpenTransaction;
  /** Null: none is open. */
  openTransaction(): OpenTransaction | null;
  /** The pool has the id that the transaction opens: what it made is live, what it deleted is gone. */
  apply(): void;
  /** Nothing of it has happened: the ids it gave are free to be given again, much later. */
  undo(): void;

  markInitialized(volumeId: string): void;
  isInitialized(volumeId: string): boolean;
  initializedVolumes(): string[];
  unmarkInitialized(volumeId: string): void;
  /** Removes marks of volumes that are not there. */
  sweepMarks(): void;

  /** In the order they were kept. */
  retainedBases(): RetainedBaseRecord[];
  retainedBase(snapshotId: string): RetainedBaseRecord | null;
  /** There already: done. */
  insertRetainedBase(base: RetainedBaseRecord): void;
  /** Lost already: done, and the first reason stays. */
  invalidateRetainedBase(snapshotId: string, reason: string): void;
  /** The same of all, or of none if it fails. How many were not lost before. */
  invalidateAllRetainedBases(reason: string): number;
  removeRetainedBase(snapshotId: string): void;
}

export type AsyncLedger = OnThread<Ledger>;
export type OpenLedger = OpenDatabase<Ledger>;
