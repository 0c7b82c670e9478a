// Original file: proto/csi-v0.1.proto


export interface ControllerProbeResponse {
}

export interface ControllerProbeResponse__Output {
}
