/**
 * The file systems that a volume can have, and the smallest volume for each of them, in bytes. Every module that names file
 * systems uses this list. The plugin makes DEFAULT_FILE_SYSTEM when the caller asks for none.
 */
const MIB = 1n << 20n;

export const MINIMUM_BYTES = {
  /** Room for its journal. */
  ext4: 16n * MIB,
  /** mkfs.xfs makes nothing smaller (xfsprogs 5.19 and later). */
  xfs: 300n * MIB,
  /** BTRFS_IOC_RESIZE refuses a smaller size (EINVAL), also for mixed groups: a smaller btrfs cannot grow to less than this. */
  btrfs: 256n * MIB,
} as const satisfies Readonly<Record<string, bigint>>;

/** The smallest volumes that mkfs accepts, for volumes that were made smaller than MINIMUM_BYTES and for copies of them. */
export const MKFS_MINIMUM_BYTES: Readonly<Record<keyof typeof MINIMUM_BYTES, bigint>> = {
  ...MINIMUM_BYTES,
  /** mkfs.btrfs wants 109 MiB for metadata that is stored twice; a little more leaves room for data. */
  btrfs: 128n * MIB,
};

export type FileSystem = keyof typeof MINIMUM_BYTES;

export const FILE_SYSTEMS = Object.keys(MINIMUM_BYTES) as readonly FileSystem[];
export const DEFAULT_FILE_SYSTEM: FileSystem = 'ext4';

export function isFileSystem(type: string): type is FileSystem {
  return Object.hasOwn(MINIMUM_BYTES, type);
}

/** Why this host does not mount a file system: what its superblock holds, and the remedy. */
export interface Objection {
  /** A phrase that follows "it has". Holds no text from the device. */
  found: string;
  remedy: string;
}
