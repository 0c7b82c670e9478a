// Original file: proto/csi-v0.3.proto


export interface ValidateVolumeCapabilitiesResponse {
  'supported'?: (boolean);
  'message'?: (string);
}

export interface ValidateVolumeCapabilitiesResponse__Output {
  'supported': (boolean);
  'message': (string);
}
