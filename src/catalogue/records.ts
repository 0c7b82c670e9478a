/**
 * What the catalogue remembers: only what the kernel cannot know. No rule lives here.
 *
 * Times are ns since the epoch, sizes bytes, both bigint. `null` is absent.
 */

import type { OnThread } from '../database/database-thread.js';
import type { StringMap } from '../domain/string-map.js';
import type { VolumeCapability } from '../domain/volume-capability.js';

/**
 * creating: made, or half made, by a CreateVolume that has not answered; deleting: on its way out;
 * deleted: gone, kept as the lineage of snapshots that outlive it.
 */
export type VolumeState = 'creating' | 'ready' | 'deleting' | 'deleted';
export type SnapshotState = 'creating' | 'ready' | 'deleting';

export interface VolumeRecord {
  volumeId: string;
  name: string;
  pool: string;
  sizeBytes: bigint;
  state: VolumeState;
  /** As asked for at creation, for the idempotence rules. */
  parameters: StringMap;
  /** As asked for at creation; ControllerModifyVolume does not change these. */
  createdMutableParameters: StringMap;
  /** In force now, with those of `parameters` that have the same meaning. */
  mutableParameters: StringMap;
  capabilities: readonly VolumeCapability[];
  /** The snapshot the content came from; it may be gone since. */
  sourceSnapshotId: string | null;
  /** The volume it was cloned from; it may be gone since. */
  sourceVolumeId: string | null;
  /**
   * True until the volume has been handed out for the first time: nobody but us has ever written to
   * it, so making a file system on it, also a second time after a kill, destroys nothing. Never to be
   * believed alone: the pool has to agree (first-use.ts).
   */
  fresh: boolean;
  /**
   * Made larger than its source and not handed out since: its file system has yet to be grown to the
   * size that was promised, and it is not handed out without.
   */
  awaitsGrowth: boolean;
  createdNs: bigint;
}

export interface SnapshotRecord {
  snapshotId: string;
  /** Null for a member of a group snapshot, which nobody named. */
  name: string | null;
  /** The group snapshot it was cut with. */
  groupSnapshotId: string | null;
  volumeId: string;
  pool: string;
  sizeBytes: bigint;
  state: SnapshotState;
  /** Order of the cuts on this node; a higher number was cut later. */
  sequence: bigint;
  creationTimeNs: bigint;
  parameters: StringMap;
  /** The volume was fresh when it was cut, and so is a volume restored from it. */
  fresh: boolean;
}

/** A snapshot before the catalogue has given it its place in the order of cuts. */
export type NewSnapshot = Omit<SnapshotRecord, 'sequence'>;

/** Snapshots of several volumes, cut together. Its members are snapshots that name it. */
export interface GroupSnapshotRecord {
  groupSnapshotId: string;
  name: string;
  /** Always that of its members too. */
  state: SnapshotState;
  creationTimeNs: bigint;
  parameters: StringMap;
}

/** ControllerPublishVolume, where it is served: a promise to the caller, nothing the kernel knows of. */
export interface ControllerPublicationRecord {
  volumeId: string;
  nodeId: string;
  capability: VolumeCapability;
  readOnly: boolean;
}

/** The capability a volume was staged with; whether it is staged now, mountinfo says. */
export interface StagingRecord {
  volumeId: string;
  stagingPath: string;
  /** As in a PublicationRecord. */
  resolvedPath: string | null;
  capability: VolumeCapability;
}

export interface PublicationRecord {
  targetPath: string;
  /**
   * Where the path led when the volume was put there, without symbolic links: what is released later,
   * wherever the path leads by then. Null where an older version has recorded it.
   */
  resolvedPath: string | null;
  volumeId: string;
  stagingPath: string;
  capability: VolumeCapability;
  readOnly: boolean;
  /** Of the pod it is for, where the orchestrator says so; whose limits the device's are. */
  podUid: string | null;
}

/**
 * A deleted snapshot that deltas can still be counted from, or of which it is still known why they
 * cannot.
 */
export interface RetainedBaseRecord {
  snapshotId: string;
  volumeId: string;
  pool: string;
  /** These are what the snapshot's row had. */
  sequence: bigint;
  sizeBytes: bigint;
  creationTimeNs: bigint;
  deletedNs: bigint;
  /** What keeping it costs the pool. */
  storedBytes: bigint;
  /** Null while it is kept. */
  lost: { reason: string; timeNs: bigint } | null;
  /** Whether a snapshot of its volume that was cut later is there, or may still be cut. */
  awaited: boolean;
}

/** What is written down of a snapshot when its row goes. */
export interface Remains {
  snapshotId: string;
  deletedNs: bigint;
  storedBytes: bigint;
  /** Why nothing could be kept; null: it is kept. */
  lostReason: string | null;
}

/** Part of a list that is in the order of its ids. */
export interface ListStretch {
  /** Ids greater than this one; '' begins. */
  after: string;
  limit: number;
}

/** '' passes all. */
export interface SnapshotFilter {
  snapshotId: string;
  volumeId: string;
}

export interface MemberSize {
  snapshotId: string;
  sizeBytes: bigint;
}

