/**
 * The device-mapper part of the addon's contract: raw ioctls on /dev/mapper/control, interface
 * version 4.0.0, without libdevmapper, udev or cookies. Sources: Linux
 * include/uapi/linux/dm-ioctl.h and Documentation/admin-guide/device-mapper/thin-provisioning.rst.
 *
 * Devices are named by their dm name of at most 127 bytes. Every device that a function returns has
 * its node /dev/dm-N; the addon creates the node where neither devtmpfs nor udev does. The `path`
 * of a failure is the dm name. `code` is an errno name (ENXIO: no such device), DM_STATUS_INVALID
 * for a kernel reply that does not parse, or THIN_POOL_MODE (below).
 */
import type { NativeResult } from '../../base/system/native-result.js';

export interface DmTarget {
  /** thin-pool, thin, linear, error, ... */
  type: string;
  startSectors: bigint;
  lengthSectors: bigint;
  /** Parameters of the live table; "Fail" for a thin device whose pool has failed. */
  table: string;
}

export interface DmDevice {
  name: string;
  uuid: string;
  /** /dev/dm-N, valid only now: the kernel reuses minor numbers. */
  path: string;
  major: number;
  minor: number;
  /** Size of the live table. */
  sizeBytes: bigint;
  readOnly: boolean;
  suspended: boolean;
  /** A loaded table takes effect at the next resume. */
  hasInactiveTable: boolean;
  /** The kernel removes the device at its last close. */
  isBeingRemoved: boolean;
  openCount: number;
  targets: DmTarget[];
}

export type ThinPoolMode = 'rw' | 'ro' | 'out_of_data_space' | 'fail' | 'error';

/** The status line of a thin-pool target. In modes fail and error, only `mode` is known. */
export interface ThinPoolStatus {
  mode: ThinPoolMode;
  transactionId: bigint;
  usedMetadataBlocks: bigint;
  totalMetadataBlocks: bigint;
  usedDataBlocks: bigint;
  totalDataBlocks: bigint;
  /** Block of the superblock copy of the held metadata snapshot; null if none is held. */
  heldRoot: bigint | null;
  discards: 'discard_passdown' | 'no_discard_passdown' | 'ignore_discard';
  whenFull: 'error_if_no_space' | 'queue_if_no_space';
  needsCheck: boolean;
  metadataLowWaterBlocks: bigint;
}

/** A thin device and its new snapshot. */
export interface NewThinSnapshot {
  /** The volume's dm device, suspended while the snapshot is taken; null if the volume is not active. */
  deviceName: string | null;
  originId: number;
  snapshotId: number;
}

export interface DmAddon {
  /** The kernel's interface version. ENOENT, ENXIO or ENODEV if the kernel has no device-mapper. */
  dmVersion(request: object): NativeResult<{ major: number; minor: number; patch: number }>;
  /** Whether the kernel has a target such as thin-pool. Loads the module if possible. */
  dmHasTarget(request: { type: string }): NativeResult<{ present: boolean }>;
  /** The device; null if there is no such device. */
  dmFind(request: { name: string }): NativeResult<{ device: DmDevice | null }>;
  /** Names and uuids of the devices whose name starts with the prefix. */
  dmList(request: { prefix: string }): NativeResult<{ devices: { name: string; uuid: string }[] }>;
  /**
   * Creates a device with one target and resumes it; leaves nothing after a failure. EEXIST if the
   * name or the uuid is taken. A `readOnly` device refuses writes and discards. A process killed
   * during the call leaves a device without targets, to be removed with dmRemove.
   */
  dmCreate(request: {
    name: string;
    uuid: string;
    readOnly: boolean;
    sizeSectors: bigint;
    type: string;
    table: string;
  }): NativeResult<{ device: DmDevice }>;
  /**
   * Replaces the table of a device: load, suspend, resume. `noFlush` queues I/O in flight instead of waiting for it.
   * `lockFileSystem` freezes a mounted file system meanwhile and has no effect with `noFlush`. After a failure the old table is
   * live and the device resumed.
   */
  dmReload(request: {
    name: string;
    readOnly: boolean;
    sizeSectors: bigint;
    type: string;
    table: string;
    noFlush: boolean;
    lockFileSystem: boolean;
  }): NativeResult<{ device: DmDevice }>;
  /** Suspends a device; a suspended device is left as it is. Arguments as for dmReload. */
  dmSuspend(request: { name: string; noFlush: boolean; lockFileSystem: boolean }): NativeResult<object>;
  /** Resumes a device. `resumed` is false if the device was not suspended. */
  dmResume(request: { name: string }): NativeResult<{ resumed: boolean }>;
  /**
   * Removes a device. `removed` is false if the device did not exist or its removal is deferred. EBUSY is retried for about a
   * second, because udev may have the device open briefly; then the call fails or, with `deferred`, the kernel removes the
   * device at its last close.
   */
  dmRemove(request: { name: string; deferred: boolean }): NativeResult<{ removed: boolean }>;

  /**
   * Status of a thin pool; null if there is no such device. EINVAL if the device is not a thin-pool. With `commit`, the kernel
   * first commits the pool's metadata; monitoring should not ask for that.
   */
  thinPoolStatus(request: { name: string; commit: boolean }): NativeResult<{ status: ThinPoolStatus | null }>;
  /**
   * Sends messages to a pool one by one and reads the status after each: the kernel drops the result of the commit that ends a
   * message, so the effect has persisted only if the pool's metadata is writable afterwards (rw or out_of_data_space, no
   * needs_check). Otherwise the call fails with THIN_POOL_MODE (the message names the mode), and the last message sent may or
   * may not have taken effect. If the call fails with an errno, the last message sent had no effect, but earlier messages had.
   */
  thinMessages(request: { pool: string; messages: readonly string[] }): NativeResult<{ status: ThinPoolStatus }>;
  /**
   * Takes snapshots of one or more thin devices at one point in time: suspends all active origins (which freezes mounted file
   * systems and waits for I/O), sends every create_snap, and in every case resumes the origins that it suspended. A guardian
   * suspends and resumes the origins; the last three fields are those of takeSnapshots.
   *
   * After a failure, the call deletes the snapshots that it created, unless the pool refuses. EBUSY if an origin is already
   * suspended. A file system that another program has frozen stays frozen: kernels from 6.8 on count freezes; on older kernels,
   * only the device is suspended, and the call fails with SNAPSHOT_THAWED if a program thawed the file system meanwhile.
   * ETIMEDOUT as for takeSnapshots, with the device as `path`. ESTALE if a device is not the thin device `originId` of this
   * pool, if the guardian was lost while it suspended, or if a device was not suspended throughout. THIN_POOL_MODE unless the
   * pool is rw and needs no check, because without space a file system may be unable to freeze.
   *
   * The kernel counts every create_snap in the pool's time but keeps only 24 bits of the time in mappings, and does not handle
   * the overflow: the caller must refuse to take a snapshot when the superblock's time is 16,777,215.
   */
  takeThinSnapshots(request: {
    pool: string;
    members: readonly NewThinSnapshot[];
    guardianSocket: string | null;
    freezeLimitMs: bigint;
    deadlineMs: bigint | null;
  }): NativeResult<{
    /** CLOCK_REALTIME while all origins were suspended, ns since the epoch. */
    takenAtNs: bigint;
    /** How long the origins were suspended, ns (the longest of several); 0 if none was active. */
    suspendedNs: bigint;
    status: ThinPoolStatus;
  }>;
}
