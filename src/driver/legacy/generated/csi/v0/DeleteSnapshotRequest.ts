// Original file: proto/csi-v0.3.proto


export interface DeleteSnapshotRequest {
  'snapshot_id'?: (string);
  'delete_snapshot_secrets'?: ({[key: string]: string});
}

export interface DeleteSnapshotRequest__Output {
  'snapshot_id': (string);
  'delete_snapshot_secrets': ({[key: string]: string});
}
