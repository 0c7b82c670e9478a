/**
 * The typed contract of the C++ addon (native/): every function, its units and its failures.
 *
 * All functions are synchronous, bounded in time, stateless between calls, and safe to load in
 * several worker threads. Any function that can block runs on a worker through native/pool.ts.
 * Sizes and offsets are bytes, as bigint. A failure is returned, not thrown: errors lose their
 * fields when they cross threads. `null` means absent; no field is ever omitted. Constants in
 * capitals are those of the Linux headers; each is documented in the man page of its ioctl or
 * system call.
 */
import { loadBinary } from '../../base/system/binaries.js';
import type { FileLockAddon } from '../../base/system/file-lock.js';
import type { NativeResult } from '../../base/system/native-result.js';
import type { ChangeListAddon, ChangeListSource } from './change-list-addon.js';
import type { DmAddon } from './dm-addon.js';
import type { MountAddon } from './mount-addon.js';
import type { SnapshotFile } from './snapshot-file.js';
import type { ThinAddon, ThinScanSource } from './thin-addon.js';

/**
 * Where extents come from. Plain data without handles, so that any worker can process any chunk.
 */
export type ScanSource =
  | { kind: 'files'; target: SnapshotFile; base: SnapshotFile | null }
  | ChangeListSource
  /**
   * Explicit maps with 4 words per extent (logical, physical, length, FIEMAP flags), for the
   * in-memory backend.
   */
  | {
      kind: 'extents';
      sizeBytes: bigint;
      target: BigUint64Array;
      base: BigUint64Array | null;
    }
  | ThinScanSource;

/** One chunk of a scan. A scan is a pure function of this request and of the files' contents. */
export interface FillRequest {
  source: ScanSource;
  /** First byte not yet examined. */
  offset: bigint;
  /**
   * Start of the range that is open at `offset`: found by an earlier call but not written yet.
   * Equal to `offset` if there is none.
   */
  rangeStart: bigint;
  /** Stop after this many entries (ranges), at least 1. */
  maxEntries: number;
  /** At most this many entries in one message, at least 1. */
  maxEntriesPerMessage: number;
  /** Stop after this many extents (of both maps together): bounds the duration of the call. */
  maxExtents: number;
  /** Write one message without entries if the scan ends and this call found none. */
  sendEmpty: boolean;
}

/**
 * The buffer holds `messages` messages, each after the 5-byte gRPC prefix (a zero byte and the
 * length as big-endian uint32). Both response types share the wire format: block_metadata_type = 1
 * (VARIABLE_LENGTH), volume_capacity_bytes = 2, block_metadata = 3 {byte_offset = 1, size_bytes =
 * 2}.
 */
export interface FillResult {
  messages: number;
  /** Bytes of the buffer in use. */
  bytes: number;
  entries: number;
  /** Sum of the sizes of those entries. */
  entryBytes: bigint;
  /** `offset` and `rangeStart` of the next call. */
  nextOffset: bigint;
  nextRangeStart: bigint;
  done: boolean;
  /** Extents read from both maps. */
  extents: number;
  /** Windows scanned again because extents may have moved during the scan. */
  rescans: number;
  /** Bytes reported only because equality could not be proved while extents kept moving. */
  unprovedBytes: bigint;
  /** Nodes of mapping trees read from thin metadata; 0 for other sources. */
  nodes: number;
}

export interface LoopDevice {
  /** N of /dev/loopN. Not an identity: any process can reuse a freed number. */
  number: number;
  path: string;
  /** st_dev and st_ino of the backing file. */
  backingDevice: bigint;
  backingInode: bigint;
  /** Refuses writes: attached read-only, or set read-only later by setDeviceReadOnly. */
  readOnly: boolean;
  directIo: boolean;
  /** Size of a logical sector. */
  sectorBytes: number;
  sizeBytes: bigint;
}

/** A volume and the file of its new snapshot. */
export interface NewSnapshotFile {
  /** The volume's file. */
  sourcePath: string;
  /** Both paths are in the pool of the source. */
  temporaryPath: string;
  finalPath: string;
  /** The loop device of the source; null if the source is not attached. */
  loopPath: string | null;
  /** A mount point of the file system on that device, to freeze; null if there is none. */
  freezePath: string | null;
}

export interface SnapshotAids {
  /**
   * The socket of `blockdelta-guardian --listen`, which freezes and suspends, and survives the end of this process's container.
   * The call fails with ENOENT or ECONNREFUSED of connect if the guardian does not run. If null, the addon starts a guardian.
   */
  guardianSocket: string | null;
  /** How long a file system stays frozen at most. The guardian then thaws the file system by itself. */
  freezeLimitMs: bigint;
  /** The time after which nobody waits for the result, ms since the epoch. It also ends a freeze. Null if there is none. */
  deadlineMs: bigint | null;
  /**
   * For volumes on btrfs in a subvolume of their own: the path where the call may make a copy of the subvolume, which the call
   * removes again. A killed call leaves the copy there; the next call with that path replaces it. If null, the call makes no
   * copy.
   */
  copyPath: string | null;
}

