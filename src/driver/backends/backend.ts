/**
 * The contract of a backend: the owner of one pool of storage on this node.
 *
 * The contract names volumes and snapshots by id only. It knows nothing of CSI requests, names, lineage, idempotence by name
 * (volumes/ does) or gRPC. Answers come from the pool and the kernel at the moment of the call, except for a few things that a
 * backend may keep in memory: the identities of its directories, checked by every operation; its change lists and retained
 * bases, from one look at the pool at its start and from every change since (retained/list-graph.ts); figures of space of the
 * last second; and how the last copy of each volume went, which a restart forgets (reflink/last-copies.ts). The process may be
 * killed anywhere in a method, and the method called again; deletes and detaches of absent objects succeed. Callers hold the
 * operation lock of the object for the length of the call. Sizes are bytes. Failures are CsiError or SystemError.
 */

import type { ReleaseWait } from '../host/device-release.js';
import type { FileSystem } from '../host/file-systems.js';
import type { Look, LookRequest } from '../native/look-calls.js';
import type { SnapshotScan } from './snapshot-scan.js';

/** A volume as a block device of this node. */
export interface Attachment {
  /** /dev/loopN or /dev/dm-N. Valid at the moment only; never store the path. */
  devicePath: string;
  /** st_rdev of the device. */
  rdev: number;
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
   * Space that new volumes may take: the free space less the reserve, times the overcommitment, less the space that existing
   * volumes may still claim. Never negative.
   */
  availableBytes: bigint;
  /** Whether the storage below may fail to provide space that is already committed to volumes. If so, no more is committed. */
  lacksBacking?: boolean;
  minimumVolumeBytes: bigint;
  /** Volume sizes are whole multiples of this number. */
  granularityBytes: bigint;
  /** Space of the metadata; absent unless the pool keeps its metadata in a space of its own. */
  metadata?: { totalBytes: bigint; usedBytes: bigint };
}

/** A directory with reflinks, an image file with such a directory, a dm-thin pool, or the pool of a test in memory. */
export type PoolKind = 'reflink' | 'embedded reflink' | 'thin' | 'memory';

export interface PoolStatistics {
  /** Null if unknown, as in a thin pool that has failed. */
  space: { capacity: PoolCapacity; promisedBytes: bigint; volumes: VolumeSpace } | null;
  /** Null if the pool is not a dm-thin pool. */
  thin: ThinStatistics | null;
  /** Volumes attached for writing, by whether their loop devices use direct I/O; absent if volumes have no loop devices. */
  attached?: { direct: number; pageCache: number };
}

/**
 * Space that the blocks of each volume take, by the volume's id. Blocks that the volume shares with snapshots or other
 * volumes count for each of them.
 */
export type VolumeSpace = ReadonlyMap<string, bigint>;

export interface ThinStatistics {
  /** The mode of the pool, as device-mapper names it: rw, ro, out_of_data_space, fail or error. */
  mode: string;
  needsCheck: boolean;
  /** Sizes of the data device and of its blocks in use; null in modes fail and error, which report no sizes. */
  data: { totalBytes: bigint; usedBytes: bigint } | null;
}

export interface PoolObject {
  id: string;
  sizeBytes: bigint;
}

/** The id of a replica is the snapshot's. */
export type PoolObjectId =
  | { readonly volumeId: string }
  | { readonly snapshotId: string }
  | { readonly replicaId: string };

/** A copy that took longer than its volume may stay frozen, or nearly did. */
export interface LongCopy {
  /** Extents of the file when the copy was given up; null if the copy completed, after more than half of that time. */
  extents: bigint | null;
  /** How long the volume might stay frozen. */
  allowedMs: bigint;
}

/** The state of a volume's storage, observed without reading its device. Cheap; for health checks. */
export interface StorageCondition {
  /** Size of the volume's storage in the pool; null if it is gone. */
  storedBytes: bigint | null;
  /** The storage was removed from the pool while a device of the volume still uses it. */
  runsOnRemoved: boolean;
  /** The volume's last copy, if it took long. */
  longCopy?: LongCopy;
  /** How long ago a copy found the volume frozen by another program; absent if none did, or if a write followed. */
  frozenForMs?: number;
}

export interface SnapshotMember {
  volumeId: string;
  snapshotId: string;
}

export interface ListedSnapshot {
  id: string;
  /** Undefined if it was not asked for. */
  sizeBytes?: bigint | undefined;
}

/** The contents of a pool, for reconciliation with the catalogue. */
export interface PoolContents {
  volumes: PoolObject[];
  snapshots: ListedSnapshot[];
  /** Names in the pool that belong to no complete object: foreign names, or names that a kill left. */
  unknown: string[];
}

