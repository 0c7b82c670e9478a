// Original file: proto/csi-v0.3.proto


export interface NodeUnpublishVolumeRequest {
  'volume_id'?: (string);
  'target_path'?: (string);
}

export interface NodeUnpublishVolumeRequest__Output {
  'volume_id': (string);
  'target_path': (string);
}
