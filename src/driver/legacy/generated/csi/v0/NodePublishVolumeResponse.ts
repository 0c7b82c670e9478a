// Original file: proto/csi-v0.3.proto


export interface NodePublishVolumeResponse {
}

export interface NodePublishVolumeResponse__Output {
}
