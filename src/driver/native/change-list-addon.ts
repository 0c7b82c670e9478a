/**
 * The functions of the addon that make and read stored change lists (docs/change-lists.md). All of them may
 * fail with LIST_INVALID: a file is damaged, of another version, or not what its place says; its message
 * names the file. Sizes are bytes.
 */

import type { NativeResult } from '../../base/system/native-result.js';
import type { SnapshotFile } from './snapshot-file.js';
import type { ThinDeviceRef } from './thin-addon.js';

/** The union of stored lists. No extent of a snapshot is read. */
export interface ChangeListSource {
  kind: 'lists';
  /** Size of the target. */
  sizeBytes: bigint;
  /** Delta: the lists of the steps from base to target, oldest first, at most 1024. Allocated: one list. */
  paths: readonly string[];
  targetId: string;
  /** Null: the allocated ranges. */
  baseId: string | null;
  /** The snapshots' files where they exist: they must be those that the lists were made from. */
  target: SnapshotFile | null;
  base: SnapshotFile | null;
  /** Lists of snapshots of a thin pool: its times at their creation. Null: lists of files. */
  thin: ThinTimes | null;
}

export interface ThinTimes {
  targetTime: number;
  /** Null: the allocated ranges, or not known. */
  baseTime: number | null;
}

/** A snapshot that a list was made from. */
export interface ListedSnapshot {
  id: string;
  /** The generation is then the pool's time when the snapshot was created; inode and change time are 0. */
  isThin: boolean;
  inode: bigint;
  generation: bigint;
  sizeBytes: bigint;
  changeTimeNs: bigint;
}

export interface ChangeListHead {
  kind: 'delta' | 'allocated' | 'map';
  target: ListedSnapshot;
  /** Of deltas only. */
  base: ListedSnapshot | null;
  entries: bigint;
  /** Sum of the sizes of the entries. */
  entryBytes: bigint;
  /** Size of the file. */
  fileBytes: bigint;
}

export interface ChangeListNames {
  /** In the directory of the final path. */
  temporaryPath: string;
  finalPath: string;
}

export interface SnapshotToList {
  /** At most 63 bytes. */
  id: string;
  file: SnapshotFile;
}

export interface BuildChangeListRequest {
  target: SnapshotToList;
  /** Null: the list of the allocated ranges. */
  base: SnapshotToList | null;
  names: ChangeListNames;
  /** The stored map of the base, which is read in place of the base's extents. XFS only. */
  baseMapPath: string | null;
  /** Where to store the map of the target. XFS only: SCAN_UNSUPPORTED on other file systems. */
  mapNames: ChangeListNames | null;
  /** The step ends soon after it has read so many extents. */
  maxExtents: number;
  /** Null: the first step. Later ones pass what the step before has returned. */
  progress: BigUint64Array | null;
}

interface ThinSnapshotToList {
  /** At most 63 bytes. */
  id: string;
  sizeBytes: bigint;
}

export interface BuildThinListRequest {
  metadata: string;
  target: ThinSnapshotToList & { device: ThinDeviceRef };
  /** Null: the list of the allocated ranges. One of device and bookmark is not null. */
  base: (ThinSnapshotToList & { device: ThinDeviceRef | null; bookmarkPath: string | null }) | null;
  names: ChangeListNames;
  /** The step ends soon after it has read so many nodes of mapping trees. */
  maxNodes: number;
  /** Null: the first step. Later ones pass what the step before has returned. */
  progress: BigUint64Array | null;
}

export interface BuiltStep {
  progress: BigUint64Array;
  /** The files have their final names and are durable. */
  done: boolean;
  /** Extents read in this step, or ranges found. */
  extents: number;
  rescans: number;
  /** Size of the files so far. */
  fileBytes: bigint;
}

export interface ChangeListAddon {
  /**
   * One step of making a list from frozen snapshots. Fails as a scan of the two files does; SCAN_MUTABLE also
   * if a file has changed since the first step. After a failure the temporary files are worthless, and the
   * next first step replaces them.
   */
  buildChangeList(request: BuildChangeListRequest): NativeResult<BuiltStep>;
  /** Reads the lists in full and verifies what a scan of them does, and what their heads count. Fails as such a scan. */
  verifyChangeLists(request: Omit<ChangeListSource, 'kind'>): NativeResult<object>;
  /**
   * The same for snapshots of a thin pool, of which the base may be a bookmark. Fails as a scan of the two does;
   * SCAN_UNSUPPORTED also if the target is older, or smaller.
   */
  buildThinList(request: BuildThinListRequest): NativeResult<BuiltStep>;
  /** Verifies the head and the size of a list; its pages are verified as they are read. ENOENT: no such file. */
  changeListHead(request: { path: string }): NativeResult<ChangeListHead>;
  /**
   * Stores the union of two deltas, the second from the snapshot where the first one ends, as one delta. The
   * final path may be that of the second one. After a failure the temporary file is worthless.
   */
  joinChangeLists(request: {
    olderPath: string;
    newerPath: string;
    names: ChangeListNames;
  }): NativeResult<{ entries: bigint }>;
}
