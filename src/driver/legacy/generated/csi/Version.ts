// Original file: proto/csi-v0.1.proto


export interface Version {
  'major'?: (number);
  'minor'?: (number);
  'patch'?: (number);
}

export interface Version__Output {
  'major': (number);
  'minor': (number);
  'patch': (number);
}
