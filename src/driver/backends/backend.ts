/**
 * The contract of a backend: the owner of one pool of storage on this node.
 *
 * A backend knows volumes and snapshots by id only. It knows nothing of CSI requests, names,
 * lineage or idempotence by name (volumes/ does) and nothing of gRPC. It keeps no memory of what it
 * did: every answer comes from the pool and the kernel at that moment. Every method may be killed
 * anywhere and called again; deletes and detaches of what is absent succeed. Callers hold the
 * operation lock of the object for the length of the call. Sizes are bytes. Failures are CsiError
 * or SystemError.
 */

import type { ReleaseWait } from '../host/device-release.js';
import type { FileSystem } from '../host/file-systems.js';
import type { SnapshotScan } from './snapshot-scan.js';

/** A volume as a block device of this node. */
export interface Attachment {
  /** /dev/loopN or /dev/dm-N. Valid now; never store it. */
  devicePath: string;
  readOnly: boolean;
  sizeBytes: bigint;
}

export interface PoolCapacity {
  /** Size of the pool. */
  totalBytes: bigint;
  /** Free space that the storage below can really provide now. */
  freeBytes: bigint;
  /** Part of the free space that new volumes may not use. */
  reserveBytes: bigint;
  /**
   * What new volumes may take: free space less the reserve, times the overcommitment, less what existing
   * volumes may still claim. Never negative.
   */
  availableBytes: bigint;
  /**
   * True: the storage below may fail to provide space that is already committed to volumes, so no more
   * is committed.
   */
  lacksBacking?: boolean;
  minimumVolumeBytes: bigint;
  /** Sizes are whole multiples of this. */
  granularityBytes: bigint;
  /** The metadata of a pool that keeps it in a space of its own. */
  metadata?: { totalBytes: bigint; usedBytes: bigint };
}

/** In words: a directory with reflinks, an image of one, a dm-thin pool, or one of a test. */
export type PoolKind = 'reflink' | 'embedded reflink' | 'thin' | 'memory';

export interface PoolStatistics {
  /** Null: unknown, as in a thin pool that has failed. */
  space: { capacity: PoolCapacity; promisedBytes: bigint; volumes: VolumeSpace } | null;
  /** Null: the pool is not a dm-thin pool. */
  thin: ThinStatistics | null;
  /** Attached volumes by whether their loop devices use direct I/O; left out where volumes have no loop devices. */
  attached?: { direct: number; pageCache: number };
}

/**
 * Space that the blocks of each volume take, by the volume's id. Blocks that it shares with snapshots or other
 * volumes count for each of them.
 */
export type VolumeSpace = ReadonlyMap<string, bigint>;

export interface ThinStatistics {
  /** As device-mapper names it: rw, ro, out_of_data_space, fail or error. */
  mode: string;
  needsCheck: boolean;
  /** Size of the data device, and of its blocks in use; null in modes fail and error, which say nothing else. */
  data: { totalBytes: bigint; usedBytes: bigint } | null;
}

export interface PoolObject {
  id: string;
  sizeBytes: bigint;
}

export type PoolObjectId = { readonly volumeId: string } | { readonly snapshotId: string };

/** A copy that outlasted the freeze that it may take, or nearly did. */
export interface LongCopy {
  /** Of its file then; null: it was complete, after more than half of that time. */
  extents: bigint | null;
  /** How long it might take. */
  allowedMs: bigint;
}

/** The state of a volume's storage, observed without reading its device. Cheap; for health checks. */
export interface StorageCondition {
  /** Size of the volume's storage in the pool; null if it is gone. */
  storedBytes: bigint | null;
  /** The storage was removed from the pool while a device of the volume still uses it. */
  runsOnRemoved: boolean;
  /** Its last copy took long; absent: it did not. */
  longCopy?: LongCopy;
  /** How long ago a snapshot found it frozen by another program, if nothing was written since; absent: it did not. */
  frozenForMs?: number;
}

export interface SnapshotMember {
  volumeId: string;
  snapshotId: string;
}

/** What a pool holds, for reconciliation with the catalogue. */
export interface PoolContents {
  volumes: PoolObject[];
  snapshots: PoolObject[];
  /** Names in the pool that belong to no complete object: foreign ones, or left by a kill. */
  unknown: string[];
}

export interface Backend {
  /** The pool's name, as in the StorageClass parameter `pool`. */
  readonly pool: string;
  /** What kind of pool it is, for logs and reports; final once the pool has started. */
  readonly kind: PoolKind;