/** When the snapshots were taken, and how long writers waited. */
export interface SnapshotsResult {
  /** CLOCK_REALTIME at the moment of the snapshots, ns since the epoch. */
  takenAtNs: bigint;
  /** How long the file system was frozen, ns (the longest of several); 0 if none was. */
  frozenNs: bigint;
}

export interface FileState {
  device: bigint;
  inode: bigint;
  sizeBytes: bigint;
  /** Allocated bytes (st_blocks * 512). */
  allocatedBytes: bigint;
  immutable: boolean;
  regular: boolean;
  /**
   * False if the file has changed since it was taken as a snapshot, whether or not the immutable flag is set now. True for a
   * file that was never sealed.
   */
  matchesSeal: boolean;
}

export interface DirectoryList {
  /** All names joined by '/', which no name contains; empty if there are none. */
  names: string;
  /** For each name, three words: its size, its allocated bytes (st_blocks * 512), and 1 if it is a regular file, else 0. */
  figures: BigUint64Array;
}

export interface Addon extends ChangeListAddon, DmAddon, ThinAddon, MountAddon, FileLockAddon {
  /**
   * Scans one chunk into `buffer` (at least 4096 bytes). Failures:
   * - SCAN_REPLACED: the path has another file or another size.
   * - SCAN_MUTABLE (deltas only): a file is not immutable, or changed during the scan.
   * - SCAN_UNSUPPORTED: no FIEMAP; for deltas also a file system other than XFS and btrfs on Linux 6.1,
   *   realtime data, or two different file systems.
   * - SCAN_MAP_INVALID: an extent map is out of order.
   * - errno names.
   */
  fillMetadata(request: FillRequest, buffer: ArrayBuffer): NativeResult<FillResult>;

  /**
   * Attaches a file to a loop device (LOOP_CONFIGURE, 512-byte sectors), or finds the device it is
   * already attached to. Uses direct I/O to the file where that is safe: not if the file system can
   * share blocks that are larger than a sector and smaller than a page, nor on btrfs, unless the file
   * is NOCOW. Retries EBUSY races with other processes. Reads back and checks the size and the
   * read-only flag. `label`, truncated to 63 bytes, is shown by losetup(8). EEXIST if the file is
   * attached with the other `readOnly`; setDeviceReadOnly does not change what a device is attached as.
   */
  loopAttach(request: {
    backingPath: string;
    readOnly: boolean;
    label: string;
  }): NativeResult<{ device: LoopDevice; created: boolean }>;
  /**
   * The loop device of a backing file, by st_dev and st_ino; null if there is none or the file is missing. `fileDevice` is the
   * file's st_dev; null if there is no such file. `hint` is the number that the device had at the last look: the kernel confirms
   * or refutes it, so a wrong one only costs time. If nothing else on the machine has the file open, or the hint is right, the
   * time does not depend on the number of loop devices.
   */
  loopFind(request: {
    backingPath: string;
    hint: number | null;
  }): NativeResult<{ device: LoopDevice | null; fileDevice: bigint | null }>;
  /**
   * All attached loop devices of the machine, except those that are detached during the call, and those whose
   * backing file is on a file system that does not answer (EIO, ESTALE).
   */
  loopList(request: object): NativeResult<{ devices: LoopDevice[] }>;
  /**
   * Detaches by identity and waits until the device is detached; `hint` as in loopFind. `detached` is false if nothing was attached. EBUSY if the
   * device is in use; the device then stays attached. The call fails at once because of a mount or an exclusive open, and waits
   * up to 200 ms for the end of any other open.
   */
  loopDetach(request: { backingPath: string; hint: number | null }): NativeResult<{ detached: boolean }>;
  /**
   * Detaches the loop devices on a block device whose backing file, a bound node of the block device, is no longer mounted
   * anywhere. Loop devices that are mounted or open stay attached, which is no error.
   */
  loopDetachUnmounted(request: { devicePath: string }): NativeResult<{ detached: boolean }>;
  /**
   * Resizes the loop device of a file to the file's size (LOOP_SET_CAPACITY), reads the size back and checks it. `device` is
   * null if the file is not attached or does not exist.
   */
  loopResize(request: { backingPath: string }): NativeResult<{ device: LoopDevice | null }>;
  /**
   * LOOP_SET_DIRECT_IO, read back and checked. EINVAL if the pool's file system has no direct I/O,
   * or none for sectors of this size; EOPNOTSUPP if direct writes are not safe (see loopAttach);
   * ENXIO if nothing is attached.
   */
  setLoopDirectIo(request: { devicePath: string; directIo: boolean }): NativeResult<object>;
  /**
   * Turns off direct I/O on every loop device whose file is in the file system of `directory` and
   * for which direct writes are not safe (see loopAttach). Devices may be in use. `changed`: how
   * many devices were changed.
   */
  endUnsafeDirectIo(request: { directory: string }): NativeResult<{ changed: number }>;
  /**
   * Disables discards on the loop device of a file until it is detached: fstrim and blkdiscard
   * punch no holes into the file. ENXIO if the file is not attached; EROFS where /sys is read-only.
   */
  refuseDiscards(request: { backingPath: string }): NativeResult<object>;
  /** Sets whether a block device of any kind refuses writes (BLKROSET). */
  setDeviceReadOnly(request: { devicePath: string; readOnly: boolean }): NativeResult<object>;

