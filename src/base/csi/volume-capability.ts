/**
 * How a volume is used: its access mode, as a block device or a mounted file system, and the requested size. Has only types:
 * csi/fields.ts parses them, and driver/volumes/volume-rules.ts decides which values are supported.
 */

/** VolumeCapability.AccessMode.Mode of the CSI specification. */
export const ACCESS_MODES = [
  'SINGLE_NODE_WRITER',
  'SINGLE_NODE_READER_ONLY',
  'MULTI_NODE_READER_ONLY',
  'MULTI_NODE_SINGLE_WRITER',
  'MULTI_NODE_MULTI_WRITER',
  'SINGLE_NODE_SINGLE_WRITER',
  'SINGLE_NODE_MULTI_WRITER',
] as const;

export type AccessMode = (typeof ACCESS_MODES)[number];

export interface BlockAccess {
  readonly accessType: 'block';
}

export interface MountAccess {
  readonly accessType: 'mount';
  /** Empty if the plugin chooses. */
  readonly fsType: string;
  /** Sensitive: never logged. */
  readonly mountFlags: readonly string[];
  /** Empty if no group is requested. */
  readonly volumeMountGroup: string;
}

export type VolumeCapability = (BlockAccess | MountAccess) & { readonly accessMode: AccessMode };

/** Bounds in bytes. 0 is an unset bound; at least one of the two is set. */
export interface CapacityRange {
  readonly requiredBytes: bigint;
  readonly limitBytes: bigint;
}
