// Original file: proto/csi-v0.3.proto


export interface NodeGetInfoRequest {
}

export interface NodeGetInfoRequest__Output {
}