  /**
   * Makes the pool usable: creates, attaches and mounts it where that is the backend's task. Idempotent.
   * Never creates a pool that is expected to exist: FAILED_PRECONDITION if it is missing, as when its
   * disk did not come up.
   */
  start(expected?: 'any' | 'existing'): Promise<void>;
  /** Releases what start acquired, except what attached volumes still use. */
  stop(): Promise<void>;
  /** A uuid stored in the pool itself, by which an unmounted or swapped pool is detected. */
  identity(): Promise<string>;
  /**
   * FAILED_PRECONDITION with the reason if the pool cannot serve, or the node lacks what it needs of the kernel. Cheap,
   * and bounded in time.
   */
  check(): Promise<void>;
  /**
   * 'recent' may use figures of the last second, which saves a look at every volume: then availableBytes may
   * be too low, so it may admit a volume and must not refuse one.
   */
  capacity(age?: 'now' | 'recent'): Promise<PoolCapacity>;
  /** For monitoring. FAILED_PRECONDITION if the pool cannot be reached. */
  statistics(): Promise<PoolStatistics>;
  /** What it lists survives a power failure, unless it is removed. */
  list(): Promise<PoolContents>;
  /**
   * Removes temporary files left by a killed run, and returns their names; removes the marks of volumes
   * that no longer exist. Called before serving only.
   */
  sweep(): Promise<string[]>;

  /** Until the pool has started, these are FAILED_PRECONDITION. */
  readonly volumes: PoolVolumes;
  readonly snapshots: PoolSnapshots;
  readonly attachments: Attachments;
  readonly marks: InitializedVolumes;
  readonly bases: PoolBases;
  readonly changes: SnapshotChanges;
}

/** The storage of volumes. */
export interface PoolVolumes {
  /**
   * Creates a writable volume with the content of the source, followed by zeros: of a snapshot, or of a volume as a
   * snapshot of it taken now would have it. Succeeds if the volume exists with this size, which is at least the source's.
   * FAILED_PRECONDITION if the snapshot may have been modified since it was taken. A volume as the source is
   * frozen meanwhile, with the failures of a snapshot.
   *
   * @param deadline when the caller stops waiting, ms since the epoch; Infinity: never
   */
  create(
    volumeId: string,
    sizeBytes: bigint,
    source?: PoolObjectId | null,
    deadline?: number,
  ): Promise<void>;
  /**
   * Detaches and removes the volume, its initialized mark last. FAILED_PRECONDITION if the device is in
   * use. Does not affect its snapshots.
   */
  delete(volumeId: string): Promise<void>;
  /**
   * Grows the volume, and its device if it is attached, to at least this size; the new part reads as
   * zeros. Never shrinks it. Returns the resulting size.
   */
  expand(volumeId: string, sizeBytes: bigint): Promise<bigint>;
  /**
   * FAILED_PRECONDITION unless the pool holds the volume with at least this size. Cheap; called before the
   * volume is copied.
   */
  check(volumeId: string, sizeBytes: bigint): Promise<void>;
  /** FAILED_PRECONDITION if the pool cannot be reached. */
  condition(volumeId: string): Promise<StorageCondition>;
  /**
   * The file system that a volume or snapshot begins with, by its superblock; null: none or another one, or
   * the pool cannot read the object without attaching it.
   */
  fileSystemIn(object: PoolObjectId): Promise<FileSystem | null>;
  /**
   * Lets writers go on where a copy or a snapshot of the volume was killed in the middle. Not after one that failed: it
   * has done so itself, and by now somebody else may have frozen the file system. Succeeds if there is no volume.
   */
  thaw(volumeId: string): Promise<void>;
}

export interface PoolSnapshots {
  /**
   * Takes snapshots of one or several volumes at one point in time. They contain everything written and
   * synced before the call; mounted file systems are frozen meanwhile, so that they are clean as well.
   * Durable when it returns; a failure leaves none of them. FAILED_PRECONDITION if several volumes are
   * being written to and cannot be frozen. What another program has frozen is taken as it is and stays frozen.
   * ABORTED if that program thaws it meanwhile, or if a freeze takes longer than the pool's limit or the deadline.
   *
   * @param deadline when the caller stops waiting, ms since the epoch; Infinity: never
   */
  create(members: readonly SnapshotMember[], deadline?: number): Promise<TakenSnapshots>;
  /** Deletes the snapshot, and what a killed creation left of it, unless its base is pending: then it stays, hidden. */
  delete(snapshotId: string): Promise<void>;
  /**
   * FAILED_PRECONDITION unless the pool holds a snapshot of exactly this size that cannot have been
   * modified since it was taken.
   */
  check(snapshotId: string, sizeBytes: bigint): Promise<void>;
}

export interface AttachOptions {
  readOnly: boolean;
  /** Left out: whatever size the volume has. */
  atLeastBytes?: bigint;
}

