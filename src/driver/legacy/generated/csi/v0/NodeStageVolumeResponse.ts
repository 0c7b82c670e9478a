// Original file: proto/csi-v0.3.proto


export interface NodeStageVolumeResponse {
}

export interface NodeStageVolumeResponse__Output {
}
