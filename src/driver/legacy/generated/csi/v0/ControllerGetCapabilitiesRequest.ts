// Original file: proto/csi-v0.3.proto


export interface ControllerGetCapabilitiesRequest {
}

export interface ControllerGetCapabilitiesRequest__Output {
}