export interface Backend {
  /** The pool's name, as in the StorageClass parameter `pool`. */
  readonly pool: string;
  /** What kind of pool it is, for logs and reports; final once the pool has started. */
  readonly kind: PoolKind;

  /**
   * Makes the pool usable: creates, attaches and mounts the pool where that is the backend's task. Idempotent. Never creates
   * a pool that is expected to exist: FAILED_PRECONDITION if the pool is missing, for example because its disk did not come
   * up. Removes the temporary files that a killed run left, and returns their names. A failure to remove them is a PoolEvent.
   * Call this while no other call is under way.
   *
   * @param claim gets the uuid that the pool itself stores, by which an unmounted or swapped pool is detected. The start
   *   removes no temporary file before `claim` resolves, and fails as `claim` does.
   */
  start(expected?: 'any' | 'existing', claim?: (uuid: string) => Promise<unknown>): Promise<string[]>;
  /** Releases what start acquired, except what attached volumes still use. */
  stop(): Promise<void>;
  /**
   * FAILED_PRECONDITION with the reason if the pool cannot serve, or if the kernel of the node lacks a feature that the pool
   * needs. Cheap, and bounded in time.
   */
  check(): Promise<void>;
  /**
   * 'recent' may use figures of the last second, which saves a look at every volume. `availableBytes` may then be too low:
   * the caller may admit a volume because of it, but must not refuse one.
   */
  capacity(age?: 'now' | 'recent'): Promise<PoolCapacity>;
  /** For monitoring; contains what `capacity` answers. FAILED_PRECONDITION if the pool cannot be reached. */
  statistics(): Promise<PoolStatistics>;
  /**
   * Every listed object survives a power failure, unless it is removed.
   *
   * @param sizes `volumes` may leave out the sizes of the snapshots, which can take a look at the file of each
   */
  list(sizes?: 'all' | 'volumes'): Promise<PoolContents>;

  /** Until the pool has started, these parts fail with FAILED_PRECONDITION. */
  readonly volumes: PoolVolumes;
  readonly snapshots: PoolSnapshots;
  readonly attachments: Attachments;
  readonly marks: InitializedVolumes;
  readonly bases: PoolBases;
  readonly changes: SnapshotChanges;
  /** Absent if the pool cannot hold replicas. */
  readonly replicas?: PoolReplicas;
}

/** The storage of volumes. */
export interface PoolVolumes {
  /**
   * Creates a writable volume with the content of the source, followed by zeros. The source is a snapshot, a complete replica,
   * or a volume, which is copied as a snapshot taken now would be. The size is at least the source's. Succeeds if the volume
   * exists with this size. FAILED_PRECONDITION if the snapshot or replica may have been modified since it was taken. A source volume is frozen meanwhile,
   * with the failures of PoolSnapshots.create.
   *
   * @param deadline when the caller stops waiting, ms since the epoch; Infinity if never
   */
  create(volumeId: string, sizeBytes: bigint, source?: PoolObjectId | null, deadline?: number): Promise<void>;
  /**
   * Detaches and removes the volume, its initialized mark last. FAILED_PRECONDITION if the device is in
   * use. Does not affect its snapshots.
   */
  delete(volumeId: string): Promise<void>;
  /**
   * Grows the volume, and its device if it is attached, to at least this size; the new part reads as zeros. Never shrinks the
   * volume. Returns the resulting size.
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
   * The file system that a volume or snapshot begins with, by its superblock; null if there is none or an unknown one, or if
   * the pool cannot read the object without attaching it.
   */
  fileSystemIn(object: PoolObjectId): Promise<FileSystem | null>;
  /**
   * Lets writers go on after a copy or a snapshot of the volume was killed. Do not call it after a failure: a failed copy has
   * let writers go on, and another program may have frozen the file system since. Succeeds if there is no volume.
   */
  thaw(volumeId: string): Promise<void>;
}

export interface PoolSnapshots {
  /**
   * Takes snapshots of one or several volumes at one point in time. They contain everything written and synced before the
   * call; mounted file systems are frozen meanwhile, so that they are clean as well. The snapshots are durable when the
   * method returns; a failure leaves none of them. FAILED_PRECONDITION if several volumes are being written to and cannot be
   * frozen. A file system that another program has frozen is copied as it is and stays frozen. ABORTED if that program thaws
   * the file system meanwhile, or if a freeze takes longer than the pool's limit or the deadline.
   *
   * @param deadline when the caller stops waiting, ms since the epoch; Infinity if never
   */
  create(members: readonly SnapshotMember[], deadline?: number): Promise<TakenSnapshots>;
  /** Deletes the snapshot and the remains of a killed creation. A pool that needs it for a pending base keeps it, hidden. */
  delete(snapshotId: string): Promise<void>;
  /**
   * FAILED_PRECONDITION unless the pool holds a snapshot of exactly this size that cannot have been
   * modified since it was taken.
   */
  check(snapshotId: string, sizeBytes: bigint): Promise<void>;
  /**
   * The snapshot as a block device that refuses writes. Its bytes stay until the device is closed or this process ends, even
   * if the snapshot is deleted. FAILED_PRECONDITION as `check`. Absent if the pool cannot do that.
   */
  open?(snapshotId: string): Promise<OpenSnapshot>;
}

