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
import type { ScanSource } from '../native/addon.js';

/** A volume as a block device of this node. */
export interface Attachment {
  /** /dev/loopN or /dev/dm-N: valid now, never to be remembered. */
  devicePath: string;
  readOnly: boolean;
  sizeBytes: bigint;
}

export interface PoolCapacity {
  /** What the pool can hold in all. */
  totalBytes: bigint;
  /** What the storage below really has free now. */
  freeBytes: bigint;
  /** Of it, what is kept from new volumes. */
  reserveBytes: bigint;
  /**
   * What new volumes may still promise: what is free less the reserve, times the overcommitment, less
   * what existing volumes may still claim. Never negative.
   */
  availableBytes: bigint;
  /**
   * True: the storage below can refuse blocks of what was promised already, and so nothing more is
   * promised.
   */
  lacksPromised?: boolean;
  minimumVolumeBytes: bigint;
  /** Sizes are whole multiples of this. */
  granularityBytes: bigint;
}

export interface PoolObject {
  id: string;
  sizeBytes: bigint;
}

/** What can be seen of one volume's storage without asking its device, for judging its health. Cheap. */
export interface StorageCondition {
  /** Of the volume's storage in the pool; null if that is gone. */
  storedBytes: bigint | null;
  /** The storage is gone from the pool, and a device of this volume goes on running on it. */
  runsOnRemoved: boolean;
}

/** A volume, and what its snapshot will be called. */
export interface SnapshotMember {
  volumeId: string;
  snapshotId: string;
}

/** What a pool really holds, for reconciliation with the catalogue. */
export interface PoolContents {
  volumes: PoolObject[];
  snapshots: PoolObject[];
  /** Names in the pool that belong to no finished object (left by a kill, or foreign). */
  unknown: string[];
}

export interface Backend {
  /** The pool's name, as in the StorageClass parameter `pool`. */
  readonly pool: string;

  /**
   * Makes the pool usable (creates, attaches and mounts it where the backend owns that). Idempotent.
   * A pool that is known to exist is never made: FAILED_PRECONDITION if it is not there, as when its
   * disk did not come up.
   */
  start(expected?: 'any' | 'existing'): Promise<void>;
  /** Lets go of what start took where nothing uses it any more; never disturbs attached volumes. */
  stop(): Promise<void>;
  /** A uuid kept in the pool itself, so that an unmounted or swapped pool is noticed. */
  identity(): Promise<string>;
  /** FAILED_PRECONDITION with the remedy if the node lacks what the backend needs of its kernel. */
  checkNode(): Promise<void>;
  /** FAILED_PRECONDITION with the reason if the pool cannot serve. Cheap. */
  check(): Promise<void>;

  /** A new volume that reads as zeros. ALREADY there with this id and size: done. */
  createVolume(volumeId: string, sizeBytes: bigint): Promise<void>;
  /**
   * A new writable volume with a snapshot's content, zeros beyond it. sizeBytes >= the snapshot's.
   * FAILED_PRECONDITION if the snapshot can have been changed since it was taken.
   */
  restoreVolume(volumeId: string, snapshotId: string, sizeBytes: bigint): Promise<void>;
  /** Detaches and removes, the mark of use last. FAILED_PRECONDITION if the device is in use. Snapshots stay whole. */
  deleteVolume(volumeId: string): Promise<void>;

  /**
   * FAILED_PRECONDITION if the pool does not hold all of a volume that should have this size at least.
   * Cheap. Asked before anything is made of the volume or lets somebody use it.
   */
  checkVolume(volumeId: string, sizeBytes: bigint): Promise<void>;

  /**
   * Keeps in the pool itself that somebody else may write to the volume from now on, so that no
   * catalogue, restored from a backup maybe, can call it fresh. Durable when it returns; goes with the
   * volume.
   */
  markInitialized(volumeId: string): Promise<void>;
  /** False too for what was used before pools kept it: then the catalogue alone knows. */
  isInitialized(volumeId: string): Promise<boolean>;
  /** All of them that have the mark. */
  initializedVolumes(): Promise<ReadonlySet<string>>;

