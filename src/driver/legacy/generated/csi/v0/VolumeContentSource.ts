// Original file: proto/csi-v0.3.proto


export interface _csi_v0_VolumeContentSource_SnapshotSource {
  'id'?: (string);
}

export interface _csi_v0_VolumeContentSource_SnapshotSource__Output {
  'id': (string);
}

export interface VolumeContentSource {
  'snapshot'?: (_csi_v0_VolumeContentSource_SnapshotSource | null);
  'type'?: "snapshot";
}

export interface VolumeContentSource__Output {
  'snapshot'?: (_csi_v0_VolumeContentSource_SnapshotSource__Output | null);
  'type'?: "snapshot";
}
