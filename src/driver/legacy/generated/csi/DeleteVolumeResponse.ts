// Original file: proto/csi-v0.1.proto


export interface DeleteVolumeResponse {
}

export interface DeleteVolumeResponse__Output {
}
