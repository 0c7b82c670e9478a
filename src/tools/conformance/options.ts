/** The options of a run: where the driver is and how to create volumes with it. Parses nothing. */
export type AccessType = 'block' | 'mount';

export type StringMap = Readonly<Record<string, string>>;

export interface SuiteOptions {
  /** The socket of the Identity and Node services, and of the others unless `controllerSocketPath` differs. */
  readonly socketPath: string;
  /** The socket of the Controller, GroupController and SnapshotMetadata services. */
  readonly controllerSocketPath: string;
  /** The StorageClass parameters for every CreateVolume. */
  readonly parameters: StringMap;
  /** The parameters for every CreateSnapshot. */
  readonly snapshotParameters: StringMap;
  /** The secrets by RPC name; '*' stands for every RPC that is not named. */
  readonly secrets: Readonly<Record<string, StringMap>>;
  readonly access: readonly AccessType[];
  /** The fs_type of mount volumes; empty if the driver chooses. */
  readonly mountFileSystem: string;
  /** Null for the smallest size that suits the file system. */
  readonly volumeSizeBytes: number | null;
  /** Staging and target paths are created below this directory. */
  readonly workDirectory: string;
  /** Patterns of check ids, with * for anything. An empty `only` selects all checks. */
  readonly only: readonly string[];
  readonly skip: readonly string[];
  /** The timeout of one check, and of one call inside a check. */
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