  /** Whether FICLONE works in this directory, tested with temporary files. */
  probeReflink(request: { directory: string }): NativeResult<{ supported: boolean }>;
  /**
   * Creates a sparse file with mode 0600: temporary name, fsync, rename, fsync of the directory.
   * EEXIST if finalPath exists.
   */
  createSparseFile(request: { temporaryPath: string; finalPath: string; sizeBytes: bigint }): NativeResult<object>;
  /**
   * Creates a writable clone (FICLONE) of a snapshot file, extended with zeros to sizeBytes, with mode 0600: temporary name,
   * fsync, rename, fsync of the directory. Copies the NOCOW flag. EEXIST if finalPath exists. EINVAL if the source is larger.
   * SCAN_MUTABLE if the source is not an immutable regular file, has changed since takeSnapshots created it, or changes during
   * the call.
   */
  cloneFile(request: {
    sourcePath: string;
    temporaryPath: string;
    finalPath: string;
    sizeBytes: bigint;
  }): NativeResult<object>;
  /**
   * Freezes a file that nobody writes to any more: seal, mode 0400, the name finalPath in the same directory, immutable; all
   * durable. Goes on where a killed call has stopped. EEXIST if both names exist, ENOENT if none does, SCAN_MUTABLE if the file
   * was changed after a killed call had sealed it.
   */
  freezeFile(request: { temporaryPath: string; finalPath: string }): NativeResult<object>;
  /**
   * Frees ranges of a block device, which read as zeros then: pairs of offset and size in bytes, whole sectors. ENOTBLK for
   * anything else, EINVAL beyond its end, EOPNOTSUPP where it cannot give space back. Source: fallocate(2), PUNCH_HOLE.
   *
   * With `blockBytes` above 0, for a device of dm-thin: whole blocks of this size are discarded (BLKDISCARD), and zeros are
   * written to the rest, unless it reads as zeros. A pool that is read-only ignores discards, so compare its mode afterwards.
   */
  punchDevice(request: { path: string; ranges: BigUint64Array; blockBytes: bigint }): NativeResult<object>;
  /**
   * Grows a volume file (never shrinks it): ftruncate, fsync. `grown` is false if the file already had that size or more.
   * EINVAL if it is not a regular file.
   */
  growFile(request: { path: string; sizeBytes: bigint }): NativeResult<{ grown: boolean }>;
  /**
   * Allocates all blocks of a file up to sizeBytes (fallocate), grows it to that size if it is
   * smaller, and calls fsync. ENOSPC leaves its size unchanged. EINVAL if it is not a regular file.
   */
  allocateFile(request: { path: string; sizeBytes: bigint }): NativeResult<object>;
  /**
   * How many extents a file has. FICLONE of the file costs 5 to 20 us for each extent. XFS has the number at once; on other
   * file systems the call reads the map of the file, 1 us for each extent.
   */
  countExtents(request: { path: string }): NativeResult<{ extents: bigint }>;
  /**
   * How much space the file holds alone, which its removal gives back: on btrfs without metadata. Exact unless the file is
   * written to or shares an extent with itself. Reads the whole map of the file. On btrfs, which frees extents as a whole, it needs
   * CAP_SYS_ADMIN. Source: FS_IOC_FIEMAP (FIEMAP_EXTENT_SHARED), BTRFS_IOC_TREE_SEARCH_V2.
   */
  countExclusiveBytes(request: { path: string }): NativeResult<{ bytes: bigint }>;
  /**
   * Takes snapshots of 1 to 4096 volumes at one point in time: writes everything back first to keep the freeze short; FIFREEZE
   * of every freezePath; for each member fsync and BLKFLSBUF of loopPath and fsync of the file; FICLONE to temporaryPath;
   * FITHAW of all; fsync, mode 0400, rename, FS_IMMUTABLE_FL, fsync of the directories. Each file is sealed: an extended
   * attribute records its size and modification time. All or nothing: after any failure every file system is thawed and no file
   * is left.
   *
   * Members with loopPath but without freezePath (raw block volumes) cannot be paused. One of them may be written to
   * throughout. If more than one is written to during the clones, all are retried for about 2 s, thawed in between; then the
   * call fails with SNAPSHOT_BUSY and the sourcePath of one of them as `path`.
   *
   * EEXIST if a finalPath exists. ESTALE if a loopPath has another backing file or a freezePath is not the file system on it,
   * or if the guardian, the process that freezes and thaws, was lost. EBUSY (`syscall` flock, `path` the source) if another
   * process holds an exclusive flock on the loop device, as tools do that must not be interrupted.
   *
   * A file system that another program has frozen stays frozen. SNAPSHOT_THAWED if a program thawed it during every try.
   * SNAPSHOT_UNCOUNTED if there are several members and the device of that file system counts no writes. In both cases `path`
   * is the mount point. ETIMEDOUT has one of these values of `syscall`: syncfs if the deadline passed before anything was
   * frozen; FIFREEZE or FITHAW (`path` the mount point) if a freeze took longer than it may; fsync or FICLONE (`path` the
   * source) if the work during a freeze took longer than the freeze may. FICLONE also if the deadline passed before anything
   * was published, whether or not something was frozen.
   */
  takeSnapshots(request: { members: NewSnapshotFile[] } & SnapshotAids): NativeResult<SnapshotsResult>;
  /**
   * Clones one volume into a new volume at one point in time, as takeSnapshots does, but with mode
   * 0600, not immutable, and extended with zeros to sizeBytes. EINVAL if the source is larger.
   */
  cloneVolume(request: NewSnapshotFile & SnapshotAids & { sizeBytes: bigint }): NativeResult<SnapshotsResult>;

