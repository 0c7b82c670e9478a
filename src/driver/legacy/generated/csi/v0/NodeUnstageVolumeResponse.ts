// Original file: proto/csi-v0.3.proto


export interface NodeUnstageVolumeResponse {
}

export interface NodeUnstageVolumeResponse__Output {
}
