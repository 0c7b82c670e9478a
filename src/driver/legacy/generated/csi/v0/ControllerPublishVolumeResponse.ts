// Original file: proto/csi-v0.3.proto


export interface ControllerPublishVolumeResponse {
  'publish_info'?: ({[key: string]: string});
}

export interface ControllerPublishVolumeResponse__Output {
  'publish_info': ({[key: string]: string});
}
