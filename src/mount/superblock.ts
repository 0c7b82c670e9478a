/**
 * The few facts of a superblock that decide before a mount: how large the file system is, and who
 * a btrfs says it is.
 *
 * For devices that are not mounted: what a mounted file system has not written back yet cannot be
 * seen here. Reads; never writes.
 */
import { open } from 'node:fs/promises';
import { CsiError } from '../errors.js';
import type { FileSystem } from '../file-systems.js';

/** Where the superblock begins, and how much of it is read. */
const PLACES: Readonly<Record<FileSystem, { offset: number; length: number }>> = {
  ext4: { offset: 1024, length: 1024 },
  xfs: { offset: 0, length: 512 },
  btrfs: { offset: 65536, length: 4096 },
};

/** resize2fs makes no last group that has less than this left beside its own tables. */
const EXT4_GROUP_SLACK_BLOCKS = 50n;
const EXT4_FEATURE_64BIT = 0x80;
const EXT4_SMALLEST_INODE = 128n;

/** Whether the file system would become larger if it were grown to its device's size. */
export async function isGrowable(
  type: FileSystem,
  devicePath: string,
  deviceBytes: bigint,
): Promise<boolean> {
  const block = await readSuperblock(type, devicePath);
  switch (type) {
    case 'ext4':
      return isExt4Growable(block, deviceBytes);
    case 'xfs': {
      const blockSize = BigInt(block.readUInt32BE(4));
      return deviceBytes / blockSize > block.readBigUInt64BE(8);
    }
    case 'btrfs':
      return deviceBytes / 4096n > block.readBigUInt64LE(112) / 4096n;
  }
}

export interface BtrfsIdentity {
  /** The fsid, lower-case with dashes. */
  uuid: string;
  /** There is a log to be replayed by a mount; no tool may write to the device before that. */
  hasLog: boolean;
}

export async function btrfsIdentity(devicePath: string): Promise<BtrfsIdentity> {
  const block = await readSuperblock('btrfs', devicePath);
  const hex = block.toString('hex', 32, 48);
  const uuid = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { uuid, hasLog: block.readBigUInt64LE(96) !== 0n };
}

/** A last group that would be all tables is not made, neither by mkfs nor by resize2fs. */
function isExt4Growable(block: Buffer, deviceBytes: bigint): boolean {
  const blockSize = 1024n << BigInt(block.readUInt32LE(0x18));
  const is64Bit = (block.readUInt32LE(0x60) & EXT4_FEATURE_64BIT) !== 0;
  const high = is64Bit ? BigInt(block.readUInt32LE(0x150)) : 0n;
  const blocks = (high << 32n) | BigInt(block.readUInt32LE(0x4));
  const perGroup = BigInt(block.readUInt32LE(0x20));
  const inodeBytes = BigInt(block.readUInt16LE(0x58)) || EXT4_SMALLEST_INODE;
  const tables = (BigInt(block.readUInt32LE(0x28)) * inodeBytes) / blockSize + 3n;
  const descriptors =
    1n + BigInt(block.readUInt16LE(0xce)) + (blocks / perGroup) * (64n / blockSize + 1n);
  const wanted = deviceBytes / blockSize;
  const last = (wanted - BigInt(block.readUInt32LE(0x14))) % perGroup;
  const isUseless = last < tables + descriptors + EXT4_GROUP_SLACK_BLOCKS;
  return (isUseless ? wanted - last : wanted) > blocks;
}

async function readSuperblock(type: FileSystem, devicePath: string): Promise<Buffer> {
  const { offset, length } = PLACES[type];
  const handle = await open(devicePath, 'r');
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(length), 0, length, offset);
    if (bytesRead === length) return buffer;
    throw CsiError.failedPrecondition(
      `${devicePath} ends before the superblock of its ${type} file system`,
    );
  } finally {
    await handle.close();
  }
}
