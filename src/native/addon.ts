/**
 * The typed contract of the C++ addon (native/): every function, its units, its failures.
 *
 * All functions are synchronous, bounded in time, keep nothing between calls and are safe to load
 * in several worker threads. Whatever can block is called on a worker through native/pool.ts only.
 * Sizes and offsets are bytes, as bigint. A failure is returned, not thrown: errors lose their
 * fields when they cross threads. `null` means absent; no field is ever left out.
 */
import { createRequire } from 'node:module';
import { packagePath } from '../base/package-root.js';
import type { DmAddon } from './dm-addon.js';
import type { MountAddon } from './mount-addon.js';
import type { ThinAddon, ThinScanSource } from './thin-addon.js';

/** A failed call. `code` is an errno name (ENOSPC), a SCAN_* reason or CUT_BUSY; `path` the object it was about. */
export interface NativeFailure {
  ok: false;
  code: string;
  errno: number;
  syscall: string;
  path: string;
  message: string;
}
export type NativeResult<T> = ({ ok: true } & T) | NativeFailure;

/** One snapshot file, named and identified: the scan fails with SCAN_REPLACED if they disagree. */
export interface SnapshotFile {
  path: string;
  /** st_dev and st_ino. */
  device: bigint;
  inode: bigint;
  /** The snapshot's size in bytes; the domain of the scan ends here. */
  sizeBytes: bigint;
}

/** Where extents come from. Plain data without handles, so that any worker can take up any chunk. */
export type ScanSource =
  | { kind: 'files'; target: SnapshotFile; base: SnapshotFile | null }
  /** Explicit maps, 4 words an extent: logical, physical, length, FIEMAP flags. For the in-memory backend. */
  | {
      kind: 'extents';
      sizeBytes: bigint;
      target: BigUint64Array;
      base: BigUint64Array | null;
    }
  | ThinScanSource
  /** Generated: data extents of extentBytes every strideBytes in [0, sizeBytes), all of them reported. */
  | { kind: 'pattern'; sizeBytes: bigint; extentBytes: bigint; strideBytes: bigint };

/** One chunk of a scan. Scanning is a pure function of this and of the files' contents. */
export interface FillRequest {
  source: ScanSource;
  /** First byte not yet examined. */
  offset: bigint;
  /** Start of a range already found to be reported up to `offset` but not sent; `offset` if there is none. */
  rangeStart: bigint;
  /** Stop after this many entries (ranges), at least 1. */
  maxEntries: number;
  /** At most this many entries in one message, at least 1. */
  maxEntriesPerMessage: number;
  /** Stop after this many extents were looked at (both maps together): bounds the time of the call. */
  maxExtents: number;
  /** Write one message without entries if the scan ends and this call found none. */
  sendEmpty: boolean;
}

/**
 * The buffer holds `messages` messages, each behind the 5-byte gRPC length prefix (a zero byte and
 * the length as big-endian uint32). Both response types share the wire form: block_metadata_type = 1
 * (VARIABLE_LENGTH), volume_capacity_bytes = 2, block_metadata = 3 {byte_offset = 1, size_bytes = 2}.
 */
export interface FillResult {
  messages: number;
  /** Bytes of the buffer in use. */
  bytes: number;
  entries: number;
  /** Sum of the sizes of those entries. */
  entryBytes: bigint;
  /** Where the next call goes on, with its rangeStart. */
  nextOffset: bigint;
  nextRangeStart: bigint;
  done: boolean;
  /** Extents looked at. */
  extents: number;
  /** Times a window was scanned again because extents may have moved meanwhile. */
  rescans: number;
  /** Bytes reported only because equality could not be proved while extents kept moving. */
  unprovedBytes: bigint;
  /** Nodes of mapping trees read from thin metadata; 0 for other sources. */
  nodes: number;
}

export interface LoopDevice {
  /** Number in /dev/loopN; no identity: a freed number is taken by anyone. */
  number: number;
  path: string;
  /** st_dev and st_ino of the backing file. */
  backingDevice: bigint;
  backingInode: bigint;
  /** Refuses writes: attached read-only, or made so later by setDeviceReadOnly. */
  readOnly: boolean;
  directIo: boolean;
  /** Of a logical sector. */
  sectorBytes: number;
  sizeBytes: bigint;
}

/** One volume of a cut, and the file that its copy becomes. */
export interface NewSnapshotFile {
  /** The volume's file. */
  sourcePath: string;
  /** Both in the pool of the source. */
  temporaryPath: string;
  finalPath: string;
  /** The loop device the source is attached to; null: it is not attached. */
  loopPath: string | null;
  /** A mount point of the file system on that device, to be frozen; null: none. */
  freezePath: string | null;
}