/** Everything a start-up has to finish or undo. */
export interface UnfinishedWork {
  volumes: VolumeRecord[];
  /** Without members of groups. */
  snapshots: SnapshotRecord[];
  groups: GroupSnapshotRecord[];
}

/**
 * The catalogue's calls. Each is one durable transaction (WAL, synchronous=FULL): when it returns,
 * a power cut does not undo it. Broken uniqueness is a CsiError ALREADY_EXISTS.
 */
export interface Catalogue {
  /** Of this catalogue, made with it: whom a pool belongs to. */
  uuid(): string;
  /** The identity of a pool that has been served before; null for a new one. */
  poolUuid(name: string): string | null;
  /**
   * The pool's recorded identity; records `poolUuid` if the name is new. FAILED_PRECONDITION if that
   * identity is known by another name.
   */
  registerPool(name: string, poolUuid: string): string;

  volumeById(volumeId: string): VolumeRecord | null;
  /** Of volumes that are not deleted. */
  volumeByName(name: string): VolumeRecord | null;
  /** Ready volumes in the order of their ids; without a stretch, all of them. */
  listVolumes(stretch?: ListStretch): VolumeRecord[];
  insertVolume(volume: VolumeRecord): void;
  setVolumeState(volumeId: string, state: VolumeState): void;
  /** The volume is handed out: it is never formatted again from now on. */
  markVolumeInitialized(volumeId: string): void;
  /** It has the size that was promised: ends `awaitsGrowth`. */
  markVolumeGrown(volumeId: string): void;
  setVolumeSize(volumeId: string, sizeBytes: bigint): void;
  /** Replaces the ones in force. */
  setMutableParameters(volumeId: string, parameters: StringMap): void;
  /** Drops the volume with its stagings and publications of both kinds; keeps a `deleted` row while snapshots refer to it. */
  removeVolume(volumeId: string): void;

  snapshotById(snapshotId: string): SnapshotRecord | null;
  snapshotByName(name: string): SnapshotRecord | null;
  /** Snapshots that were cut and are not gone, in the order of their ids; without a stretch, all of them. */
  listSnapshots(stretch?: ListStretch, filter?: SnapshotFilter): SnapshotRecord[];
  /** Assigns the sequence. */
  insertSnapshot(snapshot: NewSnapshot): SnapshotRecord;
  commitSnapshot(snapshotId: string, creationTimeNs: bigint, sizeBytes: bigint): SnapshotRecord;
  setSnapshotState(snapshotId: string, state: SnapshotState): void;
  /**
   * Also drops the `deleted` row of its volume when it was the last one. What remains of it is written
   * down in the same transaction; null: nothing.
   */
  removeSnapshot(snapshotId: string, remains: Remains | null): void;

  groupById(groupSnapshotId: string): GroupSnapshotRecord | null;
  groupByName(name: string): GroupSnapshotRecord | null;
  /** Ready groups in the order of their ids. */
  listGroups(): GroupSnapshotRecord[];
  /** In the order of their cuts. */
  snapshotsOfGroup(groupSnapshotId: string): SnapshotRecord[];
  /** The group and all its members; assigns the sequences. */
  insertGroup(group: GroupSnapshotRecord, members: readonly NewSnapshot[]): SnapshotRecord[];
  /** Makes the group and all its members ready. */
  commitGroup(groupSnapshotId: string, creationTimeNs: bigint, sizes: readonly MemberSize[]): void;
  /** Of the group and of all its members. */
  setGroupState(groupSnapshotId: string, state: SnapshotState): void;
  /** With its members, as removeSnapshot does for each; `remains` of any of them. */
  removeGroup(groupSnapshotId: string, remains: readonly Remains[]): void;

  retainedBaseById(snapshotId: string): RetainedBaseRecord | null;
  /** Kept and lost ones of a pool, in the order of their cuts. */
  listRetainedBases(pool: string): RetainedBaseRecord[];
  invalidateRetainedBase(snapshotId: string, reason: string, timeNs: bigint): void;
  removeRetainedBase(snapshotId: string): void;

  controllerPublications(volumeId: string): ControllerPublicationRecord[];
  /** Of these volumes; without them, of all. */
  listControllerPublications(volumeIds?: readonly string[]): ControllerPublicationRecord[];
  putControllerPublication(publication: ControllerPublicationRecord): void;
  removeControllerPublication(volumeId: string, nodeId: string): void;

  stagings(volumeId: string): StagingRecord[];
  putStaging(staging: StagingRecord): void;
  removeStaging(volumeId: string, stagingPath: string): void;
  publications(volumeId: string): PublicationRecord[];
  publicationAt(targetPath: string): PublicationRecord | null;
  putPublication(publication: PublicationRecord): void;
  removePublication(targetPath: string): void;

  unfinished(): UnfinishedWork;

  /** Those of the ids that no volume and no snapshot has, in whatever state. */
  unknownAmong(ids: readonly string[]): string[];
  /** Copies the catalogue to a new file, without what is being made now. Not durable yet. */
  backUp(file: string): void;
}

/** The same calls, answered by the thread that owns the database. */
export type AsyncCatalogue = OnThread<Catalogue>;
