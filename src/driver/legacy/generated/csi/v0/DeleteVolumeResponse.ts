// Original file: proto/csi-v0.3.proto


export interface DeleteVolumeResponse {
}

export interface DeleteVolumeResponse__Output {
}
