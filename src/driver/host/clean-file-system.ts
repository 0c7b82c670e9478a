/**
 * Recognizes the device that nearly every staging finds: exactly one of the plugin's file systems, clean, and no trace of
 * anything else. blkid and fsck would add nothing there, so no process has to be started. In every other case blkid and fsck
 * decide, so each rule here errs on the side of asking them.
 *
 * The bytes are hostile: this file looks only at fixed places, and superblock.ts decides what may be mounted. Never writes.
 */
import type { NativeRunner } from '../native/pool.js';
import { FILE_SYSTEMS, type FileSystem } from './file-systems.js';
import { MAGIC } from './superblock.js';
import { isExt4Clean } from './superblock-ext4.js';
import { hasXfsHeaders } from './superblock-xfs.js';

const KIB = 1024;
/** Between head and tail, blkid knows no signatures except those of ZFS and VMFS in the middle of a device. */
const HEAD_BYTES = 264 * KIB;
/** RAID, GPT and other formats have their last metadata here, at the end of a device. */
const TAIL_BYTES = 128 * KIB;

/**
 * Whether the beginning of a device with that magic shows a clean file system and nothing else: any other bytes before the
 * magic would be a boot sector, a partition table or a label.
 */
const IS_CLEAN: Readonly<Record<FileSystem, (head: Buffer) => boolean>> = {
  ext4: (head) => isZero(head.subarray(0, KIB)) && isExt4Clean(head.subarray(KIB, 2 * KIB)),
  xfs: hasXfsHeaders,
  btrfs: (head) => isZero(head.subarray(0, 64 * KIB)),
};

/** Magic numbers of other formats, and the offsets where they may lie beside a superblock of ours. */
const FOREIGN: readonly (readonly [magic: string, ...offsets: number[]])[] = [
  ['LUKS\xba\xbe', 0],
  ['SKUL\xba\xbe', 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB],
  ['LABELONE', 0, 512, 1024, 1536],
  ['\x55\xaa', 510],
  ['EFI PART', 512, 4096],
  // Linux RAID, versions 1.1 and 1.2.
  ['\xfc\x4e\x2b\xa9', 0, 4096],
  ['\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81', 4096 + 24],
  // Swap, by page size.
  ...['SWAPSPACE2', 'SWAP-SPACE'].map(
    (magic) => [magic, ...[4, 8, 16, 32, 64].map((page) => page * KIB - magic.length)] as const,
  ),
  ['JFS1', 32 * KIB],
  ['CD001', 32 * KIB + 1],
  ['BEA01', 32 * KIB + 1],
  ['NSR0', 32 * KIB + 1],
  ['ReIsEr', 8 * KIB + 52, 64 * KIB + 52],
  ['\x01\x16\x19\x70', 64 * KIB],
  ['OCFSV2', KIB, 2 * KIB, 4 * KIB, 8 * KIB],
  ['\x54\x19\x01\x00', 8 * KIB + 1372, 64 * KIB + 1372, 256 * KIB + 1372],
  ['\x00\x01\x19\x54', 8 * KIB + 1372, 64 * KIB + 1372, 256 * KIB + 1372],
  // ZFS, whose uberblocks have no fixed place.
  ...['\x0c\xb1\xba\x00\x00\x00\x00\x00', '\x00\x00\x00\x00\x00\xba\xb1\x0c'].map(
    (magic) => [magic, ...Array.from({ length: 128 }, (_, n) => (128 + n) * KIB)] as const,
  ),
];

/** The file system, if it is clean and the device holds nothing else; null if blkid and fsck must decide. */
export async function cleanFileSystem(
  native: NativeRunner,
  devicePath: string,
  deviceBytes: bigint,
): Promise<FileSystem | null> {
  const end = Number(deviceBytes);
  if (end < HEAD_BYTES + TAIL_BYTES || !Number.isSafeInteger(end)) return null;
  const wanted = [
    { offset: 0, length: HEAD_BYTES },
    { offset: end - TAIL_BYTES, length: TAIL_BYTES },
  ];
  const { parts } = await native.run('readParts', { path: devicePath, parts: wanted });
  const [head, tail] = parts.map((part) => part && Buffer.from(part.buffer));
  if (!head || !tail || !isZero(tail)) return null;
  const found = FILE_SYSTEMS.filter((type) => has(head, MAGIC[type].bytes, MAGIC[type].offset));
  const [type] = found;
  if (type === undefined || found.length > 1 || !IS_CLEAN[type](head)) return null;
  const isAlone = !FOREIGN.some(([magic, ...offsets]) =>
    offsets.some((offset) => has(head, Buffer.from(magic, 'latin1'), offset)),
  );
  return isAlone ? type : null;
}

function has(bytes: Buffer, magic: Buffer, offset: number): boolean {
  return bytes.subarray(offset, offset + magic.length).equals(magic);
}

const isZero = (bytes: Buffer): boolean => bytes.equals(Buffer.alloc(bytes.length));
