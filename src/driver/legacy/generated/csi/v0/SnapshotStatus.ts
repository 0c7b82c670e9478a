// Original file: proto/csi-v0.3.proto


// Original file: proto/csi-v0.3.proto

export const _csi_v0_SnapshotStatus_Type = {
  UNKNOWN: 'UNKNOWN',
  READY: 'READY',
  UPLOADING: 'UPLOADING',
  ERROR_UPLOADING: 'ERROR_UPLOADING',
} as const;

export type _csi_v0_SnapshotStatus_Type =
  | 'UNKNOWN'
  | 0
  | 'READY'
  | 1
  | 'UPLOADING'
  | 2
  | 'ERROR_UPLOADING'
  | 3

export type _csi_v0_SnapshotStatus_Type__Output = typeof _csi_v0_SnapshotStatus_Type[keyof typeof _csi_v0_SnapshotStatus_Type]

export interface SnapshotStatus {
  'type'?: (_csi_v0_SnapshotStatus_Type);
  'details'?: (string);
}

export interface SnapshotStatus__Output {
  'type': (_csi_v0_SnapshotStatus_Type__Output);
  'details': (string);
}
