// Original file: proto/csi-v0.1.proto


export interface GetSupportedVersionsRequest {
}

export interface GetSupportedVersionsRequest__Output {
}
