// Original file: proto/csi-v0.3.proto


export interface ProbeRequest {
}

export interface ProbeRequest__Output {
}
