// Original file: proto/csi-v0.1.proto


export interface ControllerPublishVolumeResponse {
  'publish_volume_info'?: ({[key: string]: string});
}

export interface ControllerPublishVolumeResponse__Output {
  'publish_volume_info': ({[key: string]: string});
}
