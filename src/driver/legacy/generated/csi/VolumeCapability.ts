// Original file: proto/csi-v0.1.proto


export interface _csi_VolumeCapability_AccessMode {
  'mode'?: (_csi_VolumeCapability_AccessMode_Mode);
}

export interface _csi_VolumeCapability_AccessMode__Output {
  'mode': (_csi_VolumeCapability_AccessMode_Mode__Output);
}

export interface _csi_VolumeCapability_BlockVolume {
}

export interface _csi_VolumeCapability_BlockVolume__Output {
}

// Original file: proto/csi-v0.1.proto

export const _csi_VolumeCapability_AccessMode_Mode = {
  UNKNOWN: 'UNKNOWN',
  SINGLE_NODE_WRITER: 'SINGLE_NODE_WRITER',
  SINGLE_NODE_READER_ONLY: 'SINGLE_NODE_READER_ONLY',
  MULTI_NODE_READER_ONLY: 'MULTI_NODE_READER_ONLY',
  MULTI_NODE_SINGLE_WRITER: 'MULTI_NODE_SINGLE_WRITER',
  MULTI_NODE_MULTI_WRITER: 'MULTI_NODE_MULTI_WRITER',
} as const;

export type _csi_VolumeCapability_AccessMode_Mode =
  | 'UNKNOWN'
  | 0
  | 'SINGLE_NODE_WRITER'
  | 1
  | 'SINGLE_NODE_READER_ONLY'
  | 2
  | 'MULTI_NODE_READER_ONLY'
  | 3
  | 'MULTI_NODE_SINGLE_WRITER'
  | 4
  | 'MULTI_NODE_MULTI_WRITER'
  | 5

export type _csi_VolumeCapability_AccessMode_Mode__Output = typeof _csi_VolumeCapability_AccessMode_Mode[keyof typeof _csi_VolumeCapability_AccessMode_Mode]

export interface _csi_VolumeCapability_MountVolume {
  'fs_type'?: (string);
  'mount_flags'?: (string)[];
}

export interface _csi_VolumeCapability_MountVolume__Output {
  'fs_type': (string);
  'mount_flags': (string)[];
}

export interface VolumeCapability {
  'block'?: (_csi_VolumeCapability_BlockVolume | null);
  'mount'?: (_csi_VolumeCapability_MountVolume | null);
  'access_mode'?: (_csi_VolumeCapability_AccessMode | null);
  'access_type'?: "block"|"mount";
}

export interface VolumeCapability__Output {
  'block'?: (_csi_VolumeCapability_BlockVolume__Output | null);
  'mount'?: (_csi_VolumeCapability_MountVolume__Output | null);
  'access_mode': (_csi_VolumeCapability_AccessMode__Output | null);
  'access_type'?: "block"|"mount";
}
