// Original file: proto/csi-v0.3.proto


export interface GetPluginCapabilitiesRequest {
}

export interface GetPluginCapabilitiesRequest__Output {
}
