// Original file: proto/csi-v0.3.proto


export interface CreateSnapshotRequest {
  'source_volume_id'?: (string);
  'name'?: (string);
  'create_snapshot_secrets'?: ({[key: string]: string});
  'parameters'?: ({[key: string]: string});
}

export interface CreateSnapshotRequest__Output {
  'source_volume_id': (string);
  'name': (string);
  'create_snapshot_secrets': ({[key: string]: string});
  'parameters': ({[key: string]: string});
}
