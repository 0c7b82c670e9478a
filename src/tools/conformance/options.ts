/** The options of a run: where the driver is and how to create volumes with it. No parsing here. */
export type AccessType = 'block' | 'mount';

export type StringMap = Readonly<Record<string, string>>;

export interface SuiteOptions {
  /** Socket of the Identity and Node services; also of the others unless the next is given. */
  readonly socketPath: string;
  /** Socket of the Controller, GroupController and SnapshotMetadata services. */
  readonly controllerSocketPath: string;
  /** StorageClass parameters, given to every CreateVolume. */
  readonly parameters: StringMap;
  /** Given to every CreateSnapshot. */
  readonly snapshotParameters: StringMap;
  /** By RPC name; '*' for every RPC that is not named. */
  readonly secrets: Readonly<Record<string, StringMap>>;
  readonly access: readonly AccessType[];
  /** fs_type of mount volumes; empty: the driver chooses. */
  readonly mountFileSystem: string;
  /** Null: the smallest size that suits the file system. */
  readonly volumeSizeBytes: number | null;
  /** Staging and target paths are created below it. */
  readonly workDirectory: string;
  /** Patterns of check ids, with * for anything. Empty `only`: all. */
  readonly only: readonly string[];
  readonly skip: readonly string[];
  /** For one check, and for one call inside it. */
  readonly timeoutMs: number;
  readonly seed: number;
}

const MIB = 2 ** 20;
const BLOCK_VOLUME_BYTES = 64 * MIB;
/** The smallest sizes that mkfs accepts, with some margin. */
const MOUNT_VOLUME_BYTES: Readonly<Record<string, number>> = { xfs: 320 * MIB, btrfs: 256 * MIB };

export function volumeSizeOf(options: SuiteOptions, access: AccessType): number {
  if (options.volumeSizeBytes !== null) return options.volumeSizeBytes;
  if (access === 'block') return BLOCK_VOLUME_BYTES;
  return MOUNT_VOLUME_BYTES[options.mountFileSystem] ?? BLOCK_VOLUME_BYTES;
}