export interface OpenSnapshot {
  /** Valid until it is closed; never store it. */
  readonly path: string;
  close(): Promise<void>;
}

/**
 * Replicas: frozen copies of snapshots of other nodes, from which volumes are created as from snapshots of this node. Each has
 * the id of its snapshot. A pull writes an unfinished replica until its content is that of the snapshot, and completes it.
 * Neither `list` of the backend nor any other facet shows replicas.
 */
export interface PoolReplicas {
  /**
   * Makes room in the pool for so many bytes of replicas beside what volumes may still claim, and keeps it for nobody. Does
   * nothing if the pool cannot grow. RESOURCE_EXHAUSTED if it has to and cannot.
   */
  makeRoom(bytes: bigint): Promise<void>;
  /**
   * Begins a replica of this size, durably: with the content of a complete replica, followed by zeros, or with zeros. Goes on
   * with an unfinished one of this size, whatever it was begun from. FAILED_PRECONDITION if the base may have been modified.
   * INTERNAL if the replica is complete, or unfinished with another size.
   */
  begin(snapshotId: string, sizeBytes: bigint, baseId: string | null): Promise<void>;
  /** An unfinished replica as a block device, which only this process and what it starts should use. */
  open(snapshotId: string): Promise<ReplicaDevice>;
  /** As PoolSnapshots.open, of a complete replica. */
  openComplete(snapshotId: string): Promise<OpenSnapshot>;
  /**
   * Freezes a replica whose content is that of the snapshot, for ever. Everything written is durable when the method returns.
   * Succeeds if it is complete. Whoever has its device open fails the call with EBUSY.
   */
  complete(snapshotId: string): Promise<void>;
  /**
   * Records durably in the pool that the replica is promised to the node of its snapshot, so that no rule removes it even if the
   * catalogue loses its row. Replaces an earlier promise. FAILED_PRECONDITION unless the replica is complete.
   *
   * @param promiseId 32 hexadecimal digits
   */
  promise(snapshotId: string, promiseId: string): Promise<void>;
  /** Removes the replica, complete or not, its device and its promise. Succeeds if there is none. */
  delete(snapshotId: string): Promise<void>;
  /** FAILED_PRECONDITION unless there is a complete replica of exactly this size that cannot have been modified since. */
  check(snapshotId: string, sizeBytes: bigint): Promise<void>;
  list(): Promise<Replica[]>;
}

export interface Replica {
  readonly snapshotId: string;
  readonly sizeBytes: bigint;
  readonly isComplete: boolean;
  /** Null: it is promised to nobody. */
  readonly promiseId: string | null;
}

export interface ReplicaDevice {
  /** Valid until it is closed; never store it. */
  readonly path: string;
  /** Frees ranges of whole sectors: they read as zeros afterwards. */
  punch(ranges: readonly { readonly offset: bigint; readonly size: bigint }[]): Promise<void>;
  /**
   * Makes all that was written and punched durable. UNAVAILABLE if something that was written since the device was opened is
   * lost, even if its writer was told so and went on.
   */
  flush(): Promise<void>;
  /** Detaches the device, as the end of this process does. The content stays. */
  close(): Promise<void>;
}

export interface AttachOptions {
  readOnly: boolean;
  /** If absent, the volume may have any size. */
  atLeastBytes?: bigint;
}

/** Volumes as block devices of this node. */
export interface Attachments {
  /**
   * Returns the existing device if the volume is attached the same way. A new device with `readOnly` false accepts writes,
   * even if an earlier device with its number was set read-only. FAILED_PRECONDITION as PoolVolumes.check.
   */
  attach(volumeId: string, options: AttachOptions): Promise<Attachment>;
  /**
   * Succeeds if the volume is not attached. FAILED_PRECONDITION, with the holders' names, if the device is still in use after
   * the time that `wait` allows; without `wait`, after a few seconds.
   */
  detach(volumeId: string, wait?: ReleaseWait): Promise<void>;
  /** The device as the kernel reports it; null if the volume is not attached. */
  find(volumeId: string): Promise<Attachment | null>;
  /**
   * As `find`, with a look at the device and at whatever else the caller wants to see, in one task. Null if that takes more
   * than one task: then the caller has to call `find`, and to look by itself.
   */
  findAndLook?(volumeId: string, around: LookRequest): Promise<{ attachment: Attachment | null; look: Look } | null>;
}

