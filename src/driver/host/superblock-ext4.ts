/**
 * Which ext4 superblocks this host mounts, by an allow-list of what they may say.
 *
 * Whoever can write to the volume can write its superblock, which chooses features, journal devices and mount options for the
 * host. The list has everything that a mkfs makes by default, on any distribution, but no option or device that the volume's
 * owner has put there. The bytes are hostile: every number is checked before it is used. Pure: reads no device.
 */
import type { Objection } from './file-systems.js';

/** Byte offsets in the superblock of the fields that this file reads (little-endian). */
const AT = {
  blocksLow: 0x4,
  firstBlock: 0x14,
  logBlockSize: 0x18,
  blocksPerGroup: 0x20,
  inodesPerGroup: 0x28,
  mounts: 0x34,
  mostMounts: 0x36,
  magic: 0x38,
  state: 0x3a,
  checkInterval: 0x44,
  revision: 0x4c,
  inodeSize: 0x58,
  compatible: 0x5c,
  incompatible: 0x60,
  readOnlyCompatible: 0x64,
  journalUuid: 0xd0,
  journalInode: 0xe0,
  journalDevice: 0xe4,
  lastOrphan: 0xe8,
  defaultMountOptions: 0x100,
  blocksHigh: 0x150,
  errors: 0x194,
  mountOptions: 0x200,
} as const;
const MOUNT_OPTIONS_BYTES = 64;
const UUID_BYTES = 16;

const MAGIC = 0xef53;
const LARGEST_LOG_BLOCK_SIZE = 6;
const SMALLEST_INODE = 128;

/** The state of a file system that was unmounted and has met no error. */
const CLEAN = 1;
const HAS_JOURNAL = 0x4;
const NEEDS_RECOVERY = 0x4;
const JOURNAL_DEVICE = 0x8;
/** A feature that no ext2 and no ext3 has. */
const EXTENTS = 0x40;
const ORPHANS_PRESENT = 0x10000;
const IS_64BIT = 0x80;

/** The list lacks features that no mkfs of e2fsprogs makes, and features that the node's e2fsck refuses anyway. */
const COMPATIBLE: Readonly<Record<string, number>> = {
  dir_prealloc: 0x1,
  imagic_inodes: 0x2,
  has_journal: HAS_JOURNAL,
  ext_attr: 0x8,
  resize_inode: 0x10,
  dir_index: 0x20,
  sparse_super2: 0x200,
  fast_commit: 0x400,
  stable_inodes: 0x800,
  orphan_file: 0x1000,
};

/**
 * Three kinds of features are not listed: journal_dev, the journal of another file system; mmp, which delays a mount for as
 * long as the volume says and is for storage shared by several hosts; compression and dirdata, which no kernel has.
 */
const INCOMPATIBLE: Readonly<Record<string, number>> = {
  filetype: 0x2,
  needs_recovery: NEEDS_RECOVERY,
  meta_bg: 0x10,
  extent: EXTENTS,
  '64bit': IS_64BIT,
  flex_bg: 0x200,
  ea_inode: 0x400,
  metadata_csum_seed: 0x2000,
  large_dir: 0x4000,
  inline_data: 0x8000,
  encrypt: 0x10000,
  casefold: 0x20000,
};
const NAMES_OF_REFUSED: Readonly<Record<string, number>> = {
  journal_dev: JOURNAL_DEVICE,
  mmp: 0x100,
};

const READ_ONLY_COMPATIBLE: Readonly<Record<string, number>> = {
  sparse_super: 0x1,
  large_file: 0x2,
  huge_file: 0x8,
  uninit_bg: 0x10,
  dir_nlink: 0x20,
  extra_isize: 0x40,
  quota: 0x100,
  bigalloc: 0x200,
  metadata_csum: 0x400,
  'read-only': 0x1000,
  project: 0x2000,
  verity: 0x8000,
  orphan_present: ORPHANS_PRESENT,
};

/**
 * The options of tune2fs -o that change only how the file system treats its own files. debug, nobarrier and journal modes other
 * than ordered are not listed: the operator chooses those options.
 */
