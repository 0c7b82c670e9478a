// Original file: proto/csi-v0.3.proto


export interface GetPluginInfoRequest {
}

export interface GetPluginInfoRequest__Output {
}
