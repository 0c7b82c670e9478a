/**
 * The functions of the addon that make and read stored change lists (docs/engineering/change-lists.md). Each of them may fail with
 * LIST_INVALID if a file is damaged, has another version, or is not what its place says; the message names the file. Sizes are
 * bytes.
 */

import type { NativeResult } from '../../base/system/native-result.js';
import type { SnapshotFile } from './snapshot-file.js';
import type { ThinDeviceRef } from './thin-addon.js';

/** The union of stored lists. No extent of a snapshot is read. */
export interface ChangeListSource {
  kind: 'lists';
  /** Size of the target. */
  sizeBytes: bigint;
  /** For a delta, the lists of the steps from base to target, oldest first, at most 1024. For allocated ranges, one list. */
  paths: readonly string[];
  targetId: string;
  /** Null for the allocated ranges. */
  baseId: string | null;
  /** The files of the snapshots; null if they do not exist. They must be the files that the lists were made from. */
  target: SnapshotFile | null;
  base: SnapshotFile | null;
  /** For snapshots of a thin pool, the pool's times at their creation. Null for lists of files. */
  thin: ThinTimes | null;
}

export interface ThinTimes {
  targetTime: number;
  /** Null for the allocated ranges, or if the time is not known. */
  baseTime: number | null;
}

/** A snapshot that a list was made from. */
export interface ListedSnapshot {
  id: string;
  /** If true, the generation is the pool's time when the snapshot was created; inode and change time are 0. */
  isThin: boolean;
  inode: bigint;
  generation: bigint;
  sizeBytes: bigint;
  changeTimeNs: bigint;
}

export interface ChangeListHead {
  kind: 'delta' | 'allocated' | 'map';
  target: ListedSnapshot;
  /** Null unless the list is a delta. */
  base: ListedSnapshot | null;
  entries: bigint;
  /** Sum of the sizes of the entries. */
  entryBytes: bigint;
  /** Size of the file. */
  fileBytes: bigint;
}

export interface ChangeListNames {
  /** A path in the directory of the final path. */
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
  /** Null for the list of the allocated ranges. */
  base: SnapshotToList | null;
  names: ChangeListNames;
  /** The stored map of the base, which is read in place of the base's extents. XFS only. */
  baseMapPath: string | null;
  /** Where to store the map of the target. XFS only: SCAN_UNSUPPORTED on other file systems. */
  mapNames: ChangeListNames | null;
  /** The step ends soon after it has read this many extents. */
  maxExtents: number;
  /** Null for the first step. A later step passes the progress that the step before returned. */
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
  /** Null for the list of the allocated ranges. Either `device` or `bookmarkPath` is not null. */
  base: (ThinSnapshotToList & { device: ThinDeviceRef | null; bookmarkPath: string | null }) | null;
  names: ChangeListNames;
  /** The step ends soon after it has read this many nodes of mapping trees. */
  maxNodes: number;
  /** Null for the first step. A later step passes the progress that the step before returned. */
  progress: BigUint64Array | null;
}

export interface BuiltStep {
  progress: BigUint64Array;
  /** The files have their final names and are durable. */
  done: boolean;
  /** Extents read in this step; for thin snapshots, ranges found. */
  extents: number;
  rescans: number;
  /** Size of the files so far. */
  fileBytes: bigint;
}

export interface ChangeListAddon {
  /**
   * Runs one step of making a list from frozen snapshots. Fails like a scan of the two files; also with SCAN_MUTABLE if a file
   * has changed since the first step. After a failure the temporary files are worthless, and the next first step replaces them.
   */
  buildChangeList(request: BuildChangeListRequest): NativeResult<BuiltStep>;
  /** Reads the lists in full. Verifies what a scan of the lists verifies, and the counts in their heads. Fails like a scan. */
  verifyChangeLists(request: Omit<ChangeListSource, 'kind'>): NativeResult<object>;
  /**
   * As buildChangeList, for snapshots of a thin pool; the base may be a bookmark. Fails like a scan of the two; also with
   * SCAN_UNSUPPORTED if the target is not younger than the base, or is smaller.
   */
  buildThinList(request: BuildThinListRequest): NativeResult<BuiltStep>;
  /** Verifies the head and the size of a list; a scan verifies the pages as it reads them. ENOENT if there is no such file. */
  changeListHead(request: { path: string }): NativeResult<ChangeListHead>;
  /**
   * Stores the union of two deltas as one delta. The newer delta starts from the snapshot where the older one ends. The final
   * path may be `newerPath`. After a failure the temporary file is worthless.
   */
  joinChangeLists(request: {
    olderPath: string;
    newerPath: string;
    names: ChangeListNames;
  }): NativeResult<{ entries: bigint }>;
}