const DEFAULT_MOUNT_OPTIONS: Readonly<Record<string, number>> = {
  bsdgroups: 0x2,
  user_xattr: 0x4,
  acl: 0x8,
  uid16: 0x10,
  block_validity: 0x200,
  discard: 0x400,
  nodelalloc: 0x800,
};
const JOURNAL_MODE_MASK = 0x60;
const JOURNAL_MODES = ['', 'journal_data', 'journal_data_ordered', 'journal_data_writeback'];
const REFUSED_DEFAULTS: Readonly<Record<string, number>> = { debug: 0x1, nobarrier: 0x100 };
const JOURNAL_ORDERED = 2;

/** Why the host must not mount this ext4; null if it may. */
export function ext4Objection(block: Buffer, deviceBytes: bigint): Objection | null {
  return (
    geometryObjection(block, deviceBytes) ??
    featureObjection(block) ??
    journalObjection(block) ??
    optionObjection(block)
  );
}

function geometryObjection(block: Buffer, deviceBytes: bigint): Objection | null {
  if (block.readUInt16LE(AT.magic) !== MAGIC) return damaged('no ext4 superblock');
  if (block.readUInt32LE(AT.revision) > 1) return damaged('a superblock of an unknown revision');
  if (block.readUInt32LE(AT.logBlockSize) > LARGEST_LOG_BLOCK_SIZE) {
    return damaged('a block size over 64 KiB');
  }
  const { blocks, blockSize } = sizeOf(block);
  if (blocks * blockSize > deviceBytes) {
    return damaged(`a file system of ${blocks * blockSize} bytes on a device of ${deviceBytes}`);
  }
  if (block.readUInt32LE(AT.blocksPerGroup) === 0 || block.readUInt32LE(AT.inodesPerGroup) === 0) {
    return damaged('groups without blocks or inodes');
  }
  return null;
}

function featureObjection(block: Buffer): Objection | null {
  for (const [at, known, what] of [
    [AT.compatible, COMPATIBLE, 'compatible'],
    [AT.incompatible, INCOMPATIBLE, 'incompatible'],
    [AT.readOnlyCompatible, READ_ONLY_COMPATIBLE, 'read-only compatible'],
  ] as const) {
    const odd = without(block.readUInt32LE(at), known);
    if (odd === 0) continue;
    const name = at === AT.incompatible ? nameOf(odd, NAMES_OF_REFUSED) : null;
    return {
      found: name === null ? `${what} features 0x${odd.toString(16)}` : `the feature ${name}`,
      remedy: 'switch them off with tune2fs -O ^FEATURE on the raw device',
    };
  }
  return null;
}

/** Refuses an external journal: the kernel opens its device by number, and e2fsck writes to that device. */
function journalObjection(block: Buffer): Objection | null {
  const uuid = block.subarray(AT.journalUuid, AT.journalUuid + UUID_BYTES);
  const hasJournal = (block.readUInt32LE(AT.compatible) & HAS_JOURNAL) !== 0;
  const isInside =
    block.readUInt32LE(AT.journalDevice) === 0 &&
    uuid.every((byte) => byte === 0) &&
    (!hasJournal || block.readUInt32LE(AT.journalInode) !== 0);
  if (isInside) return null;
  return {
    found: 'a journal on another device',
    remedy: 'give it a journal of its own with tune2fs -O ^has_journal, then tune2fs -j',
  };
}

function optionObjection(block: Buffer): Objection | null {
  const text = block.subarray(AT.mountOptions, AT.mountOptions + MOUNT_OPTIONS_BYTES);
  if (text[0] !== 0) {
    return {
      found: 'mount options of its own',
      remedy: 'take them away with tune2fs -E mount_opts= on the raw device',
    };
  }
  const defaults = block.readUInt32LE(AT.defaultMountOptions);
  const mode = (defaults & JOURNAL_MODE_MASK) >>> 5;
  const odd = without(defaults, { ...DEFAULT_MOUNT_OPTIONS, mode: JOURNAL_MODE_MASK });
  const isModeKept = mode === 0 || mode === JOURNAL_ORDERED;
  if (odd === 0 && isModeKept) return null;
  const name = odd === 0 ? JOURNAL_MODES[mode] : nameOf(odd, REFUSED_DEFAULTS);
  return {
    found: `the default mount option ${name ?? `0x${odd.toString(16)}`}`,
    remedy: 'take it away with tune2fs -o ^OPTION on the raw device; options that a StorageClass names are used',
  };
}