  /**
   * Makes an empty btrfs subvolume of mode 0700, durably. `made` is false if the file system is not btrfs or the final path
   * exists.
   */
  makeSubvolume(request: { temporaryPath: string; finalPath: string }): NativeResult<{ made: boolean }>;
  /**
   * Removes the copy of a subvolume that a killed call has left. `removed` is false if there is none. EINVAL if the path is
   * anything but a read-only subvolume.
   */
  removeSubvolumeCopy(request: { path: string }): NativeResult<{ removed: boolean }>;

  /** Clears the immutable flag, unlinks, calls fsync on the directory. `removed` is false if there is no such file. */
  removeFile(request: { path: string }): NativeResult<{ removed: boolean }>;
  /** `state` is null if there is no such file. */
  fileState(request: { path: string }): NativeResult<{ state: FileState | null }>;
  /**
   * Opens a directory (O_PATH) and each of the `names` in it. The directory may be a symbolic link; the names may not: ELOOP or
   * ENOTDIR. The root comes first. The caller closes each `descriptor`, which all threads of the process share.
   */
  openDirectories(request: { root: string; names: string[] }): NativeResult<{
    directories: { descriptor: number; device: bigint; inode: bigint }[];
  }>;
  /**
   * All entries of a directory except "." and "..", in its order. Takes one stat(2) per entry for the sizes, which
   * mean nothing without `sizes`. Does not follow symbolic links. An entry that is removed meanwhile may be missing.
   */
  listDirectory(request: { path: string; sizes: boolean }): NativeResult<DirectoryList>;
  /** FITHAW of a mount point, completed even if this process is killed. `thawed` is false if the file system was not frozen. */
  thaw(request: { path: string }): NativeResult<{ thawed: boolean }>;
  /** fsync of a block device, a directory or a file. */
  flush(request: { path: string }): NativeResult<object>;
  /**
   * Grows a mounted file system to the size of its device, by ioctl on the mount point. Sizes are
   * capacities as statfs(2) reports them. A file system that already fills its device is left
   * unchanged, so a retry is harmless. Waits while the file system is frozen.
   *
   * ESTALE if mountPoint is not a mount of devicePath; EOPNOTSUPP for other file systems; EPERM,
   * with the ioctl as `syscall`, if a capability is missing: CAP_SYS_RESOURCE for
   * EXT4_IOC_RESIZE_FS, CAP_SYS_ADMIN for XFS_IOC_FSGROWFSDATA and BTRFS_IOC_RESIZE; EROFS if
   * mounted read-only; EBUSY during a balance, a device replacement or another resize.
   */
  growFileSystem(request: { mountPoint: string; devicePath: string }): NativeResult<{
    fileSystem: 'ext4' | 'xfs' | 'btrfs';
    beforeBytes: bigint;
    afterBytes: bigint;
  }>;
}

/** Loads the addon into the calling thread. */
export function loadAddon(): Addon {
  return loadBinary('blockdelta.node') as Addon;
}