/** What one call to the file systems and the kernel's clone did. */
export interface SnapshotsResult {
  /** Wall clock at the moment of the cut, ns since the epoch. */
  takenAtNs: bigint;
  /** How long the file system stood frozen, ns (of several, the longest); 0 if none was. */
  frozenNs: bigint;
}

export interface FileState {
  device: bigint;
  inode: bigint;
  sizeBytes: bigint;
  /** Bytes the file system has given to it (st_blocks * 512). */
  allocatedBytes: bigint;
  immutable: boolean;
  regular: boolean;
  /**
   * False: what was taken as a snapshot was changed since, whatever the flag says now. True too for a
   * file that was never sealed.
   */
  matchesSeal: boolean;
}

export interface Addon extends DmAddon, ThinAddon, MountAddon {
  /**
   * Scans one chunk into `buffer` (at least 4096 bytes). Failures: SCAN_REPLACED (another file, or
   * size, under the path), SCAN_MUTABLE (not immutable, or changed meanwhile; deltas only),
   * SCAN_UNSUPPORTED (deltas: not XFS nor btrfs on Linux 6.1, realtime data, or two file systems;
   * any scan: no FIEMAP), SCAN_MAP_INVALID (a map that is not in order), errnos.
   */
  fillMetadata(request: FillRequest, buffer: ArrayBuffer): NativeResult<FillResult>;

  /**
   * Attaches a file to a loop device (LOOP_CONFIGURE, 512-byte sectors), or finds the device it is
   * attached to already. I/O to the file is direct where that is safe: not if the file system can share
   * blocks that are larger than a sector and smaller than a page. EBUSY races are retried. Reads back
   * size and ro. `label` (cut to 63 bytes) is for humans. EEXIST if it was attached with
   * the other readOnly; what setDeviceReadOnly did since does not count.
   */
  loopAttach(request: {
    backingPath: string;
    readOnly: boolean;
    label: string;
  }): NativeResult<{ device: LoopDevice; created: boolean }>;
  /** The loop device of a backing file, by st_dev and st_ino; null if none or if the file is missing. */
  loopFind(request: { backingPath: string }): NativeResult<{ device: LoopDevice | null }>;
  /** All attached loop devices of the machine. Devices that vanish meanwhile are left out. */
  loopList(): NativeResult<{ devices: LoopDevice[] }>;
  /**
   * Detaches by identity and waits until the device has let go. `detached` false: nothing was
   * attached. EBUSY if somebody holds the device: nothing is done then. Who has it mounted or opened
   * exclusively is seen at once, any other opener is waited for, 3 s.
   */
  loopDetach(request: { backingPath: string }): NativeResult<{ detached: boolean }>;
  /**
   * Gives the loop device of a file the file's size (LOOP_SET_CAPACITY), read back and checked.
   * null: not attached, or no such file.
   */
  loopResize(request: { backingPath: string }): NativeResult<{ device: LoopDevice | null }>;
  /**
   * LOOP_SET_DIRECT_IO, read back and checked. EINVAL if the pool's file system has no direct I/O, or
   * none for sectors of this size; EOPNOTSUPP if direct writes are not safe (see loopAttach); ENXIO if
   * nothing is attached.
   */
  setLoopDirectIo(request: { devicePath: string; directIo: boolean }): NativeResult<object>;
  /**
   * Has devices write through the page cache that write directly and must not, if their files lie in the
   * file system of the directory; a device in use goes on meanwhile. `changed`: how many.
   */
  endUnsafeDirectIo(request: { directory: string }): NativeResult<{ changed: number }>;
  /**
   * Has the loop device of a file refuse discards until it is detached: fstrim and blkdiscard punch no
   * holes into the file. ENXIO if it is not attached; EROFS where /sys is read-only.
   */
  refuseDiscards(request: { backingPath: string }): NativeResult<object>;
  /** BLKROSET. */
  setDeviceReadOnly(request: { devicePath: string; readOnly: boolean }): NativeResult<object>;

