// Original file: proto/csi-v0.3.proto


export interface ListSnapshotsRequest {
  'max_entries'?: (number);
  'starting_token'?: (string);
  'source_volume_id'?: (string);
  'snapshot_id'?: (string);
}

export interface ListSnapshotsRequest__Output {
  'max_entries': (number);
  'starting_token': (string);
  'source_volume_id': (string);
  'snapshot_id': (string);
}
