// Original file: proto/csi-v0.3.proto


export interface ControllerUnpublishVolumeRequest {
  'volume_id'?: (string);
  'node_id'?: (string);
  'controller_unpublish_secrets'?: ({[key: string]: string});
}

export interface ControllerUnpublishVolumeRequest__Output {
  'volume_id': (string);
  'node_id': (string);
  'controller_unpublish_secrets': ({[key: string]: string});
}