  /** Whether FICLONE works in this directory, by cloning a real temporary file (removed again). */
  probeReflink(request: { directory: string }): NativeResult<{ supported: boolean }>;
  /** New sparse file: temporary name, fsync, rename, fsync of the directory. EEXIST if finalPath exists. Mode 0600. */
  createSparseFile(request: {
    temporaryPath: string;
    finalPath: string;
    sizeBytes: bigint;
  }): NativeResult<object>;
  /**
   * A writable clone (FICLONE) of a frozen file, grown with zeros to sizeBytes: temporary name, fsync,
   * rename, fsync of the directory. Copies the NOCOW flag. EEXIST if finalPath exists. Mode 0600.
   * SCAN_MUTABLE if the source is no immutable regular file, was changed since takeSnapshots made it,
   * or changes meanwhile.
   */
  cloneFile(request: {
    sourcePath: string;
    temporaryPath: string;
    finalPath: string;
    sizeBytes: bigint;
  }): NativeResult<object>;
  /**
   * Grows a volume file (never shrinks it): ftruncate, fsync. `grown` false: it had that size or
   * more. EINVAL if it is not a regular file.
   */
  growFile(request: { path: string; sizeBytes: bigint }): NativeResult<{ grown: boolean }>;
  /**
   * Gives a file all of its blocks up to sizeBytes (fallocate), and that size if it is smaller; fsync.
   * ENOSPC: it is as large as it was. EINVAL if it is not a regular file.
   */
  allocateFile(request: { path: string; sizeBytes: bigint }): NativeResult<object>;
  /**
   * Frozen snapshots of 1 to 4096 volumes at one point in time. Everything is written back, so
   * that standing still is short; FIFREEZE of every freezePath, then for each member fsync and BLKFLSBUF
   * of loopPath and fsync of the file, then FICLONE to temporaryPath, FITHAW of all, fsync, mode 0400,
   * rename, FS_IMMUTABLE_FL, fsync of the directories. All or nothing: whatever fails, everything is
   * thawed and no file is left. The file is sealed: its size and modification time are kept in an
   * extended attribute of it. EBUSY of flock, `path` being the source's: somebody holds an exclusive
   * flock on the loop device, as tools do that must not stop half way.
   *
   * Members without freezePath but with loopPath (raw block volumes) cannot be held still. One may
   * be written to at any rate. If more of them are written to while they are cloned it is tried
   * again, about 2 s long, thawed in between; then the call fails with CUT_BUSY, `path` being the
   * sourcePath of one of them.
   *
   * EEXIST if a finalPath exists; ESTALE if a loopPath has another file by now or a freezePath is not
   * the file system on it, or if the guardian, the process that freezes and thaws, was lost; EBUSY if the
   * file system is frozen already, by somebody else or by an earlier run.
   */
  takeSnapshots(request: { members: NewSnapshotFile[] }): NativeResult<SnapshotsResult>;
  /**
   * Like a snapshot of one volume, but the copy is a volume: mode 0600, not immutable, grown with
   * zeros to sizeBytes. EINVAL if the source is larger.
   */
  cloneVolume(request: NewSnapshotFile & { sizeBytes: bigint }): NativeResult<SnapshotsResult>;
  /**
   * Sets or clears the immutable flag: for tests, and for repairs by an operator. Of the plugin's own
   * calls only removeFile lifts the flag.
   */
  setImmutable(request: { path: string; immutable: boolean }): NativeResult<object>;
  /** Clears the immutable flag, unlinks, fsyncs the directory. `removed` false: there was no such file. */
  removeFile(request: { path: string }): NativeResult<{ removed: boolean }>;
  /** null if there is no such file. */
  fileState(request: { path: string }): NativeResult<{ state: FileState | null }>;
  /** FITHAW of a mount point, which a kill of this process does not interrupt. `thawed` false: it was not frozen. */
  thaw(request: { path: string }): NativeResult<{ thawed: boolean }>;
  /** fsync of a block device or a directory. */
  flush(request: { path: string }): NativeResult<object>;
  /**
   * Grows a mounted file system to the size of its device, by ioctl on the mount point. Sizes are
   * capacities as statfs tells them. One that fills its device is left alone, so repeating is
   * harmless. ESTALE if mountPoint is not a mount of devicePath; EOPNOTSUPP for other file systems;
   * EPERM, with the ioctl as `syscall`, if a capability is missing: CAP_SYS_RESOURCE for
   * EXT4_IOC_RESIZE_FS, CAP_SYS_ADMIN for XFS_IOC_FSGROWFSDATA and BTRFS_IOC_RESIZE; EROFS if it is
   * mounted read-only; EBUSY while it is being reshaped. Waits while somebody keeps it frozen.
   */
  growFileSystem(request: { mountPoint: string; devicePath: string }): NativeResult<{
    fileSystem: 'ext4' | 'xfs' | 'btrfs';
    beforeBytes: bigint;
    afterBytes: bigint;
  }>;
}

/** Loads the addon into this thread. */
export function loadAddon(): Addon {
  const require = createRequire(import.meta.url);
  return require(packagePath('build/Release/blockdelta.node')) as Addon;
}
