/**
 * Which btrfs superblocks this host mounts, by an allow-list of what they may say.
 *
 * Anyone who can write to the volume can write the superblock, so no field is trusted before it is checked. A volume is one
 * device, so file systems on several devices and seed file systems are refused. The kernel mounts by the first copy of the
 * superblock alone, so this file judges only that copy. Pure: reads no device.
 */
import type { Objection } from './file-systems.js';

/** Byte offsets of the fields that this file reads (little-endian). */
const AT = {
  fsid: 32,
  offset: 48,
  flags: 56,
  magic: 64,
  logRoot: 96,
  totalBytes: 112,
  deviceCount: 136,
  sectorSize: 144,
  nodeSize: 148,
  compatible: 172,
  readOnlyCompatible: 180,
  incompatible: 188,
  deviceBytes: 209,
} as const;

const MAGIC = '_BHRfS_M';
const PLACE = 65536n;

/** The flags WRITTEN, RELOC and ERROR; the kernel itself sets ERROR. */
const FLAGS = 0x7n;
const SEEDING = 1n << 32n;
const CHANGING_ID = (1n << 35n) | (1n << 36n);
/** mixed_backref to metadata_uuid without raid56, and simple_quota. Refuses raid1c34, zoned and experimental features. */
const INCOMPATIBLE = 0x1077fn;
/** free_space_tree, free_space_tree_valid, verity and block_group_tree. */
const READ_ONLY_COMPATIBLE = 0xfn;

/** Why the host must not mount this btrfs; null if it may. */
export function btrfsObjection(block: Buffer, deviceBytes: bigint): Objection | null {
  if (block.toString('latin1', AT.magic, AT.magic + MAGIC.length) !== MAGIC) {
    return damaged('no btrfs superblock');
  }
  return deviceObjection(block) ?? featureObjection(block) ?? geometryObjection(block, deviceBytes);
}

export interface BtrfsIdentity {
  /** The fsid, lower-case with dashes. */
  uuid: string;
  /** The file system has a log that a mount must replay; no tool may write to the device before that mount. */
  hasLog: boolean;
}

export function identityOf(block: Buffer): BtrfsIdentity {
  const hex = block.toString('hex', AT.fsid, AT.fsid + 16);
  const uuid = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { uuid, hasLog: block.readBigUInt64LE(AT.logRoot) !== 0n };
}

export function isBtrfsGrowable(block: Buffer, deviceBytes: bigint): boolean {
  return deviceBytes / 4096n > block.readBigUInt64LE(AT.totalBytes) / 4096n;
}

function geometryObjection(block: Buffer, deviceBytes: bigint): Objection | null {
  if (block.readBigUInt64LE(AT.offset) !== PLACE) return damaged('a superblock of another place');
  const sectorSize = block.readUInt32LE(AT.sectorSize);
  const nodeSize = block.readUInt32LE(AT.nodeSize);
  if (!isBlockSize(sectorSize) || !isBlockSize(nodeSize)) {
    return damaged(`sectors of ${sectorSize} and nodes of ${nodeSize} bytes`);
  }
  const bytes = [block.readBigUInt64LE(AT.totalBytes), block.readBigUInt64LE(AT.deviceBytes)];
  const larger = bytes.find((size) => size > deviceBytes);
  if (larger === undefined) return null;
  return damaged(`a file system of ${larger} bytes on a device of ${deviceBytes}`);
}

function deviceObjection(block: Buffer): Objection | null {
  const count = block.readBigUInt64LE(AT.deviceCount);
  const flags = block.readBigUInt64LE(AT.flags);
  if (count !== 1n) {
    return {
      found: `a file system of ${count} devices`,
      remedy: 'copy its files to a file system of one device',
    };
  }
  if ((flags & SEEDING) !== 0n) {
    return {
      found: 'a seed for other devices',
      remedy: 'switch that off with btrfstune -S 0 on the raw device',
    };
  }
  if ((flags & CHANGING_ID) !== 0n) return damaged('a change of its id that was not finished');
  if ((flags & ~FLAGS) !== 0n) return damaged(`flags 0x${(flags & ~FLAGS).toString(16)}`);
  return null;
}

function featureObjection(block: Buffer): Objection | null {
  for (const [at, what, mask] of [
    [AT.compatible, 'compatible', 0n],
    [AT.readOnlyCompatible, 'read-only compatible', READ_ONLY_COMPATIBLE],
    [AT.incompatible, 'incompatible', INCOMPATIBLE],
  ] as const) {
    const odd = block.readBigUInt64LE(at) & ~mask;
    if (odd === 0n) continue;
    return {
      found: `${what} features 0x${odd.toString(16)}`,
      remedy: 'copy its files to a file system made without them',
    };
  }
  return null;
}

const isBlockSize = (value: number): boolean => value >= 4096 && value <= 65536 && (value & (value - 1)) === 0;

const damaged = (found: string): Objection => ({
  found,
  remedy: 'inspect it on the raw device with btrfs check --readonly, or restore a snapshot',
});
