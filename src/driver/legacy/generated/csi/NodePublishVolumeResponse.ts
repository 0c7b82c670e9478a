// Original file: proto/csi-v0.1.proto


export interface NodePublishVolumeResponse {
}

export interface NodePublishVolumeResponse__Output {
}
