/**
 * Which XFS superblocks this host mounts, by an allow-list of what they may say.
 *
 * Anyone who can write to the volume can write the superblock, so no field is trusted before it is checked. An external log or
 * a realtime section lies on another device, which no volume has. Pure: reads no device.
 */
import type { Objection } from './file-systems.js';

/** Byte offsets of the fields that this file reads (big-endian). */
const AT = {
  magic: 0,
  blockSize: 4,
  dataBlocks: 8,
  realtimeBlocks: 16,
  realtimeExtents: 24,
  logStart: 48,
  version: 100,
  sectorSize: 102,
  compatible: 208,
  readOnlyCompatible: 212,
  incompatible: 216,
  logIncompatible: 220,
} as const;

const MAGIC = 0x58465342;
/** Size of the superblock's fields; the rest of its sector is zeros. */
const SUPERBLOCK_BYTES = 304;
/** The headers for free space and inodes. The next header, for free blocks, has no magic in version 4. */
const GROUP_HEADERS = ['XAGF', 'XAGI'];
const VERSION_MASK = 0xf;
const VERSION_4 = 4;
const VERSION_5 = 5;
const NEEDS_REPAIR = 0x10;

/** The feature words of version 5. `mask` holds the features that any mkfs.xfs makes. */
const FEATURES = [
  { at: AT.compatible, what: 'compatible', mask: 0 },
  /** finobt, rmapbt, reflink, inobtcount. */
  { at: AT.readOnlyCompatible, what: 'read-only compatible', mask: 0xf },
  /** ftype, sparse inodes, meta_uuid, bigtime, nrext64, exchange, parent, metadir. Refuses zoned (0x200, 0x400). */
  { at: AT.incompatible, what: 'incompatible', mask: 0x1ef },
  /** Logged attributes. */
  { at: AT.logIncompatible, what: 'log', mask: 0x1 },
] as const;

/** Why the host must not mount this XFS; null if it may. */
export function xfsObjection(block: Buffer, deviceBytes: bigint): Objection | null {
  return geometryObjection(block, deviceBytes) ?? deviceObjection(block) ?? featureObjection(block);
}

/** Whether zeros fill the superblock's sector, and the headers of the first group follow, each in a sector of its own. */
export function hasXfsHeaders(head: Buffer): boolean {
  const sectorSize = head.readUInt16BE(AT.sectorSize);
  if (!isPowerOfTwo(sectorSize, 512, 32768)) return false;
  const isPadded = head.subarray(SUPERBLOCK_BYTES, sectorSize).every((byte) => byte === 0);
  return (
    isPadded &&
    GROUP_HEADERS.every((magic, index) => {
      const offset = sectorSize * (index + 1);
      return head.toString('latin1', offset, offset + magic.length) === magic;
    })
  );
}

/** Whether the kernel would make the file system larger on a device of that size. The block has passed `xfsObjection`. */
export function isXfsGrowable(block: Buffer, deviceBytes: bigint): boolean {
  return deviceBytes / BigInt(block.readUInt32BE(AT.blockSize)) > dataBlocks(block);
}

function geometryObjection(block: Buffer, deviceBytes: bigint): Objection | null {
  if (block.readUInt32BE(AT.magic) !== MAGIC) return damaged('no XFS superblock');
  const version = block.readUInt16BE(AT.version) & VERSION_MASK;
  if (version !== VERSION_4 && version !== VERSION_5) {
    return damaged(`a superblock of version ${version}`);
  }
  const blockSize = block.readUInt32BE(AT.blockSize);
  if (!isPowerOfTwo(blockSize, 512, 65536)) return damaged(`a block size of ${blockSize}`);
  const sectorSize = block.readUInt16BE(AT.sectorSize);
  if (!isPowerOfTwo(sectorSize, 512, 32768)) return damaged(`a sector size of ${sectorSize}`);
  const bytes = dataBlocks(block) * BigInt(blockSize);
  if (bytes <= deviceBytes) return null;
  return damaged(`a file system of ${bytes} bytes on a device of ${deviceBytes}`);
}

function deviceObjection(block: Buffer): Objection | null {
  const remedy = 'copy its files to a file system made without one';
  if (block.readBigUInt64BE(AT.logStart) === 0n) {
    return { found: 'a log on another device', remedy };
  }
  const hasRealtime =
    block.readBigUInt64BE(AT.realtimeBlocks) !== 0n || block.readBigUInt64BE(AT.realtimeExtents) !== 0n;
  return hasRealtime ? { found: 'a realtime section on another device', remedy } : null;
}

function featureObjection(block: Buffer): Objection | null {
  if ((block.readUInt16BE(AT.version) & VERSION_MASK) === VERSION_4) return null;
  if ((block.readUInt32BE(AT.incompatible) & NEEDS_REPAIR) !== 0) {
    return damaged('a file system that asks for a repair');
  }
  for (const { at, what, mask } of FEATURES) {
    const odd = (block.readUInt32BE(at) & ~mask) >>> 0;
    if (odd === 0) continue;
    return {
      found: `${what} features 0x${odd.toString(16)}`,
      remedy: 'copy its files to a file system made without them',
    };
  }
  return null;
}

const dataBlocks = (block: Buffer): bigint => block.readBigUInt64BE(AT.dataBlocks);

const isPowerOfTwo = (value: number, smallest: number, largest: number): boolean =>
  value >= smallest && value <= largest && (value & (value - 1)) === 0;

const damaged = (found: string): Objection => ({
  found,
  remedy: 'inspect it on the raw device with xfs_repair -n, or restore a snapshot',
});
