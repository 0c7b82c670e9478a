/**
 * The part of the addon's contract about device-mapper: raw ioctls on /dev/mapper/control, version
 * 4.0.0, without libdevmapper, udev or cookies. Format: Linux include/uapi/linux/dm-ioctl.h and
 * Documentation/admin-guide/device-mapper/thin-provisioning.rst.
 *
 * Devices are named by their dm name, of at most 127 bytes. Every device that a function returns has
 * its node: /dev/dm-N, made by us where neither devtmpfs nor udev has. A failure's `path` is the name
 * of the dm device; `code` an errno name (ENXIO: there is no such device), DM_STATUS_INVALID for an
 * answer of the kernel's that does not parse, or THIN_POOL_MODE (below).
 */
import type { NativeResult } from './addon.js';

export interface DmTarget {
  /** thin-pool, thin, linear, error, ... */
  type: string;
  startSectors: bigint;
  lengthSectors: bigint;
  /** Parameters of the table that is live; of a thin device whose pool has failed "Fail". */
  table: string;
}

export interface DmDevice {
  name: string;
  uuid: string;
  /** /dev/dm-N: valid now, never to be remembered. */
  path: string;
  major: number;
  minor: number;
  /** Of the live table. */
  sizeBytes: bigint;
  readOnly: boolean;
  suspended: boolean;
  /** A table is loaded and waits for a resume. */
  hasInactiveTable: boolean;
  /** It goes away when the last user closes it. */
  isBeingRemoved: boolean;
  openCount: number;
  /** For dmWait. */
  eventNumber: number;
  targets: DmTarget[];
}

export type ThinPoolMode = 'rw' | 'ro' | 'out_of_data_space' | 'fail' | 'error';

/** The status line of a thin-pool target. In modes fail and error nothing but `mode` is known. */
export interface ThinPoolStatus {
  mode: ThinPoolMode;
  transactionId: bigint;
  usedMetadataBlocks: bigint;
  totalMetadataBlocks: bigint;
  usedDataBlocks: bigint;
  totalDataBlocks: bigint;
  /** Block of the superblock copy; null: no metadata snapshot is held. */
  heldRoot: bigint | null;
  discards: 'discard_passdown' | 'no_discard_passdown' | 'ignore_discard';
  whenFull: 'error_if_no_space' | 'queue_if_no_space';
  needsCheck: boolean;
  metadataLowWaterBlocks: bigint;
}

/** One volume of a cut. */
export interface NewThinSnapshot {
  /** The volume's dm device, suspended for the cut; null: it is not active. */
  deviceName: string | null;
  originId: number;
  snapshotId: number;
}

export interface DmAddon {
  /** The kernel's version of the interface. ENOENT, ENXIO or ENODEV: this machine has no device-mapper. */
  dmVersion(request: object): NativeResult<{ major: number; minor: number; patch: number }>;
  /** Whether the kernel has a target, such as thin-pool; its module is loaded if it can be. */
  dmHasTarget(request: { type: string }): NativeResult<{ present: boolean }>;
  /** Null: there is no such device. */
  dmFind(request: { name: string }): NativeResult<{ device: DmDevice | null }>;
  /** Names and uuids of devices whose name begins with the prefix. */
  dmList(request: { prefix: string }): NativeResult<{ devices: { name: string; uuid: string }[] }>;
  /**
   * Makes a device of one target and resumes it; nothing is left after a failure. EEXIST if the name
   * or the uuid is taken. `readOnly` devices refuse writes and discards. A process killed meanwhile
   * leaves a device without targets: to be removed.
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
   * Replaces the table of a device: loads, suspends, resumes. `noFlush`: I/O in flight is held back
   * instead of waited for. `lockFileSystem`: a mounted file system is frozen meanwhile; without effect
   * together with `noFlush`. The old table stays, and the device is resumed, after a failure.
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
  /** Suspended already: done. Arguments as those of dmReload. */
  dmSuspend(request: {
    name: string;
    noFlush: boolean;
    lockFileSystem: boolean;
  }): NativeResult<object>;
  /** Not suspended: done. `resumed` tells whether it was. */
  dmResume(request: { name: string }): NativeResult<{ resumed: boolean }>;
  /**
   * Removes a device; absent: done. EBUSY is retried for about a second, since udev may look at a device
   * for a moment, and then returned, or with `deferred` the kernel removes it at its last close.
   * `removed`: it was there and is gone.
   */
  dmRemove(request: { name: string; deferred: boolean }): NativeResult<{ removed: boolean }>;
  /**
   * Waits until the event number of the device is another than `eventNumber`, for timeoutMs, 60,000 at
   * most: it holds its thread.
   */
  dmWait(request: {
    name: string;
    eventNumber: number;
    timeoutMs: number;
  }): NativeResult<{ eventNumber: number; isTimedOut: boolean }>;

  /**
   * Null: no such device. EINVAL: no thin-pool. `commit`: the kernel commits the pool's metadata first;
   * monitors leave it out.
   */
  thinPoolStatus(request: {
    name: string;
    commit: boolean;
  }): NativeResult<{ status: ThinPoolStatus | null }>;
  /**
   * Status of a thin device: what is mapped of it. Null: no such device. `mode` fail: its pool has failed.
   */
  thinStatus(request: {
    name: string;
  }): NativeResult<{ status: { mode: 'ok' | 'fail'; mappedSectors: bigint } | null }>;
  /**
   * Sends messages to a pool, one after the other, and reads the status after each: the kernel drops
   * the result of the commit that ends a message, so only a pool whose metadata is writable afterwards
   * (rw or out_of_data_space, no needs_check) has kept it. THIN_POOL_MODE if it is not (the message
   * tells the mode): what was sent may or may not have happened. An errno: that message did nothing,
   * those before it are done.
   */
  thinMessages(request: {
    pool: string;
    messages: readonly string[];
  }): NativeResult<{ status: ThinPoolStatus }>;
  /**
   * Snapshots of one or several thin devices at one point in time: suspends all active origins (a
   * mounted file system is frozen, I/O waited for), sends all create_snap, resumes all that were
   * suspended here, in every case. A failure has deleted what it made, unless the pool did not let it.
   * EBUSY if an origin is suspended already, or its file system frozen by somebody else (kernels before
   * 6.8; later ones count freezes, so it is cut, and left frozen); ESTALE if a device is not the thin
   * device `originId` of this pool; THIN_POOL_MODE unless the pool is rw, since without space a file
   * system may not freeze.
   *
   * The kernel counts each create_snap in the pool's time, keeps 24 bits of it in the mappings and goes
   * on wrongly behind that: refuse to cut when the superblock's time is 16,777,215.
   */
  takeThinSnapshots(request: { pool: string; members: readonly NewThinSnapshot[] }): NativeResult<{
    /** Wall clock when all were held still, ns since the epoch. */
    takenAtNs: bigint;
    /** How long the slowest was held still, ns; 0 if none was active. */
    suspendedNs: bigint;
    status: ThinPoolStatus;
  }>;
}
