// Original file: proto/csi-v0.3.proto


export interface NodeGetIdRequest {
}

export interface NodeGetIdRequest__Output {
}
