/**
 * The file systems a volume can be given, with the smallest volume each gets, in bytes. Of all rooms that
 * name file systems, none knows another list. The first one is made when none is asked for.
 */
const MIB = 1n << 20n;

export const MINIMUM_BYTES = {
  /** Room for its journal. */
  ext4: 16n * MIB,
  /** mkfs.xfs makes nothing smaller (xfsprogs 5.19 and later). */
  xfs: 300n * MIB,
  /** BTRFS_IOC_RESIZE takes no smaller size (EINVAL), also for mixed groups: what is smaller cannot be grown to less. */
  btrfs: 256n * MIB,
} as const satisfies Readonly<Record<string, bigint>>;

/** What mkfs can work with, for volumes that were made smaller and copies of them. */
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

/** Why a file system is not mounted on this host: what its superblock holds, and the remedy. */
export interface Objection {
  /** Follows "it has". Holds no text from the device. */
  found: string;
  remedy: string;
}
