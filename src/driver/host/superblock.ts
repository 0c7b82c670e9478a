/**
 * Reads the superblock of a device before a mount: whether this host mounts the file system, whether the file system can grow
 * to the size of its device, and which fsid a btrfs reports.
 *
 * Only for devices that are not mounted: the device lacks what a mounted file system has not written back yet. Each file
 * system's own file interprets the bytes. Never writes.
 */
import { open } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import type { NativeRunner } from '../native/pool.js';
import { FILE_SYSTEMS, type FileSystem, type Objection } from './file-systems.js';
import { type BtrfsIdentity, btrfsObjection, identityOf, isBtrfsGrowable } from './superblock-btrfs.js';
import { ext4Objection, isExt4Growable } from './superblock-ext4.js';
import { isXfsGrowable, xfsObjection } from './superblock-xfs.js';

interface Superblock {
  /** Where on the device the superblock begins, and how much of it is read, in bytes. */
  offset: number;
  length: number;
  objection(block: Buffer, deviceBytes: bigint): Objection | null;
  isGrowable(block: Buffer, deviceBytes: bigint): boolean;
}

const SUPERBLOCKS: Readonly<Record<FileSystem, Superblock>> = {
  ext4: { offset: 1024, length: 1024, objection: ext4Objection, isGrowable: isExt4Growable },
  xfs: { offset: 0, length: 512, objection: xfsObjection, isGrowable: isXfsGrowable },
  btrfs: { offset: 65536, length: 4096, objection: btrfsObjection, isGrowable: isBtrfsGrowable },
};

/**
 * Why the host must not mount the file system or pass it to a tool; null if it may. The
 * caller has flushed the device, since the kernel reads some superblocks past the page cache.
 */
export async function superblockObjection(
  native: NativeRunner,
  type: FileSystem,
  devicePath: string,
  deviceBytes: bigint,
): Promise<Objection | null> {
  return SUPERBLOCKS[type].objection(await readSuperblock(native, type, devicePath), deviceBytes);
}

/**
 * Whether the file system would become larger if it were grown to its device's size. False if the host must not mount the file
 * system, because a tool may have put another superblock there since the check.
 */
export async function isGrowable(
  native: NativeRunner,
  type: FileSystem,
  devicePath: string,
  deviceBytes: bigint,
): Promise<boolean> {
  const { objection, isGrowable: isSo } = SUPERBLOCKS[type];
  const block = await readSuperblock(native, type, devicePath);
  return objection(block, deviceBytes) === null && isSo(block, deviceBytes);
}

/** For each file system, the place of its magic on the device, and the magic. */
export const MAGIC: Readonly<Record<FileSystem, { offset: number; bytes: Buffer }>> = {
  ext4: { offset: 1024 + 0x38, bytes: Buffer.from([0x53, 0xef]) },
  xfs: { offset: 0, bytes: Buffer.from('XFSB') },
  btrfs: { offset: 65536 + 0x40, bytes: Buffer.from('_BHRfS_M') },
};

/**
 * The file system whose magic a device or an image has; null if it has none or several. The answer only describes the device;
 * superblockObjection decides what a tool may read.
 */
export async function recognizedFileSystem(path: string): Promise<FileSystem | null> {
  const handle = await open(path, 'r');
  try {
    const found: FileSystem[] = [];
    for (const type of FILE_SYSTEMS) {
      const { offset, bytes } = MAGIC[type];
      const read = await handle.read(Buffer.alloc(bytes.length), 0, bytes.length, offset);
      if (read.bytesRead === bytes.length && read.buffer.equals(bytes)) found.push(type);
    }
    return found.length === 1 ? (found[0] ?? null) : null;
  } finally {
    await handle.close();
  }
}

export async function btrfsIdentity(native: NativeRunner, devicePath: string): Promise<BtrfsIdentity> {
  return identityOf(await readSuperblock(native, 'btrfs', devicePath));
}

async function readSuperblock(native: NativeRunner, type: FileSystem, devicePath: string): Promise<Buffer> {
  const { offset, length } = SUPERBLOCKS[type];
  const { parts } = await native.run('readParts', { path: devicePath, parts: [{ offset, length }] });
  const [block] = parts;
  if (block) return Buffer.from(block.buffer);
  throw CsiError.failedPrecondition(`the superblock of the ${type} file system on ${devicePath} cannot be read`);
}
