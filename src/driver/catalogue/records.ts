/**
 * The records of the catalogue, which hold only what the kernel cannot know. Contains only types.
 *
 * Times are ns since the epoch and sizes are bytes, both bigint. `null` means absent.
 */

import type { StringMap } from '../../base/csi/string-map.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';

/**
 * creating: a CreateVolume that has not answered is making the volume, or was interrupted; deleting: the deletion has begun;
 * deleted: the volume is gone, and its record stays as the lineage of its snapshots.
 */
export type VolumeState = 'creating' | 'ready' | 'deleting' | 'deleted';
export type SnapshotState = 'creating' | 'ready' | 'deleting';

export interface VolumeRecord {
  volumeId: string;
  name: string;
  pool: string;
  sizeBytes: bigint;
  state: VolumeState;
  /** The parameters as requested at creation; the idempotence rules compare them. */
  parameters: StringMap;
  /** The mutable parameters as requested at creation; ControllerModifyVolume does not change them. */
  createdMutableParameters: StringMap;
  /** The mutable parameters in force, including those of `parameters` that have the same meaning. */
  mutableParameters: StringMap;
  capabilities: readonly VolumeCapability[];
  /** The snapshot that the content came from; it may have been deleted since. */
  sourceSnapshotId: string | null;
  /** The volume it was cloned from; it may have been deleted since. */
  sourceVolumeId: string | null;
  /**
   * True until the volume is first handed out: only the plugin has written to it, so creating a file
   * system on it, even a second time after a kill, destroys nothing. Never sufficient alone: the pool
   * has to agree (isPristine in volumes/).
   */
  pristine: boolean;
  /**
   * Created larger than its source and not handed out since: its file system must grow to the promised
   * size first.
   */
  awaitsGrowth: boolean;
  createdNs: bigint;
}

export interface SnapshotRecord {
  snapshotId: string;
  /** Null for a member of a group snapshot; members have no names. */
  name: string | null;
  groupSnapshotId: string | null;
  volumeId: string;
  pool: string;
  sizeBytes: bigint;
  state: SnapshotState;
  /** Increases with the order in which the snapshots of this node were taken. */
  sequence: bigint;
  creationTimeNs: bigint;
  parameters: StringMap;
  /** The volume was pristine when the snapshot was taken, and so is a volume restored from it. */
  pristine: boolean;
  /** No other node keeps a copy yet, although the snapshot was requested with one. */
  awaitsCopy: boolean;
}

/** A snapshot before the catalogue has assigned its sequence. */
export type NewSnapshot = Omit<SnapshotRecord, 'sequence'>;

/** Snapshots of several volumes, taken together. Its members are the snapshots that name it. */
export interface GroupSnapshotRecord {
  groupSnapshotId: string;
  name: string;
  /** The state of the group and of all its members. */
  state: SnapshotState;
  creationTimeNs: bigint;
  parameters: StringMap;
}

/** A ControllerPublishVolume, if the plugin serves that call: a promise to the caller, unknown to the kernel. */
export interface ControllerPublicationRecord {
  volumeId: string;
  nodeId: string;
  capability: VolumeCapability;
  readOnly: boolean;
}

/** The capability that a volume was staged with. mountinfo says whether the volume is staged now. */
export interface StagingRecord {
  volumeId: string;
  stagingPath: string;
  /** As `resolvedPath` in a PublicationRecord. */
  resolvedPath: string | null;
  capability: VolumeCapability;
}

export interface PublicationRecord {
  targetPath: string;
  /**
   * The target path without symbolic links, as it was at the publication. This path is unpublished later, wherever `targetPath`
   * leads by then. Null in a request if a directory above the target does not exist.
   */
  resolvedPath: string | null;
  volumeId: string;
  stagingPath: string;
  capability: VolumeCapability;
  readOnly: boolean;
  /** The pod that the volume is published for, if the orchestrator names it. The I/O limits apply to that pod. */
  podUid: string | null;
}

/** A volume and where it is recorded as used. */
export interface VolumeUses {
  /** Null if the catalogue does not know the id. */
  volume: VolumeRecord | null;
  stagings: StagingRecord[];
  publications: PublicationRecord[];
  /** The publication of any volume at the target path that was asked about; null if there is none. */
  there: PublicationRecord | null;
  /** Set if the volume has had copies on other nodes, or was to be moved, so that another one may have taken its place. */
  copied: CopiedVolume | null;
  /** Set while the volume is half restored. */
  restore: RestoreMark | null;
}

