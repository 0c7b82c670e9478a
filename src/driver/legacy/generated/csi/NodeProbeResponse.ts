// Original file: proto/csi-v0.1.proto


export interface NodeProbeResponse {
}

export interface NodeProbeResponse__Output {
}
