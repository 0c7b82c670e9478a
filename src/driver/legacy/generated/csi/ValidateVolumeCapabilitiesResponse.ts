// Original file: proto/csi-v0.1.proto


export interface ValidateVolumeCapabilitiesResponse {
  'supported'?: (boolean);
  'message'?: (string);
}

export interface ValidateVolumeCapabilitiesResponse__Output {
  'supported': (boolean);
  'message': (string);
}