/** A deleted snapshot that deltas can still be computed from, or the reason why they cannot. */
export interface RetainedBaseRecord {
  snapshotId: string;
  volumeId: string;
  pool: string;
  /** The sequence, size and creation time of the snapshot. */
  sequence: bigint;
  sizeBytes: bigint;
  creationTimeNs: bigint;
  deletedNs: bigint;
  /** Space that the base takes in its pool. */
  storedBytes: bigint;
  /** Null while the base is valid. */
  invalidated: { reason: string; timeNs: bigint } | null;
  /** A later snapshot of its volume exists or may still be taken, so that a delta may be requested. */
  useful: boolean;
}

/** What a deleted snapshot's retained base adds to the snapshot's own row. */
export interface NewRetainedBase {
  snapshotId: string;
  deletedNs: bigint;
  storedBytes: bigint;
  /** Why nothing could be retained; null if the base is valid. */
  invalidReason: string | null;
}

/** A snapshot as its own node describes it, with everything that a volume from it needs. */
export interface DescribedSnapshot {
  snapshotId: string;
  volumeId: string;
  sizeBytes: bigint;
  /** The order of the snapshots of its node. */
  sequence: bigint;
  creationTimeNs: bigint;
  pristine: boolean;
  /** As VolumeSource.fileSystem. */
  fileSystem: string | null;
  /** The capabilities of its volume. */
  capabilities: readonly VolumeCapability[];
  /** The uuids of the catalogue and of the pool that it is in. */
  catalogueUuid: string;
  poolUuid: string;
}

/** A copy on this node of a snapshot of another node, complete or being pulled. */
export interface ReplicaRecord extends DescribedSnapshot {
  /** The pool of this node. */
  pool: string;
  /** The replica that it was begun from; null if it was begun empty. */
  baseId: string | null;
  /** The name of the one volume that the snapshot was taken for, as a clone of its volume; null if it was taken by a user. */
  cloneName: string | null;
  /** What the node of the snapshot has been promised; null: nothing, so rules may remove the replica. */
  promiseId: string | null;
  /** Where the next piece begins; null once the replica is complete. */
  nextOffset: bigint | null;
  /** When a call last asked for it, and when it was last used: completed, cloned, or the base of another. */
  askedNs: bigint;
  usedNs: bigint;
}

/**
 * pending: the other node is to pull the snapshot and to promise the copy. kept: it has promised. ending: the snapshot was
 * deleted, or another node was chosen, and the copy is to be removed.
 */
export type CopyState = 'pending' | 'kept' | 'ending';

/** A copy of a snapshot of this node on another node. */
export interface CopyRecord {
  /** Random, and in the records of both nodes. */
  promiseId: string;
  snapshotId: string;
  nodeId: string;
  state: CopyState;
}

/** A copy with what a router needs to know of its snapshot. */
export interface ListedCopy extends CopyRecord {
  /** Of the snapshot; '' once the snapshot is deleted. */
  volumeId: string;
  /** Of the other node, as the parameters of the snapshot's volume name it; '': the default. */
  pool: string;
}

export interface CopiedVolume {
  /** The volume that has taken its place; null if none has. */
  supersededBy: string | null;
  /** Whether it is not to be staged, because a volume is made that is to take its place. */
  isCordoned: boolean;
}

/** A volume of any node that one of this node has taken the place of. */
export interface SuccessionRecord {
  oldVolumeId: string;
  newVolumeId: string;
  /** Whether the node of the old volume refuses its staging. */
  isTold: boolean;
}

/** A volume that is half restored: a command that restores it in place has begun, and has not finished it. */
export interface RestoreMark {
  volumeId: string;
  /** What the command presents when it stages the volume. Never logged. */
  token: string;
  /** What finishes the restore, for people. */
  command: string;
  /** The name for the snapshot of what the volume held before. */
  snapshotName: string;
}

/** Part of a list that is ordered by id. */
export interface ListPage {
  /** Only ids greater than this one; '' starts at the beginning. */
  after: string;
  limit: number;
}

/** '' matches every id. */
export interface SnapshotFilter {
  snapshotId: string;
  volumeId: string;
}

export interface MemberSize {
  snapshotId: string;
  sizeBytes: bigint;
}

/** Objects by their ids, each with its size at the same index. */
export interface RecordedObjects {
  ids: readonly string[];
  sizesBytes: BigUint64Array;
}

/** What a start has to finish or to roll back. */
export interface UnfinishedWork {
  volumes: VolumeRecord[];
  /** Snapshots that are not members of a group. */
  snapshots: SnapshotRecord[];
  groups: GroupSnapshotRecord[];
}
