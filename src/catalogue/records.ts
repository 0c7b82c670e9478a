/**
 * What the catalogue remembers: only what the kernel cannot know. No rule lives here.
 *
 * Times are ns since the epoch, sizes bytes, both bigint. `null` is absent.
 */

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