  /**
   * A new writable volume with the content that another one has at this moment, as a snapshot cut now
   * would have it, and zeros beyond it. sizeBytes >= the source's.
   */
  cloneVolume(volumeId: string, sourceVolumeId: string, sizeBytes: bigint): Promise<void>;
  /** Undoes a cloneVolume that was killed, as abandonSnapshots does a cut. */
  abandonClone(volumeId: string, sourceVolumeId: string): Promise<void>;
  /**
   * Makes the volume, and its device if it is attached, at least this large; the new part reads as
   * zeros. Returns the size it has then. Never shrinks.
   */
  expandVolume(volumeId: string, sizeBytes: bigint): Promise<bigint>;

  /**
   * Cuts snapshots of one or several volumes at one point in time: everything written and synced
   * before the call is in them; mounted file systems are frozen for the cut so that they are clean as
   * well. Durable when it returns; a failure leaves none of them. FAILED_PRECONDITION if several
   * volumes are being written to that cannot be held still.
   */
  createSnapshots(members: readonly SnapshotMember[]): Promise<TakenSnapshots>;
  deleteSnapshot(snapshotId: string): Promise<void>;
  /**
   * FAILED_PRECONDITION if the pool does not hold a snapshot of exactly this size, or if that can have
   * been changed since it was taken.
   */
  checkSnapshot(snapshotId: string, sizeBytes: bigint): Promise<void>;
  /**
   * Undoes a createSnapshots that was killed: thaws the volumes' file systems, removes what was made.
   * One that failed has thawed what it froze, and must not be undone this way: somebody else may have
   * frozen the file system.
   */
  abandonSnapshots(members: readonly SnapshotMember[]): Promise<void>;

  /** Makes the volume a block device. Attached the same way already: that device. */
  attach(volumeId: string, options: { readOnly: boolean }): Promise<Attachment>;
  /**
   * Not attached: done. FAILED_PRECONDITION, with the holders' names, if others hold the device for longer
   * than `wait` says, or than a few seconds.
   */
  detach(volumeId: string, wait?: ReleaseWait): Promise<void>;
  /** The kernel's answer; null if not attached. */
  findAttachment(volumeId: string): Promise<Attachment | null>;

  capacity(): Promise<PoolCapacity>;
  /** FAILED_PRECONDITION if the pool cannot be asked. */
  condition(volumeId: string): Promise<StorageCondition>;
  list(): Promise<PoolContents>;
  /**
   * Removes temporary files that a killed run left, and returns their names; removes marks of volumes
   * that are gone. Only before serving.
   */
  sweep(): Promise<string[]>;

  /**
   * Keeps what later deltas need of a snapshot that is about to be deleted, durable when it returns;
   * kept already: that, also when the snapshot is gone. Null: this pool cannot, or holds nothing of it.
   */
  retainBase(snapshotId: string): Promise<RetainedBase | null>;
  retainedBases(): Promise<RetainedBases>;
  /** Forgets it, lost or not. One that is not kept is forgotten already. */
  dropBase(snapshotId: string): Promise<void>;

  /**
   * Where a scan reads its extents: of one snapshot, or of a pair, whose base may be a deleted one that
   * is kept. Plain data without handles, so the caller must keep the snapshots from being deleted and
   * the base from being dropped. NOT_FOUND if the base was kept and is lost, FAILED_PRECONDITION if there
   * is no sound scan for another reason.
   */
  scanSource(targetSnapshotId: string, baseSnapshotId: string | null): Promise<ScanSource>;
}

/** What is left of a deleted snapshot so that it can still be the base of a delta. */
export interface RetainedBase {
  snapshotId: string;
  /** What keeping it costs. */
  storedBytes: bigint;
}

/** Each is in one of the lists until it is dropped. */
export interface RetainedBases {
  /** Those that may still be compared with. */
  usable: RetainedBase[];
  /** Those that may not any more, because nothing proves that what has changed since would be seen. */
  lost: InvalidatedBase[];
}

export interface InvalidatedBase {
  snapshotId: string;
  /** What has happened, for a person: goes behind "because". */
  reason: string;
}

export interface TakenSnapshots {
  /** Wall clock of the cut on this node, ns since the epoch. */
  creationTimeNs: bigint;
  /** In the order of the members. */
  sizesBytes: bigint[];
}