/** Volumes as block devices of this node. */
export interface Attachments {
  /**
   * Returns the existing device if it is attached the same way. A new one with `readOnly` false accepts writes, whatever
   * its number was set to before. FAILED_PRECONDITION as PoolVolumes.check.
   */
  attach(volumeId: string, options: AttachOptions): Promise<Attachment>;
  /**
   * Succeeds if it is not attached. FAILED_PRECONDITION, with the holders' names, if the device is still in
   * use after the time that `wait` allows, or a few seconds.
   */
  detach(volumeId: string, wait?: ReleaseWait): Promise<void>;
  /** As the kernel reports it; null if not attached. */
  find(volumeId: string): Promise<Attachment | null>;
}

/**
 * Which volumes may hold data of their users, recorded in the pool itself, so that not even a catalogue restored from
 * a backup can take one for pristine and format it. Each mark is deleted with its volume.
 */
export interface InitializedVolumes {
  /** Durable when it returns. */
  set(volumeIds: readonly string[]): Promise<void>;
  has(volumeId: string): Promise<boolean>;
  /** Ids of all marked volumes. */
  all(): Promise<ReadonlySet<string>>;
}

/** Retained bases: what remains of deleted snapshots, so that they can still be the base of a delta. */
export interface PoolBases {
  /**
   * Retains what later deltas need from a snapshot that is about to be deleted. Durable when it returns; may
   * take as long as a scan of the snapshot. Returns the existing retained base if there is one, also when the
   * snapshot is gone. Null: the pool has no such snapshot.
   *
   * @param nextId the next snapshot of its volume that the pool holds, pending ones included; null: there is none
   */
  retain(snapshotId: string, nextId: string | null): Promise<RetainedBase | Unretained | null>;
  /** All of them, or those of these snapshots. */
  all(snapshotIds?: readonly string[]): RetainedBases;
  /** Deleted snapshots that the pool holds because their base is pending: usually one for each volume, or none. */
  readonly held: ReadonlyMap<string, unknown>;
  /** Deletes a retained base, and the snapshot that is still held for it, usable or not. Succeeds if there is none. */
  drop(snapshotId: string): Promise<void>;
}

/** What snapshots hold, and what differs between them. */
export interface SnapshotChanges {
  /**
   * How one snapshot is scanned, or a target and a base, which may be a retained one. The source is plain data
   * without handles, so the caller must prevent the snapshots from being deleted and the base from being dropped
   * meanwhile. NOT_FOUND if the retained base was invalidated, FAILED_PRECONDITION
   * if there is no sound scan for another reason.
   */
  scan(targetId: string, baseId: string | null): Promise<SnapshotScan>;
  /**
   * The snapshot from which a list has to be made before a deleted base can be compared with the target; null: none has.
   * The caller of scan holds its lock too. May change as long as the caller does not.
   */
  neededFor(targetId: string, baseId: string): string | null;
  /**
   * Begins to store what changed from a base to a target, both snapshots of one volume, so that later deltas need not
   * look for it; or, without a base, what the target holds. Both stay as they are. Null: it is stored, there is no room
   * for it, or this backend stores nothing.
   */
  begin(targetId: string, baseId: string | null): Promise<UnfinishedList | null>;
  /**
   * Before a snapshot is deleted: stores what differs between its neighbours, as far as that follows from
   * what is stored. Changes nothing otherwise, and does not look at the snapshots.
   */
  join(snapshotId: string, nextId: string): Promise<void>;
}

/** A list that is being stored. */
export interface UnfinishedList {
  /** One step, a fraction of a second. True: the list is stored. After a failure nothing is left of it. */
  step(): Promise<boolean>;
  /** Removes what is there of it. */
  abandon(): Promise<void>;
}

/** What remains of a deleted snapshot so that it can still be the base of a delta. */
export interface RetainedBase {
  snapshotId: string;
  /** Space it occupies, without the snapshot of a pending one: nobody can tell which blocks it shares. */
  storedBytes: bigint;
  /**
   * The pool still holds the snapshot itself, because there was no later one. Retain it again when there is one,
   * and delete the snapshot, which frees its blocks.
   */
  pending?: true;
}

/** Nothing was retained, and nothing has failed. */
export interface Unretained {
  /** A clause that follows "because". */
  unretained: string;
}

/** Each retained base is in one of the lists until it is dropped. */
export interface RetainedBases {
  /** Can be the base of a delta. */
  usable: RetainedBase[];
  /** Cannot any more, because nothing proves that a delta would contain every change. */
  invalidated: InvalidatedBase[];
}

export interface InvalidatedBase {
  snapshotId: string;
  /** What happened, as a clause that follows "because". */
  reason: string;
}

/** Something that happened in a pool while no call was asking about it; goes to the log. */
export interface PoolEvent {
  level: 'info' | 'warn' | 'error';
  message: string;
}

export type OnEvent = (event: PoolEvent) => void;

export interface TakenSnapshots {
  /** When the snapshots were taken, by this node's wall clock; ns since the epoch. */
  creationTimeNs: bigint;
  /** In the order of the members. */
  sizesBytes: bigint[];
}
