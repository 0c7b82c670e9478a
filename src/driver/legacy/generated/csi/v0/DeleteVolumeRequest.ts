// Original file: proto/csi-v0.3.proto


export interface DeleteVolumeRequest {
  'volume_id'?: (string);
  'controller_delete_secrets'?: ({[key: string]: string});
}

export interface DeleteVolumeRequest__Output {
  'volume_id': (string);
  'controller_delete_secrets': ({[key: string]: string});
}
