// Original file: proto/csi-v0.3.proto


export interface NodeGetCapabilitiesRequest {
}

export interface NodeGetCapabilitiesRequest__Output {
}