/**
 * Marks of volumes that may hold data of their users. The marks are in the pool itself, so that not even a plugin with a
 * catalogue from a backup takes such a volume for pristine and formats it. Each mark is deleted with its volume.
 */
export interface InitializedVolumes {
  /** The marks are durable when the method returns. */
  set(volumeIds: readonly string[]): Promise<void>;
  has(volumeId: string): Promise<boolean>;
  /**
   * Removes the marks of volumes that the pool does not hold, and returns the ids of all other marked volumes. Call this only
   * once interrupted creations are settled: a mark without a volume tells them that the volume was complete and is lost.
   *
   * @param volumes what the pool holds, if the caller has just listed that
   */
  sweep(volumes?: readonly PoolObject[]): Promise<ReadonlySet<string>>;
}

/** Retained bases: the remains of deleted snapshots, which let a delta still begin at them. */
export interface PoolBases {
  /**
   * Retains what later deltas need from a snapshot that is about to be deleted. The retained base is durable when the method
   * returns, which may take as long as a scan of the snapshot. Returns the existing retained base if there is one, even if
   * the snapshot is gone. Null if the pool has no such snapshot.
   *
   * @param nextId the next snapshot of its volume that the pool holds, pending ones included; null if there is none
   */
  retain(snapshotId: string, nextId: string | null): Promise<RetainedBase | Unretained | null>;
  /** All retained bases, or only those of the given snapshots. */
  all(snapshotIds?: readonly string[]): RetainedBases;
  /** Deleted snapshots whose base is pending: usually one for each volume, or none. */
  readonly held: ReadonlyMap<string, unknown>;
  /** Deletes a retained base, usable or not, and the snapshot or bookmark that is held for it. Succeeds if there is none. */
  drop(snapshotId: string): Promise<void>;
}

/** The allocated ranges of snapshots, and the differences between snapshots. */
export interface SnapshotChanges {
  /**
   * Returns how to scan one snapshot, or a target and a base; the base may be a retained one. The source is plain data
   * without handles, so the caller must keep the snapshots from being deleted and the base from being dropped meanwhile.
   * NOT_FOUND if the retained base was invalidated, ABORTED if `neededFor` now names another snapshot, FAILED_PRECONDITION if
   * there is no sound scan for another reason.
   */
  scan(targetId: string, baseId: string | null): Promise<SnapshotScan>;
  /**
   * The snapshot from which a list has to be made before a deleted base can be compared with the target; null if there is
   * none. The caller of `scan` also holds the lock of that snapshot. Until then, the answer may change.
   */
  neededFor(targetId: string, baseId: string): string | null;
  /**
   * Begins to store a list, so that later scans need not read the snapshots: the changes from a base to a target, both
   * snapshots of one volume, or without a base the allocated ranges of the target. Both snapshots stay as they are. Null if
   * the list is stored already, if there is no room for it, or if this backend stores none.
   */
  begin(targetId: string, baseId: string | null): Promise<UnfinishedList | null>;
  /**
   * Call before a snapshot is deleted. Stores the differences between its neighbours, as far as they follow from stored
   * lists. Changes nothing else, and does not read the snapshots.
   */
  join(snapshotId: string, nextId: string): Promise<void>;
}

/** A list that is being stored. */
export interface UnfinishedList {
  /** Makes one step, a fraction of a second. True once the list is stored. A failure leaves nothing of the list. */
  step(): Promise<boolean>;
  /** Removes the unfinished list. */
  abandon(): Promise<void>;
}

/** The remains of a deleted snapshot, which let a delta still begin at it. */
export interface RetainedBase {
  snapshotId: string;
  /** Space that the base occupies, without the snapshot of a pending base: nobody can tell which blocks a snapshot shares. */
  storedBytes: bigint;
  /**
   * There was no later snapshot, so the pool holds the snapshot itself (reflink) or a bookmark of it (thin). Once there is a
   * later snapshot, call `retain` again, then PoolSnapshots.delete, which frees what is held.
   */
  pending?: true;
}

/** The answer when nothing was retained although nothing has failed. */
export interface Unretained {
  /** Why not, as a clause that follows "because". */
  unretained: string;
}

/** Each retained base is in one of the lists until it is dropped. */
export interface RetainedBases {
  /** Bases that a delta can begin at. */
  usable: RetainedBase[];
  /** Bases that no delta can begin at any more, because nothing proves that it would contain every change. */
  invalidated: InvalidatedBase[];
}

export interface InvalidatedBase {
  snapshotId: string;
  /** What happened, as a clause that follows "because". */
  reason: string;
}

/** An event in a pool that no call has asked about; goes to the log. */
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
