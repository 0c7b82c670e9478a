// Original file: proto/csi.proto


export interface ControllerGetVolumeHealthRequest {
  'volume_id'?: (string);
  'secrets'?: ({[key: string]: string});
}

export interface ControllerGetVolumeHealthRequest__Output {
  'volume_id': (string);
  'secrets': ({[key: string]: string});
}
