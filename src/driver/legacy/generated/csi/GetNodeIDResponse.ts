// Original file: proto/csi-v0.1.proto


export interface GetNodeIDResponse {
  'node_id'?: (string);
}

export interface GetNodeIDResponse__Output {
  'node_id': (string);
}
