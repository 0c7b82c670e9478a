// Original file: proto/csi-v0.3.proto


export interface ControllerUnpublishVolumeResponse {
}

export interface ControllerUnpublishVolumeResponse__Output {
}