/**
 * Whether the file system is an ext4, not an ext2, an ext3 or a journal, and fsck.ext4 -p would do nothing: the file system was
 * unmounted, has no orphans and no recorded errors, and neither a number of mounts nor an interval makes a check due.
 */
export function isExt4Clean(block: Buffer): boolean {
  const mostMounts = block.readInt16LE(AT.mostMounts);
  const incompatible = block.readUInt32LE(AT.incompatible);
  const isCheckDue =
    block.readUInt32LE(AT.checkInterval) !== 0 || (mostMounts > 0 && block.readUInt16LE(AT.mounts) >= mostMounts);
  return (
    block.readUInt16LE(AT.state) === CLEAN &&
    (incompatible & (EXTENTS | JOURNAL_DEVICE | NEEDS_RECOVERY)) === EXTENTS &&
    (block.readUInt32LE(AT.readOnlyCompatible) & ORPHANS_PRESENT) === 0 &&
    block.readUInt32LE(AT.lastOrphan) === 0 &&
    block.readUInt32LE(AT.errors) === 0 &&
    !isCheckDue
  );
}

/**
 * Whether resize2fs or the kernel would make the file system larger on a device of that size. The superblock has passed
 * `ext4Objection`. resize2fs and the kernel create no last group that would hold only tables.
 */
export function isExt4Growable(block: Buffer, deviceBytes: bigint): boolean {
  const { blocks, blockSize } = sizeOf(block);
  const perGroup = BigInt(block.readUInt32LE(AT.blocksPerGroup));
  const inodeBytes = BigInt(block.readUInt16LE(AT.inodeSize) || SMALLEST_INODE);
  const tables = (BigInt(block.readUInt32LE(AT.inodesPerGroup)) * inodeBytes) / blockSize + 3n;
  const reserved = BigInt(block.readUInt16LE(RESERVED_DESCRIPTORS));
  const descriptors = 1n + reserved + (blocks / perGroup) * (64n / blockSize + 1n);
  const wanted = deviceBytes / blockSize;
  const last = (wanted - BigInt(block.readUInt32LE(AT.firstBlock))) % perGroup;
  const isUseless = last < tables + descriptors + GROUP_SLACK_BLOCKS;
  return (isUseless ? wanted - last : wanted) > blocks;
}
const RESERVED_DESCRIPTORS = 0xce;
/** resize2fs makes no last group that has fewer blocks than this beside its own tables. */
const GROUP_SLACK_BLOCKS = 50n;

function sizeOf(block: Buffer): { blocks: bigint; blockSize: bigint } {
  const blockSize = 1024n << BigInt(block.readUInt32LE(AT.logBlockSize));
  const is64Bit = (block.readUInt32LE(AT.incompatible) & IS_64BIT) !== 0;
  const high = is64Bit ? BigInt(block.readUInt32LE(AT.blocksHigh)) : 0n;
  return { blocks: (high << 32n) | BigInt(block.readUInt32LE(AT.blocksLow)), blockSize };
}

/** The bits of a word that are not among the known ones. */
function without(word: number, known: Readonly<Record<string, number>>): number {
  return Object.values(known).reduce((left, bit) => left & ~bit, word) >>> 0;
}

const nameOf = (word: number, names: Readonly<Record<string, number>>): string | null =>
  Object.entries(names).find(([, bit]) => (word & bit) !== 0)?.[0] ?? null;

const damaged = (found: string): Objection => ({
  found,
  remedy: 'inspect it on the raw device with fsck.ext4, or restore a snapshot',
});
