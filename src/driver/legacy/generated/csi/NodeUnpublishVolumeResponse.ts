// Original file: proto/csi-v0.1.proto


export interface NodeUnpublishVolumeResponse {
}

export interface NodeUnpublishVolumeResponse__Output {
}
