// Original file: proto/csi-v0.3.proto


export interface NodeGetIdResponse {
  'node_id'?: (string);
}

export interface NodeGetIdResponse__Output {
  'node_id': (string);
}
